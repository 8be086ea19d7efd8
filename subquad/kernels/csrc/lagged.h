// A depthwise convolution whose taps may lie anywhere: y_i,c = Σ_j W_j,c x_{i + o_j},c, where what
// lies outside x counts as zero. The gradient of x is the same sum with the offsets negated.
//
// An item is a block of kPad channels, of one row and at most kChunk positions, laid in scratch
// memory with the margins that the offsets reach, so that the inner loops know no edges.
#pragma once
#include "rows.h"

namespace subquad::SUBQUAD_ISA {

constexpr int64_t kChunk = 1024;
constexpr int kTogether = 4;  // positions, or taps, that share a load

struct Reach {
  int64_t low, high;  // the least and the greatest offset, at least 0 away
};
inline Reach reach(const Lagged& p) {
  Reach r{0, 0};
  for (int64_t j = 0; j < p.taps; ++j) {
    if (p.offsets[j] < r.low) r.low = p.offsets[j];
    if (p.offsets[j] > r.high) r.high = p.offsets[j];
  }
  return r;
}

// rows[i] <- channels [c, c + n) of x's position first + i, for i < count; zeros outside [0, t).
template <class E>
void load_block(const View& x, int64_t b, int64_t t, int64_t first, int64_t count, int64_t c,
                int64_t n, Wide<E>* rows) {
  std::memset(rows, 0, count * kPad * sizeof(Wide<E>));
  for (int64_t i = first < 0 ? -first : 0; i < count && first + i < t; ++i)
    load_row<E>(at<E>(x, b, first + i, c), x.s[2], n, rows + i * kPad);
}

// acc += Σ_j W_j x_{o_j} for kTogether positions, of which `x` points at the first.
template <class T>
void sum_taps(const T* x, const T* weight, const int64_t* offsets, int64_t taps, T* y) {
  constexpr int W = VecOf<T>::width, V = kPad / W;
  Vec<T> sums[kTogether][V] = {};
  for (int64_t j = 0; j < taps; ++j) {
    const T* from = x + offsets[j] * kPad;
    for (int v = 0; v < V; ++v) {
      const Vec<T> w = *reinterpret_cast<const Vec<T>*>(weight + j * kPad + v * W);
      for (int i = 0; i < kTogether; ++i)
        sums[i][v] += w * *reinterpret_cast<const Vec<T>*>(from + i * kPad + v * W);
    }
  }
  std::memcpy(y, sums, sizeof sums);
}

template <class E>
void lagged(const Lagged& p, Parallel run) {
  using T = Wide<E>;
  const Reach r = reach(p);
  const int64_t blocks = (p.d + kPad - 1) / kPad, chunks = (p.made + kChunk - 1) / kChunk;
  each(run, p.threads, p.b * blocks * chunks, [&](int64_t item) {
    const int64_t b = item / (blocks * chunks), c = item / chunks % blocks * kPad;
    const int64_t begin = item % chunks * kChunk, n = least(kChunk, p.made - begin);
    const int64_t width = least(kPad, p.d - c), room = n + kTogether, read = room + r.high - r.low;
    Scratch<T> scratch((read + p.taps + kTogether) * kPad);
    T* x = scratch.take(read * kPad, false);
    T* weight = scratch.take(p.taps * kPad);
    T* y = scratch.take(kTogether * kPad, false);
    load_block<E>(p.x, b, p.read, begin + r.low, read, c, width, x);
    for (int64_t j = 0; j < p.taps; ++j)
      std::memcpy(weight + j * kPad, reinterpret_cast<const T*>(p.weight) + j * p.d + c,
                  width * sizeof(T));
    for (int64_t i = 0; i < n; i += kTogether) {
      sum_taps(x + (i - r.low) * kPad, weight, p.offsets, p.taps, y);
      for (int64_t k = 0; k < least(kTogether, n - i); ++k)
        store_row<E>(y + k * kPad, width, at_mutable<E>(p.out, b, begin + i + k, c), p.out.s[2]);
    }
  });
}

// dW_j += Σ_i dy_i x_{i + o_j} over n positions, for the kTogether taps whose offsets are given.
template <class T>
void sum_positions(const T* dout, const T* x, const int64_t* offsets, int64_t n, T* dweight) {
  constexpr int W = VecOf<T>::width, V = kPad / W;
  Vec<T> sums[kTogether][V];
  std::memcpy(sums, dweight, sizeof sums);
  for (int64_t i = 0; i < n; ++i)
    for (int v = 0; v < V; ++v) {
      const Vec<T> above = *reinterpret_cast<const Vec<T>*>(dout + i * kPad + v * W);
      for (int j = 0; j < kTogether; ++j)
        sums[j][v] +=
            above * *reinterpret_cast<const Vec<T>*>(x + (i + offsets[j]) * kPad + v * W);
    }
  std::memcpy(dweight, sums, sizeof sums);
}

// dW_j,c = Σ_b Σ_i dy_b,i,c x_b,i+o_j,c. An item is a block of channels, summed in one order
// whatever the threads.
template <class E>
void lagged_weight(const Lagged& p, Parallel run) {
  using T = Wide<E>;
  const Reach r = reach(p);
  const int64_t taps = (p.taps + kTogether - 1) / kTogether * kTogether;
  each(run, p.threads, (p.d + kPad - 1) / kPad, [&](int64_t item) {
    const int64_t c = item * kPad, width = least(kPad, p.d - c);
    const int64_t read = kChunk + r.high - r.low;
    Scratch<T> scratch((kChunk + read + taps) * kPad);
    T* dout = scratch.take(kChunk * kPad, false);
    T* x = scratch.take(read * kPad, false);
    T* dweight = scratch.take(taps * kPad);
    for (int64_t b = 0; b < p.b; ++b)
      for (int64_t begin = 0; begin < p.made; begin += kChunk) {
        const int64_t n = least(kChunk, p.made - begin);
        load_block<E>(p.out, b, p.made, begin, n, c, width, dout);
        load_block<E>(p.x, b, p.read, begin + r.low, n + r.high - r.low, c, width, x);
        for (int64_t j = 0; j < taps; j += kTogether) {
          int64_t offsets[kTogether];
          for (int k = 0; k < kTogether; ++k) offsets[k] = p.offsets[least(j + k, p.taps - 1)];
          sum_positions(dout, x - r.low * kPad, offsets, n, dweight + j * kPad);
        }
      }
    for (int64_t j = 0; j < p.taps; ++j)
      std::memcpy(reinterpret_cast<T*>(p.dweight) + j * p.d + c, dweight + j * kPad,
                  width * sizeof(T));
  });
}

}  // namespace subquad::SUBQUAD_ISA
