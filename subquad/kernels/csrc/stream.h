// The one inner loop of linear attention. For tokens i of a block, in the order given:
//     S <- g_i S + b_i x_iᵀ        Eq. (10), (18); g is the decay, 1 in the papers
//     o_i += S ᵀ a_i               Eq. (9), the numerator
// A tile of S stays in registers for the whole block while rows a, b, x, o stream from the L1
// cache, so the work is the least possible: one multiply-add per element for the update and one
// for the reading. With the roles exchanged the same loop is every part of the backward
// (Eq. (13) to (15)); going backwards in time is a negative stride.
#pragma once
#include "rows.h"

namespace subquad::SUBQUAD_ISA {

// Rows of the caller's tensors that the next block will read or write: fetched a few at a time
// while this block is worked on, for memory is slower than one block's arithmetic.
struct Ahead {
  static constexpr int kLine = 64;
  struct Rows {
    const char* p;
    int64_t step, bytes;  // from row to row; of one row
  };
  Rows rows[6];
  int tensors = 0;
  int64_t left = 0;  // rows still to fetch

  void add(const void* p, int64_t step, int64_t bytes) {
    rows[tensors++] = {static_cast<const char*>(p), step, bytes};
  }
  void fetch(int64_t n) {
    for (; n > 0 && left > 0; --n, --left)
      for (int i = 0; i < tensors; ++i) {
        for (int64_t at = 0; at < rows[i].bytes; at += kLine) __builtin_prefetch(rows[i].p + at, 0, 2);
        rows[i].p += rows[i].step;
      }
  }
};

// Rows of a block of tokens. ab: stride of a and b; xo: stride of x and o.
template <class T>
struct Block {
  int64_t tokens;
  const T *a, *b, *x, *g;
  T* o;
  int64_t ab, xo, step;  // step: +1, or -1 for g read backwards
  Ahead* ahead = nullptr;
  bool fresh = false;        // o holds nothing yet
  const T* older = nullptr;  // what else belongs to S, and only reading wants
};

// What a fresh o is read from: the widest tile's columns.
alignas(64) constexpr char kZeros[4 * kBytes] = {};

template <class T>
Block<T> reversed(Block<T> k) {
  const int64_t last = k.tokens - 1;
  if (k.a) k.a += last * k.ab;
  if (k.o) k.o += last * k.xo;
  k.b += last * k.ab, k.x += last * k.xo;
  if (k.g) k.g += last;
  k.ab = -k.ab, k.xo = -k.xo, k.step = -1;
  return k;
}

// What a pass over a block does, as a type, so that every combination is compiled by itself.
template <bool read, bool update, bool decay, bool older>
struct Pass {
  static constexpr bool kRead = read, kUpdate = update, kDecay = decay, kOlder = older;
};

template <class P, class T, int N, int R>
inline void tile(const Block<T>& k, int64_t row, int64_t column, T* s, int64_t lds) {
  using V = Vec<T>;
  constexpr int W = VecOf<T>::width;
  V S[R][N];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) S[r][n] = *reinterpret_cast<V*>(s + r * lds + n * W);
  const T *a = k.a + row, *b = k.b + row, *x = k.x + column, *g = k.g;
  T* o = k.o + column;
  const bool fresh = k.fresh && row == 0;
  const T* before = fresh ? reinterpret_cast<const T*>(kZeros) : o;
  const T* older = P::kOlder ? k.older + row * lds + column : nullptr;
  // Copies: a vector that is stored may alias the block, which would be read again for each token.
  const int64_t ab = k.ab, xo = k.xo, step = k.step, before_step = fresh ? 0 : k.xo;
  for (int64_t left = k.tokens; left > 0; --left) {
    V X[N], O[N];
    if (P::kUpdate)
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) X[n] = *reinterpret_cast<const V*>(x + n * W);
    if (P::kRead)
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) O[n] = *reinterpret_cast<const V*>(before + n * W);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) {
        if (P::kDecay) S[r][n] *= *g;
        if (P::kUpdate) S[r][n] += b[r] * X[n];
        if (P::kRead && P::kOlder)
          O[n] += a[r] * (S[r][n] + *reinterpret_cast<const V*>(older + r * lds + n * W));
        else if (P::kRead)
          O[n] += a[r] * S[r][n];
      }
    }
    if (P::kRead)
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) *reinterpret_cast<V*>(o + n * W) = O[n];
    if (P::kRead) a += ab, o += xo, before += before_step;
    if (P::kUpdate) b += ab, x += xo;
    if (P::kDecay) g += step;
  }
  if (P::kUpdate || P::kDecay)
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) *reinterpret_cast<V*>(s + r * lds + n * W) = S[r][n];
}

// A column strip N vectors wide, all rows, R at a time and then one: in the padding behind them a
// zero would meet what is infinite.
template <class P, class T, int N>
inline void strip(const Block<T>& k, int64_t rows, int64_t column, T* s, int64_t lds) {
  constexpr int R = kManyRegisters && N <= 2 ? 8 : 4;
  // Tiles of this call, to spread the fetching over them.
  const int64_t tiles = (rows + R - 1) / R * ((lds + N * VecOf<T>::width - 1) / (N * VecOf<T>::width));
  int64_t row = 0;
  for (; row + R <= rows; row += R) {
    if (k.ahead) k.ahead->fetch((k.tokens + tiles - 1) / tiles);
    tile<P, T, N, R>(k, row, column, s + row * lds + column, lds);
  }
  for (; row < rows; ++row) tile<P, T, N, 1>(k, row, column, s + row * lds + column, lds);
}

template <class P, class T>
void stream_all(const Block<T>& k, int64_t rows, int64_t lds, T* s) {
  constexpr int W = VecOf<T>::width, N = kManyRegisters ? 4 : 2;
  int64_t column = 0;
  for (; column + N * W <= lds; column += N * W) strip<P, T, N>(k, rows, column, s, lds);
  if (kManyRegisters && column + 3 * W <= lds) {
    strip<P, T, 3>(k, rows, column, s, lds);
    column += 3 * W;
  }
  if (kManyRegisters && column + 2 * W <= lds) {
    strip<P, T, 2>(k, rows, column, s, lds);
    column += 2 * W;
  }
  for (; column + W <= lds; column += W) strip<P, T, 1>(k, rows, column, s, lds);
}

// `older` is for a sum without decay, read and updated at once (memory.h).
template <class T, bool kRead, bool kUpdate>
void stream(const Block<T>& k, int64_t rows, int64_t lds, T* s) {
  if (k.g) return stream_all<Pass<kRead, kUpdate, true, false>>(k, rows, lds, s);
  if constexpr (kRead && kUpdate)
    if (k.older) return stream_all<Pass<true, true, false, true>>(k, rows, lds, s);
  stream_all<Pass<kRead, kUpdate, false, false>>(k, rows, lds, s);
}

}  // namespace subquad::SUBQUAD_ISA
