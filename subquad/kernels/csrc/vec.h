// Vectors of one instruction set by the GCC/Clang vector extensions, and exp on them.
// Everything compiled more than once lives in its own namespace SUBQUAD_ISA and uses no template
// of the standard library: a merged copy with wider instructions would crash older processors.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "core.h"

#ifndef SUBQUAD_ISA
#define SUBQUAD_ISA baseline
#endif
#ifndef SUBQUAD_VECTOR_BYTES
#define SUBQUAD_VECTOR_BYTES 16
#endif

namespace subquad::SUBQUAD_ISA {

constexpr int kBytes = SUBQUAD_VECTOR_BYTES;
// Registers: 32 with AVX-512 and on 64-bit Arm, else 16.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr bool kManyRegisters = true;
#else
constexpr bool kManyRegisters = false;
#endif
// Scratch rows are padded to this many elements, whatever the vector width.
constexpr int kPad = 16;

template <class T, int kWidth>
struct Sized {
  typedef T type __attribute__((vector_size(kWidth * sizeof(T)), may_alias));
};
template <class T>
struct VecOf {
  static constexpr int width = kBytes / sizeof(T);
  using type = typename Sized<T, width>::type;
};
template <class T>
using Vec = typename VecOf<T>::type;
typedef int32_t VecInt __attribute__((vector_size(kBytes), may_alias));

inline int64_t padded(int64_t n) { return (n + kPad - 1) / kPad * kPad; }
inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// The sum of the lanes, by halving.
template <class T, int kWidth = VecOf<T>::width>
inline T sum(typename Sized<T, kWidth>::type x) {
  if constexpr (kWidth == 1) {
    return x[0];
  } else {
    typename Sized<T, kWidth / 2>::type low, high;
    std::memcpy(&low, &x, sizeof low);
    std::memcpy(&high, reinterpret_cast<char*>(&x) + sizeof low, sizeof low);
    return sum<T, kWidth / 2>(low + high);
  }
}

// exp(x) for x <= 87, relative error below 4e-7; below -87 it is 0; NaN stays NaN. For x > 88 the
// result is unspecified.
inline Vec<float> exp_moderate(Vec<float> x) {
  const float lowest = -87.0f, magic = 12582912.0f + 127;  // 1.5 * 2^23 rounds; 127 is 2^0's exponent
  const Vec<float> shifted = x * 1.44269504f + magic;
  const Vec<float> r = x - (shifted - magic) * 0.69314718f;
  Vec<float> p = r * 8.3124701e-3f + 4.1890553e-2f;
  p = p * r + 1.6667116e-1f;
  p = p * r + 4.9999229e-1f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return x < lowest ? Vec<float>{} : p * (Vec<float>)((VecInt)shifted << 23);
}

inline Vec<double> exp_moderate(Vec<double> x) {
  for (int i = 0; i < VecOf<double>::width; ++i) x[i] = std::exp(x[i]);
  return x;
}

// Aligned scratch memory of one item of work, handed out piece by piece.
template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t elements) : size_(padded(elements)) {
    base_ = static_cast<T*>(std::aligned_alloc(64, size_ * sizeof(T)));
    if (!base_) std::abort();
  }
  ~Scratch() { std::free(base_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* take(int64_t elements, bool zeroed = true) {
    T* piece = base_ + used_;
    used_ += padded(elements);
    if (used_ > size_) std::abort();
    if (zeroed) std::memset(piece, 0, padded(elements) * sizeof(T));
    return piece;
  }

 private:
  T* base_;
  int64_t size_, used_ = 0;
};

// Calls f(item) for every item, on the caller's threads.
template <class F>
void each(Parallel run, int threads, int64_t items, F f) {
  run(threads, items, [](void* c, int64_t i) { (*static_cast<F*>(c))(i); }, &f);
}

}  // namespace subquad::SUBQUAD_ISA
