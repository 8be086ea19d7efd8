// Choices made at run time: the instruction set, and whose threads to use.
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <dlfcn.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "core.h"

namespace subquad {

namespace baseline { extern const Table table; }
#ifdef SUBQUAD_X86
namespace avx2 { extern const Table table; }
namespace avx512 { extern const Table table; }
#endif

const Table* choose(const char* name) {
  const Table* able[3];
  int n = 0;
#ifdef SUBQUAD_X86
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    able[n++] = &avx512::table;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) able[n++] = &avx2::table;
#endif
  able[n++] = &baseline::table;
  for (int i = 0; i < n; ++i)
    if (!name || !std::strcmp(able[i]->name, name)) return able[i];
  return nullptr;
}

namespace {
const Table* step_table = choose();
}
StepKernel choose_step() { return step_table->step; }
void use_step(const Table* table) { step_table = table; }

namespace {

// torch brings an OpenMP runtime whose idle threads spin for a while: a second team beside it
// would fight for the same cores. So its own team is borrowed, through the two-argument entry that
// GCC's and LLVM's runtimes share, and nothing is linked.
using GompParallel = void (*)(void (*)(void*), void*, unsigned, unsigned);

GompParallel find_team() {
#if defined(__unix__) || defined(__APPLE__)
  return reinterpret_cast<GompParallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
#else
  return nullptr;
#endif
}

const GompParallel& borrowed() {
  static const GompParallel f = find_team();
  return f;
}

struct Work {
  Body body;
  void* context;
  int64_t items;
  std::atomic<int64_t> next{0};
};

void work(void* w) {
  Work& all = *static_cast<Work*>(w);
  for (int64_t i; (i = all.next.fetch_add(1)) < all.items;) all.body(all.context, i);
}

}  // namespace

void parallel(int threads, int64_t items, Body body, void* context) {
  Work all{body, context, items};
  if (threads > items) threads = static_cast<int>(items);
  if (threads <= 1) {
    work(&all);
  } else if (borrowed()) {
    borrowed()(work, &all, static_cast<unsigned>(threads), 0);
  } else {
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back(work, &all);
    work(&all);
    for (auto& other : others) other.join();
  }
}

void use_large_pages(char* p, int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr uintptr_t kPage = 2 << 20;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(p) + kPage - 1) / kPage * kPage;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(p) + bytes) / kPage * kPage;
  if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#else
  (void)p, (void)bytes;
#endif
}

const char* team() { return borrowed() ? "openmp" : "threads"; }

}  // namespace subquad
