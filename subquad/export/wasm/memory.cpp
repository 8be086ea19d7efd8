// Allocation and abort, so that the page does not have to provide them. A page creates one engine
// and keeps it, so freed memory is never reused.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

extern "C" char __heap_base;

namespace {
constexpr size_t kAligned = 64, kPage = 65536;
size_t end = 0;
}  // namespace

extern "C" {

void* malloc(size_t bytes) {
  if (!end) end = (reinterpret_cast<size_t>(&__heap_base) + kAligned - 1) / kAligned * kAligned;
  const size_t at = end, size = __builtin_wasm_memory_size(0) * kPage;
  if (bytes > SIZE_MAX - 2 * kPage - at) __builtin_trap();
  end = at + (bytes + kAligned - 1) / kAligned * kAligned;
  if (end > size && __builtin_wasm_memory_grow(0, (end - size + kPage - 1) / kPage) == SIZE_MAX)
    __builtin_trap();
  return reinterpret_cast<void*>(at);
}
void* aligned_alloc(size_t, size_t bytes) { return malloc(bytes); }
void free(void*) {}
void abort() { __builtin_trap(); }

}  // extern "C"

// Called when one of the standard library's own checks fails.
void std::__1::__libcpp_verbose_abort(const char*, ...) noexcept { __builtin_trap(); }

void* operator new(size_t bytes) { return malloc(bytes); }
void* operator new[](size_t bytes) { return malloc(bytes); }
void operator delete(void*) noexcept {}
void operator delete[](void*) noexcept {}
void operator delete(void*, size_t) noexcept {}
void operator delete[](void*, size_t) noexcept {}
