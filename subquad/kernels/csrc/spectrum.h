// From half of the columns of a real row's two-dimensional DFT X to a real row: Re X, or Re X - Im X
// (Hartley). The other half is X[-i,-j] = conj X[i,j], so that nothing complex is ever made whole.
#pragma once
#include "vec.h"

namespace subquad::SUBQUAD_ISA {

template <class T, bool kHartley>
void unfold_row(const T* left, const T* right, int64_t d, T* out) {
  const int64_t half = d / 2 + 1;
  for (int64_t j = 0; j < half; ++j)
    out[j] = kHartley ? left[2 * j] - left[2 * j + 1] : left[2 * j];
  const T* mirrored = right + 2 * (d - half);
  for (int64_t j = half; j < d; ++j, mirrored -= 2)
    out[j] = kHartley ? mirrored[0] + mirrored[1] : mirrored[0];
}

template <class T>
void unfold(const Spectrum& p, Parallel run) {
  constexpr int64_t kRows = 64;  // of one item
  const int64_t half = 2 * (p.d / 2 + 1), rows = p.b * p.t;
  each(run, p.threads, (rows + kRows - 1) / kRows, [&](int64_t item) {
    for (int64_t row = item * kRows; row < least(rows, (item + 1) * kRows); ++row) {
      const int64_t i = row % p.t;
      const T* left = reinterpret_cast<const T*>(p.half) + row * half;
      const T* right = i ? left + (p.t - 2 * i) * half : left;  // row -i
      T* out = reinterpret_cast<T*>(p.out) + row * p.d;
      p.hartley ? unfold_row<T, true>(left, right, p.d, out) : unfold_row<T, false>(left, right, p.d, out);
    }
  });
}

}  // namespace subquad::SUBQUAD_ISA
