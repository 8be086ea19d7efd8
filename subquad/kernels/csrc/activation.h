// GELU in its tanh form, x/2 · (1 + tanh u) with u = √(2/π) (x + 0.044715 x³), which is x · σ(2u).
#pragma once
#include "rows.h"

namespace subquad::SUBQUAD_ISA {

// e^(-2u), held where neither it nor its inverse overflows.
template <class T>
inline Vec<T> gelu_power(Vec<T> x) {
  const Vec<T> u = x * (T(-1.5957691216057308) - T(0.07135481627260025) * x * x);  // -2 √(2/π) …
  return exp_moderate(u > T(87) ? Vec<T>{} + T(87) : u);
}

template <class T>
inline Vec<T> gelu(Vec<T> x) {
  return x / (T(1) + gelu_power<T>(x));
}

// dgelu/dx = σ(2u) + x σ(2u) σ(-2u) 2u', with 2u' = 2 √(2/π) (1 + 3 · 0.044715 x²).
template <class T>
inline Vec<T> gelu_slope(Vec<T> x) {
  const Vec<T> e = gelu_power<T>(x), open = T(1) / (T(1) + e);
  return open + x * (open * (open * e)) * (T(1.5957691216057308) + T(0.21406444881780076) * x * x);
}

// out = gelu(x); or, where dout is given, out = dout · gelu'(x).
template <class E>
void gelu_rows(const Pointwise& p, Parallel run) {
  using T = Wide<E>;
  constexpr int64_t kPiece = 256, kItem = 64 * kPiece;  // an item is worth waking a thread for
  each(run, p.threads, (p.n + kItem - 1) / kItem, [&](int64_t item) {
    alignas(64) T x[kPiece] = {}, dout[kPiece] = {};
    const int64_t end = least(p.n, (item + 1) * kItem);
    for (int64_t i = item * kItem; i < end; i += kPiece) {
      const int64_t n = least(kPiece, end - i);
      load_row<E>(reinterpret_cast<const E*>(p.x) + i, 1, n, x);
      if (p.dout) load_row<E>(reinterpret_cast<const E*>(p.dout) + i, 1, n, dout);
      for (int64_t j = 0; j < n; j += VecOf<T>::width) {
        Vec<T>& v = *reinterpret_cast<Vec<T>*>(x + j);
        v = p.dout ? gelu_slope<T>(v) * *reinterpret_cast<const Vec<T>*>(dout + j) : gelu<T>(v);
      }
      store_row<E>(x, n, reinterpret_cast<E*>(p.out) + i, 1);
    }
  });
}

}  // namespace subquad::SUBQUAD_ISA
