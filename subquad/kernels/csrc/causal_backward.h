// Causal linear attention, backward. Nothing but the inputs is kept from the forward: one pass in
// the order of time gives dQ, one against it gives dK and dV. With N_i, D_i the numerator and
// denominator of Eq. (9), G_i = dOut_i / D_i and e_i = -(dOut_i · N_i) / D_i²:
//     dφ(Q_i) = S_i G_i + e_i Z_i                                    Eq. (13)
//     dφ(K_i) = R_i V_i + P_i,   R_i = g_{i+1} R_{i+1} + φ(Q_i) G_iᵀ   Eq. (14)
//     dV_i    = R_iᵀ φ(K_i),     P_i = g_{i+1} P_{i+1} + e_i φ(Q_i)    Eq. (15)
// and dOut_i · N_i = φ(Q_i) · S_i G_i D_i, so the outputs themselves are not needed.
#pragma once
#include "causal.h"

namespace subquad::SUBQUAD_ISA {

// 1/D_i (zero where D_i is) and e_i of all tokens of all rows.
template <class T>
struct Divisors {
  int64_t t;
  Scratch<T> scratch;
  T *inverse, *e;
  explicit Divisors(const Linear& p) : t(p.t), scratch(2 * padded(p.b * p.h * p.t) + kPad) {
    inverse = scratch.take(p.b * p.h * p.t);
    e = scratch.take(p.b * p.h * p.t);
  }
};

template <class E>
void query_part(const Linear& p, int64_t row, int64_t from, int64_t to, const Wide<E>* s,
                const Wide<E>* z, Wide<E>* inverse, Wide<E>* e) {
  using T = Wide<E>;
  const Row<E> r(p, row);
  const int64_t K = padded(p.k), M = padded(p.m);
  Scratch<T> scratch(Memory<T>::elements(p.m, p.k) + KeySum<T>::elements(p.k) +
                     kBlock * (4 * K + 2 * M + 1));
  Memory<T> memory(scratch, p.m, p.k);  // Sᵀ
  KeySum<T> keys(scratch, p.k);
  transpose(s, p.k, p.m, memory.s);
  std::memcpy(keys.z, z, K * sizeof(T));
  T *q = scratch.take(kBlock * K), *k = scratch.take(kBlock * K), *v = scratch.take(kBlock * M);
  T *G = scratch.take(kBlock * M), *dq = scratch.take(kBlock * K), *Z = scratch.take(kBlock * K);
  T* g = scratch.take(kBlock);
  for (int64_t i = from; i < to; i += kBlock) {
    const int64_t c = least(kBlock, to - i);
    r.queries(i, c, q), r.keys(i, c, k), r.values(i, c, v);
    const T* decay = r.decays(i, c, g);
    for (int64_t j = 0; j < c; ++j) {
      keys.add(k + j * K, T(1), decay ? decay + j : nullptr, Z + j * K);
      const T D = dot(q + j * K, Z + j * K, K);
      inverse[i + j] = D == 0 ? 0 : 1 / D;
    }
    keys.end_of_block();
    r.gradients(i, c, inverse + i, G);
    Ahead next = r.ahead(i + kBlock, kBlock, p.q, p.key, p.v, p.dout, p.dq);
    memory.template step<true, true>({c, G, v, k, decay, dq, M, K, 1, &next, true});  // Eq. (13)
    for (int64_t j = 0; j < c; ++j) {
      T* row_dq = dq + j * K;
      const T factor = e[i + j] = -dot(q + j * K, row_dq, K) * inverse[i + j];
      for (int64_t l = 0; l < K; ++l) row_dq[l] += factor * Z[j * K + l];
      apply_slope(p.map, q + j * K, p.k, row_dq);
      store_row<E>(row_dq, p.k, at_mutable<E>(p.dq, r.b, r.h, i + j), p.dq.s[3]);
    }
  }
}

// The sums R and P over part [from, to) alone.
template <class E>
void backward_sums(const Linear& p, int64_t row, int64_t from, int64_t to, const Wide<E>* inverse,
                   const Wide<E>* e, Wide<E>* R, Wide<E>* P, Wide<E>& product) {
  using T = Wide<E>;
  const Row<E> r(p, row);
  const int64_t K = padded(p.k), M = padded(p.m);
  Scratch<T> scratch(Memory<T>::elements(p.k, p.m) + KeySum<T>::elements(p.k) +
                     kBlock * (K + M + 1));
  Memory<T> memory(scratch, p.k, p.m);
  KeySum<T> sum(scratch, p.k);
  T *q = scratch.take(kBlock * K), *G = scratch.take(kBlock * M), *g = scratch.take(kBlock);
  product = 1;
  for (int64_t end = to; end > from;) {
    const int64_t i = from + (end - 1 - from) / kBlock * kBlock, c = end - i;
    r.queries(i, c, q), r.gradients(i, c, inverse + i, G);
    const T* decay = r.decays(i + 1, c, g);
    Ahead next = r.ahead(i - kBlock, kBlock, p.q, p.dout);
    memory.template step<false, true>(reversed<T>({c, q, q, G, decay, G, K, M, 1, &next}));
    for (int64_t j = c - 1; j >= 0; --j) {
      sum.add(q + j * K, e[i + j], decay ? decay + j : nullptr, nullptr);
      if (decay) product *= decay[j];
    }
    sum.end_of_block();
    end = i;
  }
  std::memcpy(R, memory.total(), K * M * sizeof(T));
  std::memcpy(P, sum.z, K * sizeof(T));
}

// R and P after every part.
template <class E>
void backward_states(const Linear& p, Parallel run, const Cut& cut, const Divisors<Wide<E>>& d,
                     States<Wide<E>>& at) {
  const int64_t rows = p.b * p.h, inner = cut.parts - 1;
  for (int64_t row = 0; row < rows; ++row)
    Row<E>(p, row).load_state(p.ds, p.dz, at.s_of(row, inner), at.z_of(row, inner));
  if (inner == 0) return;
  each(run, p.threads, rows * inner, [&](int64_t item) {
    const int64_t row = item / inner, part = item % inner + 1;
    backward_sums<E>(p, row, cut.from(part), cut.to(part), d.inverse + row * p.t,
                     d.e + row * p.t, at.s_of(row, part - 1), at.z_of(row, part - 1),
                     at.g_of(row, part - 1));
  });
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t part = inner; part > 0; --part) at.join(row, part, part - 1);
}

