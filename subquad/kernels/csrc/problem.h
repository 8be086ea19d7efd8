// A problem seen by one (batch row, head): packing blocks of tokens, loading and storing states,
// and the cutting of time among threads.
#pragma once
#include "memory.h"

namespace subquad::SUBQUAD_ISA {

constexpr int64_t kBlock = 32;  // tokens per block: its rows and a tile of S fit the L1 cache

template <class E>
struct Row {
  using T = Wide<E>;
  const Linear& p;
  int64_t b, h;

  Row(const Linear& problem, int64_t item)
      : p(problem), b(item / problem.h), h(item % problem.h) {}

  bool real(int64_t i) const {
    return !p.mask.p || *reinterpret_cast<const uint8_t*>(p.mask.p + b * p.mask.s[0] + i * p.mask.s[1]);
  }
  void queries(int64_t from, int64_t c, T* rows) const { mapped(p.q, from, c, rows, false); }
  void keys(int64_t from, int64_t c, T* rows) const { mapped(p.key, from, c, rows, true); }
  void values(int64_t from, int64_t c, T* rows) const {
    for (int64_t i = 0; i < c; ++i) {
      T* row = rows + i * padded(p.m);
      if (real(from + i))
        load_row<E>(at<E>(p.v, b, h, from + i), p.v.s[3], p.m, row);
      else
        std::memset(row, 0, p.m * sizeof(T));
    }
  }
  // dOut, each row times its factor.
  void gradients(int64_t from, int64_t c, const T* factor, T* rows) const {
    for (int64_t i = 0; i < c; ++i) {
      T* row = rows + i * padded(p.m);
      const T f = factor ? factor[i] : T(1);
      load_row<E>(at<E>(p.dout, b, h, from + i), p.dout.s[3], p.m, row, f);
    }
  }
  // Decays of tokens from..from+c-1; a masked token's is 1, and so is one past the end.
  const T* decays(int64_t from, int64_t c, T* g) const {
    if (!p.decay.p) return nullptr;
    for (int64_t i = 0; i < c; ++i)
      g[i] = from + i < p.t && real(from + i) ? *at<T>(p.decay, b, h, from + i) : T(1);
    return g;
  }
  // The rows of `views` that hold c tokens from `from` on (none past the row's ends).
  template <class... Views>
  Ahead ahead(int64_t from, int64_t c, const Views&... views) const {
    Ahead a;
    if (from < 0) c += from, from = 0;
    a.left = least(c, p.t - from);
    const auto one = [&](const View& x, int64_t width) {
      const int64_t span = x.s[3] == 1 ? width * int64_t(sizeof(E)) : 1;
      a.add(at<E>(x, b, h, from), x.s[2] * int64_t(sizeof(E)), span);
    };
    (one(views, &views == &p.q || &views == &p.key || &views == &p.dq || &views == &p.dk ? p.k : p.m),
     ...);
    return a;
  }
  void load_state(const View& s, const View& z, T* rows, T* sum) const {
    if (s.p)
      for (int64_t i = 0; i < p.k; ++i)
        load_row<T>(at<T>(s, b, h, i), s.s[3], p.m, rows + i * padded(p.m));
    if (z.p) load_row<T>(at<T>(z, b, h), z.s[2], p.k, sum);
  }
  void store_state(const View& s, const View& z, const T* rows, const T* sum) const {
    if (s.p)
      for (int64_t i = 0; i < p.k; ++i)
        store_row<T>(rows + i * padded(p.m), p.m, at_mutable<T>(s, b, h, i), s.s[3]);
    if (z.p) store_row<T>(sum, p.k, at_mutable<T>(z, b, h), z.s[2]);
  }

 private:
  void mapped(const View& x, int64_t from, int64_t c, T* rows, bool masked) const {
    for (int64_t i = 0; i < c; ++i) {
      T* row = rows + i * padded(p.k);
      if (masked && !real(from + i)) {
        std::memset(row, 0, p.k * sizeof(T));
        continue;
      }
      load_mapped<E>(p.map, at<E>(x, b, h, from + i), x.s[3], p.k, row);
    }
  }
};

// rows [m][padded k] from s [k][padded m].
template <class T>
void transpose(const T* s, int64_t k, int64_t m, T* rows) {
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < m; ++j) rows[j * padded(k) + i] = s[i * padded(m) + j];
}

// Time cut into `parts` where there are fewer rows than threads, never inside a block.
struct Cut {
  int64_t parts, length, t;
  explicit Cut(const Linear& p) : parts(1), length(p.t), t(p.t) {
    const int64_t rows = p.b * p.h, shortest = 8 * kBlock;
    if (rows == 0 || rows >= p.threads || p.t < 2 * shortest) return;
    const int64_t wanted = (p.threads + rows - 1) / rows;
    length = (p.t + wanted - 1) / wanted;
    length = (length + kBlock - 1) / kBlock * kBlock;
    if (length < shortest) length = shortest;
    parts = (p.t + length - 1) / length;
  }
  int64_t from(int64_t part) const { return part * length; }
  int64_t to(int64_t part) const { return least(t, (part + 1) * length); }
};

// States at the beginning (or, backwards, at the end) of every part of every row.
template <class T>
struct States {
  int64_t parts, s_size, z_size;
  Scratch<T> scratch;
  T *s, *z, *g;  // g: the product of a part's decays
  States(const Linear& p, int64_t parts_)
      : parts(parts_), s_size(padded(p.k) * padded(p.m)), z_size(padded(p.k)),
        scratch(p.b * p.h * parts * (s_size + z_size + 1) + kPad) {
    s = scratch.take(p.b * p.h * parts * s_size);
    z = scratch.take(p.b * p.h * parts * z_size);
    g = scratch.take(p.b * p.h * parts);
  }
  T* s_of(int64_t row, int64_t part) { return s + (row * parts + part) * s_size; }
  T* z_of(int64_t row, int64_t part) { return z + (row * parts + part) * z_size; }
  T& g_of(int64_t row, int64_t part) { return g[row * parts + part]; }
  // next <- local sum already in `next` + g * before
  void join(int64_t row, int64_t before, int64_t next) {
    const T f = g_of(row, next);
    T *a = s_of(row, before), *b = s_of(row, next);
    for (int64_t i = 0; i < s_size; ++i) b[i] += f * a[i];
    a = z_of(row, before), b = z_of(row, next);
    for (int64_t i = 0; i < z_size; ++i) b[i] += f * a[i];
  }
  // The sum over the parts of each row, in its first part; no decay.
  void gather(int64_t rows) {
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t part = 1; part < parts; ++part) {
        g_of(row, 0) = 1;
        join(row, part, 0);
      }
  }
};

}  // namespace subquad::SUBQUAD_ISA
