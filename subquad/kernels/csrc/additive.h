// Additive attention's pooling (Fastformer, Eq. (3) and (4) or (5) and (6)), per head over its own
// features, with the score vectors already divided by the scale:
//
//     s_i = W x_i;   α_i = softmax_i(s_i);   y = Σ_i α_i x_i
//
// The forward reads x once (the softmax is kept relative to the greatest score so far); the backward
// reads it once and writes dx, with P = y dyᵀ of each head:
//
//     ds_i = α_i (x_i dyᵀ - P);   dx_i = α_i dy + Wᵀ ds_i;   dW = Σ_i ds_i x_iᵀ
//
// An item is a piece of one row; pieces are summed in order, whatever the threads.
#pragma once
#include "rows.h"

namespace subquad::SUBQUAD_ISA {

constexpr int64_t kPiece = 256;  // tokens
constexpr int kGroup = 4;        // tokens that share a load of W

// Elements in which a piece keeps what it found: the greatest score of each head, the sum of
// e^(s - greatest), the sum of e^(s - greatest) x.
inline int64_t pool_room(const Pool& p) { return 2 * padded(p.h) + padded(p.d); }

// The real tokens of a piece, kGroup at a time: `rows` holds them, zeros behind the last.
template <class E>
struct Tokens {
  const Pool& p;
  int64_t b, place, end;
  Wide<E>* rows;
  int64_t which[kGroup];
  int n;
  bool next() {
    const int64_t width = padded(p.d);
    for (n = 0; n < kGroup && place < end; ++place) {
      if (p.mask.p && !*at<char>(p.mask, b, place)) continue;
      load_row<E>(at<E>(p.x, b, place), p.x.s[2], p.d, rows + n * width);
      which[n++] = place;
    }
    std::memset(rows + n * width, 0, (kGroup - n) * width * sizeof(*rows));
    return n > 0;
  }
};

// scores[i] <- W x_i, [kGroup, padded(h)].
template <class T>
void score(const Pool& p, const T* weight, const T* rows, T* scores) {
  constexpr int W = VecOf<T>::width;
  const int64_t width = padded(p.d);
  for (int64_t h = 0; h < p.h; ++h) {
    Vec<T> sums[kGroup] = {};
    for (int64_t c = 0; c < width; c += W) {
      const Vec<T> w = *reinterpret_cast<const Vec<T>*>(weight + h * width + c);
      for (int i = 0; i < kGroup; ++i)
        sums[i] += w * *reinterpret_cast<const Vec<T>*>(rows + i * width + c);
    }
    for (int i = 0; i < kGroup; ++i) scores[i * padded(p.h) + h] = sum<T>(sums[i]);
  }
}

// x[h] <- e^(x[h] - top[h]).
template <class T>
void exp_under(const T* top, int64_t n, T* x) {
  for (int64_t h = 0; h < n; h += VecOf<T>::width) {
    Vec<T>& v = *reinterpret_cast<Vec<T>*>(x + h);
    v = exp_moderate(v - *reinterpret_cast<const Vec<T>*>(top + h));
  }
}

// y[c] += factor[head of c] · x[c], or for `x` null: y[c] *= factor[head of c].
template <class T>
void add_by_head(const Pool& p, const T* factor, const T* x, T* y) {
  const int64_t k = p.d / p.h;
  for (int64_t h = 0; h < p.h; ++h) {
    const T f = factor[h];
    const T* from = x + h * k;
    T* to = y + h * k;
    for (int64_t c = 0; c < k; ++c) to[c] = x ? to[c] + f * from[c] : to[c] * f;
  }
}

// sums[h] <- Σ over head h of x y.
template <class T>
void dot_by_head(const Pool& p, const T* x, const T* y, T* sums) {
  const int64_t k = p.d / p.h;
  for (int64_t h = 0; h < p.h; ++h) {
    T total = 0;
    for (int64_t c = h * k; c < (h + 1) * k; ++c) total += x[c] * y[c];
    sums[h] = total;
  }
}

// Row b's W with padded rows.
template <class T>
void load_weight(const Pool& p, int64_t b, T* weight) {
  for (int64_t h = 0; h < p.h; ++h)
    std::memcpy(weight + h * padded(p.d), at<T>(p.weight, b, h), p.d * sizeof(T));
}

template <class E>
void pool_piece(const Pool& p, int64_t b, int64_t begin, Wide<E>* found) {
  using T = Wide<E>;
  const int64_t width = padded(p.d), heads = padded(p.h);
  Scratch<T> scratch((p.h + kGroup) * width + (kGroup + 2) * heads);
  T* weight = scratch.take(p.h * width);
  T* rows = scratch.take(kGroup * width);
  T* scores = scratch.take(kGroup * heads);
  T *was = scratch.take(heads), *greatest = found, *total = found + heads, *y = total + heads;
  load_weight<T>(p, b, weight);
  for (int64_t h = 0; h < heads; ++h) greatest[h] = h < p.h ? T(-1e30) : 0;
  std::memset(total, 0, (heads + width) * sizeof(T));
  Tokens<E> tokens{p, b, begin, least(begin + kPiece, p.t), rows, {}, 0};
  while (tokens.next()) {
    score<T>(p, weight, rows, scores);
    std::memcpy(was, greatest, heads * sizeof(T));
    bool risen = false;
    for (int i = 0; i < tokens.n; ++i)
      for (int64_t h = 0; h < p.h; ++h) {
        const T s = scores[i * heads + h];
        if (!(s <= greatest[h])) greatest[h] = s, risen = true;  // NaN rises too
      }
    if (risen) {
      exp_under<T>(greatest, heads, was);
      for (int64_t h = 0; h < p.h; ++h) total[h] *= was[h];
      add_by_head<T>(p, was, nullptr, y);
    }
    for (int i = 0; i < tokens.n; ++i) {
      T* e = scores + i * heads;
      exp_under<T>(greatest, heads, e);
      for (int64_t h = 0; h < p.h; ++h) total[h] += e[h];
      add_by_head<T>(p, e, rows + i * width, y);
    }
  }
}

// The pieces of row b together: y, and log Σ e^s of each head (0 for a row without a token).
template <class T>
void join_pieces(const Pool& p, int64_t b, int64_t pieces, const T* found) {
  const int64_t heads = padded(p.h), k = p.d / p.h;
  T* y = at_mutable<T>(p.y, b, 0);
  T* log_sum = at_mutable<T>(p.log_sum, b, 0);
  for (int64_t h = 0; h < p.h; ++h) {
    T greatest = T(-1e30), total = 0;
    for (int64_t i = 0; i < pieces; ++i) {
      const T* piece = found + i * pool_room(p);
      if (piece[heads + h] != 0 && !(piece[h] <= greatest)) greatest = piece[h];
    }
    for (int64_t c = h * k; c < (h + 1) * k; ++c) y[c] = 0;
    for (int64_t i = 0; i < pieces; ++i) {
      const T* piece = found + i * pool_room(p);
      if (piece[heads + h] == 0) continue;
      const T factor = T(std::exp(double(piece[h] - greatest)));
      total += factor * piece[heads + h];
      for (int64_t c = h * k; c < (h + 1) * k; ++c) y[c] += factor * piece[2 * heads + c];
    }
    const T share = total != 0 ? 1 / total : 0;
    for (int64_t c = h * k; c < (h + 1) * k; ++c) y[c] *= share;
    log_sum[h] = total != 0 ? greatest + T(std::log(double(total))) : 0;
  }
}

template <class E>
void pool(const Pool& p, Parallel run) {
  using T = Wide<E>;
  const int64_t pieces = (p.t + kPiece - 1) / kPiece, room = pool_room(p);
  Scratch<T> scratch(p.b * pieces * room + kPad);
  T* found = scratch.take(p.b * pieces * room, false);
  each(run, p.threads, p.b * pieces, [&](int64_t item) {
    pool_piece<E>(p, item / pieces, item % pieces * kPiece, found + item * room);
  });
  for (int64_t b = 0; b < p.b; ++b) join_pieces<T>(p, b, pieces, found + b * pieces * room);
}

// dx_i <- α_i dy + Wᵀ ds_i, dW += ds_i x_iᵀ for a group of tokens; `dx` [kGroup, width].
template <class T>
void spread_group(const Pool& p, const T* weight, const T* rows, const T* ds, T* dx, T* dweight) {
  constexpr int W = VecOf<T>::width;
  const int64_t width = padded(p.d), heads = padded(p.h);
  for (int64_t c = 0; c < width; c += W) {
    Vec<T> x[kGroup], sums[kGroup] = {};
    for (int i = 0; i < kGroup; ++i) x[i] = *reinterpret_cast<const Vec<T>*>(rows + i * width + c);
    for (int64_t h = 0; h < p.h; ++h) {
      const Vec<T> w = *reinterpret_cast<const Vec<T>*>(weight + h * width + c);
      Vec<T>& dw = *reinterpret_cast<Vec<T>*>(dweight + h * width + c);
      Vec<T> more = dw;
      for (int i = 0; i < kGroup; ++i) {
        const T s = ds[i * heads + h];
        sums[i] += s * w;
        more += s * x[i];
      }
      dw = more;
    }
    for (int i = 0; i < kGroup; ++i) *reinterpret_cast<Vec<T>*>(dx + i * width + c) = sums[i];
  }
}

template <class E>
void pool_backward_piece(const Pool& p, int64_t b, int64_t begin, Wide<E>* dweight) {
  using T = Wide<E>;
  const int64_t width = padded(p.d), heads = padded(p.h), end = least(begin + kPiece, p.t);
  Scratch<T> scratch((p.h + 2 * kGroup) * width + (2 * kGroup + 2) * heads);
  T* weight = scratch.take(p.h * width);
  T* rows = scratch.take(kGroup * width);
  T* dx = scratch.take(kGroup * width);
  T* alpha = scratch.take(kGroup * heads);
  T* ds = scratch.take(kGroup * heads);
  T *log_sum = scratch.take(heads), *mean = scratch.take(heads);
  const T *y = at<T>(p.y, b, 0), *dy = at<T>(p.dy, b, 0);
  load_weight<T>(p, b, weight);
  std::memcpy(log_sum, at<T>(p.log_sum, b, 0), p.h * sizeof(T));
  dot_by_head<T>(p, y, dy, mean);
  std::memset(dweight, 0, p.h * width * sizeof(T));
  if (p.mask.p)
    for (int64_t i = begin; i < end; ++i)
      if (!*at<char>(p.mask, b, i)) store_row<E>(dx, p.d, at_mutable<E>(p.dx, b, i), p.dx.s[2]);
  Tokens<E> tokens{p, b, begin, end, rows, {}, 0};
  while (tokens.next()) {
    score<T>(p, weight, rows, alpha);
    for (int i = 0; i < kGroup; ++i) {
      T *a = alpha + i * heads, *s = ds + i * heads;
      exp_under<T>(log_sum, heads, a);
      dot_by_head<T>(p, rows + i * width, dy, s);
      for (int64_t h = 0; h < p.h; ++h) s[h] = i < tokens.n ? a[h] * (s[h] - mean[h]) : 0;
    }
    spread_group<T>(p, weight, rows, ds, dx, dweight);
    for (int i = 0; i < tokens.n; ++i) {
      add_by_head<T>(p, alpha + i * heads, dy, dx + i * width);
      store_row<E>(dx + i * width, p.d, at_mutable<E>(p.dx, b, tokens.which[i]), p.dx.s[2]);
    }
  }
}

template <class E>
void pool_backward(const Pool& p, Parallel run) {
  using T = Wide<E>;
  const int64_t pieces = (p.t + kPiece - 1) / kPiece, width = padded(p.d), room = p.h * width;
  Scratch<T> scratch(p.b * pieces * room + kPad);
  T* found = scratch.take(p.b * pieces * room, false);
  each(run, p.threads, p.b * pieces, [&](int64_t item) {
    pool_backward_piece<E>(p, item / pieces, item % pieces * kPiece, found + item * room);
  });
  each(run, p.threads, p.b * p.h, [&](int64_t item) {
    T* out = at_mutable<T>(p.dweight, item / p.h, item % p.h);
    for (int64_t c = 0; c < p.d; ++c) out[c] = 0;
    for (int64_t i = 0; i < pieces; ++i) {
      const T* piece = found + (item / p.h * pieces + i) * room + item % p.h * width;
      for (int64_t c = 0; c < p.d; ++c) out[c] += piece[c];
    }
  });
}

}  // namespace subquad::SUBQUAD_ISA