template <class E>
void key_value_part(const Linear& p, int64_t row, int64_t from, int64_t to, const Wide<E>* R,
                    const Wide<E>* P, const Wide<E>* inverse, const Wide<E>* e) {
  using T = Wide<E>;
  const Row<E> r(p, row);
  const int64_t K = padded(p.k), M = padded(p.m);
  Scratch<T> scratch(2 * Memory<T>::elements(p.k, p.m) + KeySum<T>::elements(p.k) +
                     kBlock * (3 * K + 3 * M + 1) + K);
  Memory<T> memory(scratch, p.k, p.m), mirror(scratch, p.m, p.k);  // R and Rᵀ
  KeySum<T> sum(scratch, p.k);
  std::memcpy(memory.s, R, K * M * sizeof(T));
  transpose(R, p.k, p.m, mirror.s);
  std::memcpy(sum.z, P, K * sizeof(T));
  T *q = scratch.take(kBlock * K), *k = scratch.take(kBlock * K), *v = scratch.take(kBlock * M);
  T *G = scratch.take(kBlock * M), *dk = scratch.take(kBlock * K), *dv = scratch.take(kBlock * M);
  T *g = scratch.take(kBlock), *p_i = scratch.take(K);
  for (int64_t end = to; end > from;) {
    const int64_t i = from + (end - 1 - from) / kBlock * kBlock, c = end - i;
    r.queries(i, c, q), r.keys(i, c, k), r.values(i, c, v), r.gradients(i, c, inverse + i, G);
    const T* decay = r.decays(i + 1, c, g);
    Ahead next = r.ahead(i - kBlock, kBlock, p.q, p.key, p.v, p.dout);
    Ahead made = r.ahead(i - kBlock, kBlock, p.dk, p.dv);
    memory.template step<true, true>(reversed<T>({c, k, q, G, decay, dv, K, M, 1, &next, true}));  // Eq. (15)
    mirror.template step<true, true>(reversed<T>({c, v, G, q, decay, dk, M, K, 1, &made, true}));  // Eq. (14)
    for (int64_t j = c - 1; j >= 0; --j) {
      sum.add(q + j * K, e[i + j], decay ? decay + j : nullptr, p_i);
      T* row_dk = dk + j * K;
      for (int64_t l = 0; l < K; ++l) row_dk[l] += p_i[l];
      apply_slope(p.map, k + j * K, p.k, row_dk);
      if (!r.real(i + j)) std::memset(row_dk, 0, K * sizeof(T));
      store_row<E>(row_dk, p.k, at_mutable<E>(p.dk, r.b, r.h, i + j), p.dk.s[3]);
      store_row<E>(dv + j * M, p.m, at_mutable<E>(p.dv, r.b, r.h, i + j), p.dv.s[3]);
    }
    sum.end_of_block();
    end = i;
  }
  if (from > 0) return;
  T* s = memory.total();
  if (r.decays(0, 1, g)) scale(s, g[0], K * M), scale(sum.z, g[0], K);
  r.store_state(p.ds0, p.dz0, s, sum.z);
}

// dL/dg_i = <R_i, S_{i-1}> + P_i · Z_{i-1}, with no division by g_i, which may be zero. States are
// kept every kGroup tokens and replayed; only the rows being worked on need that memory.
template <class E>
void decay_row(const Linear& p, int64_t row, const Wide<E>* inverse, const Wide<E>* e) {
  using T = Wide<E>;
  constexpr int64_t kGroup = 64;
  const Row<E> r(p, row);
  const int64_t K = padded(p.k), M = padded(p.m), size = K * M + K;  // S and then Z
  const int64_t groups = (p.t + kGroup - 1) / kGroup;
  Scratch<T> scratch((groups + 1 + kGroup + 1) * size + kGroup * 2 * (K + M) + 2 * kGroup);
  T *kept = scratch.take((groups + 1) * size), *before = scratch.take(kGroup * size);
  T *R = scratch.take(size), *q = scratch.take(kGroup * K), *k = scratch.take(kGroup * K);
  T *v = scratch.take(kGroup * M), *G = scratch.take(kGroup * M);
  T *g = scratch.take(kGroup), *next = scratch.take(kGroup);
  const auto advance = [&](T* s, const T* from, const T* a, const T* x, T z_part, T decay) {
    for (int64_t i = 0; i < p.k; ++i) {
      for (int64_t j = 0; j < M; ++j) s[i * M + j] = decay * from[i * M + j] + a[i] * x[j];
      s[K * M + i] = decay * from[K * M + i] + z_part * a[i];
    }
  };
  r.load_state(p.s0, p.z0, kept, kept + K * M);
  for (int64_t n = 0; n < groups; ++n) {
    const int64_t c = least(kGroup, p.t - n * kGroup);
    r.keys(n * kGroup, c, k), r.values(n * kGroup, c, v), r.decays(n * kGroup, c, g);
    std::memcpy(R, kept + n * size, size * sizeof(T));
    for (int64_t i = 0; i < c; ++i) advance(R, R, k + i * K, v + i * M, 1, g[i]);
    std::memcpy(kept + (n + 1) * size, R, size * sizeof(T));
  }
  std::memset(R, 0, size * sizeof(T));
  r.load_state(p.ds, p.dz, R, R + K * M);
  for (int64_t n = groups - 1; n >= 0; --n) {
    const int64_t from = n * kGroup, c = least(kGroup, p.t - from);
    r.queries(from, c, q), r.keys(from, c, k), r.values(from, c, v);
    r.gradients(from, c, inverse + from, G);
    r.decays(from, c, g), r.decays(from + 1, c, next);
    std::memcpy(before, kept + n * size, size * sizeof(T));
    for (int64_t i = 0; i + 1 < c; ++i)
      advance(before + (i + 1) * size, before + i * size, k + i * K, v + i * M, 1, g[i]);
    for (int64_t i = c - 1; i >= 0; --i) {
      advance(R, R, q + i * K, G + i * M, e[from + i], next[i]);
      T* out = at_mutable<T>(p.ddecay, r.b, r.h, from + i);
      *out = r.real(from + i) ? dot(R, before + i * size, size) : T(0);
    }
  }
}

template <class E>
void causal_backward(const Linear& p, Parallel run) {
  using T = Wide<E>;
  const int64_t rows = p.b * p.h;
  const Cut cut(p);
  Divisors<T> d(p);
  States<T> at(p, cut.parts), after(p, cut.parts);
  const auto queries = [&](int64_t item) {
    const int64_t row = item / cut.parts, part = item % cut.parts;
    query_part<E>(p, row, cut.from(part), cut.to(part), at.s_of(row, part), at.z_of(row, part),
                  d.inverse + row * p.t, d.e + row * p.t);
  };
  const auto keys_and_values = [&](int64_t item) {
    const int64_t row = item / cut.parts, part = item % cut.parts;
    key_value_part<E>(p, row, cut.from(part), cut.to(part), after.s_of(row, part),
                      after.z_of(row, part), d.inverse + row * p.t, d.e + row * p.t);
  };
  forward_states<E>(p, run, cut, at);
  if (cut.parts == 1) {
    backward_states<E>(p, run, cut, d, after);
    each(run, p.threads, rows, [&](int64_t row) { queries(row), keys_and_values(row); });
  } else {
    each(run, p.threads, rows * cut.parts, queries);
    backward_states<E>(p, run, cut, d, after);
    each(run, p.threads, rows * cut.parts, keys_and_values);
  }
  if (p.ddecay.p)
    each(run, p.threads, rows, [&](int64_t row) {
      decay_row<E>(p, row, d.inverse + row * p.t, d.e + row * p.t);
    });
}

}  // namespace subquad::SUBQUAD_ISA
