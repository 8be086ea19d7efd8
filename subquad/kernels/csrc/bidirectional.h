// Bidirectional linear attention, Eq. (5): one pass sums, one reads. The sums of parts of a row
// are made side by side and gathered in order, so that one long row also keeps all threads busy.
#pragma once
#include "causal_backward.h"

namespace subquad::SUBQUAD_ISA {

template <class E>
void read_part(const Linear& p, int64_t row, int64_t from, int64_t to, Wide<E>* S,
               const Wide<E>* Z) {
  using T = Wide<E>;
  const Row<E> r(p, row);
  const int64_t K = padded(p.k), M = padded(p.m);
  Scratch<T> scratch(kBlock * (K + M));
  T *q = scratch.take(kBlock * K), *o = scratch.take(kBlock * M);
  for (int64_t i = from; i < to; i += kBlock) {
    const int64_t c = least(kBlock, to - i);
    r.queries(i, c, q);
    Ahead next = r.ahead(i + kBlock, kBlock, p.q, p.out);
    stream<T, true, false>({c, q, q, o, nullptr, o, K, M, 1, &next, true}, p.k, M, S);
    for (int64_t j = 0; j < c; ++j)
      store_quotient<T, E>(o + j * M, dot(q + j * K, Z, K), p.m,
                           at_mutable<E>(p.out, r.b, r.h, i + j), p.out.s[3]);  // Eq. (5)
  }
}

// A function that sums S and Z of one part.
template <class E>
auto part_sums(const Linear& p, const Cut& cut, States<Wide<E>>& at) {
  return [&p, &cut, &at](int64_t item) {
    const int64_t row = item / cut.parts, part = item % cut.parts;
    Wide<E> unused;
    forward_sums<E>(p, row, cut.from(part), cut.to(part), at.s_of(row, part), at.z_of(row, part),
                    unused);
  };
}

// A row that is not cut goes through all of its stages while it is in the cache.
template <class E>
void bidirectional_forward(const Linear& p, Parallel run) {
  const int64_t rows = p.b * p.h;
  const Cut cut(p);
  States<Wide<E>> at(p, cut.parts);
  const auto sums = part_sums<E>(p, cut, at);
  const auto reading = [&](int64_t item) {
    const int64_t row = item / cut.parts, part = item % cut.parts;
    read_part<E>(p, row, cut.from(part), cut.to(part), at.s_of(row, 0), at.z_of(row, 0));
  };
  if (cut.parts == 1)
    return each(run, p.threads, rows, [&](int64_t row) { sums(row), reading(row); });
  each(run, p.threads, rows * cut.parts, sums);
  at.gather(rows);
  each(run, p.threads, rows * cut.parts, reading);
}

// dQ of part [from, to), and the part's own R and P (see causal_backward.h; no order in time).
template <class E>
void query_part_all(const Linear& p, int64_t row, int64_t from, int64_t to, const Wide<E>* S,
                    const Wide<E>* Z, Wide<E>* R_out, Wide<E>* P_out) {
  using T = Wide<E>;
  const Row<E> r(p, row);
  const int64_t K = padded(p.k), M = padded(p.m);
  Scratch<T> scratch(Memory<T>::elements(p.k, p.m) + KeySum<T>::elements(p.k) + K * M +
                     kBlock * (2 * K + M));
  Memory<T> R(scratch, p.k, p.m);
  KeySum<T> P(scratch, p.k);
  T* transposed = scratch.take(K * M);
  transpose(S, p.k, p.m, transposed);
  T *q = scratch.take(kBlock * K), *G = scratch.take(kBlock * M), *dq = scratch.take(kBlock * K);
  for (int64_t i = from; i < to; i += kBlock) {
    const int64_t c = least(kBlock, to - i);
    r.queries(i, c, q), r.gradients(i, c, nullptr, G);
    for (int64_t j = 0; j < c; ++j) {
      const T D = dot(q + j * K, Z, K);
      scale(G + j * M, D == 0 ? T(0) : 1 / D, p.m);  // the padding stays zero
    }
    Ahead next = r.ahead(i + kBlock, kBlock, p.q, p.dout, p.dq);
    stream<T, true, false>({c, G, G, dq, nullptr, dq, M, K, 1, nullptr, true}, p.m, K, transposed);
    R.template step<false, true>({c, q, q, G, nullptr, G, K, M, 1, &next});
    for (int64_t j = 0; j < c; ++j) {
      T* row_dq = dq + j * K;
      const T D = dot(q + j * K, Z, K);
      const T e = D == 0 ? T(0) : -dot(q + j * K, row_dq, K) / D;
      P.add(q + j * K, e, nullptr, nullptr);
      for (int64_t l = 0; l < K; ++l) row_dq[l] += e * Z[l];
      apply_slope(p.map, q + j * K, p.k, row_dq);
      store_row<E>(row_dq, p.k, at_mutable<E>(p.dq, r.b, r.h, i + j), p.dq.s[3]);
    }
    P.end_of_block();
  }
  std::memcpy(R_out, R.total(), K * M * sizeof(T));
  std::memcpy(P_out, P.z, K * sizeof(T));
}

template <class E>
void key_value_part_all(const Linear& p, int64_t row, int64_t from, int64_t to, Wide<E>* R,
                        const Wide<E>* P) {
  using T = Wide<E>;
  const Row<E> r(p, row);
  const int64_t K = padded(p.k), M = padded(p.m);
  Scratch<T> scratch(K * M + kBlock * (2 * K + 2 * M));
  T* transposed = scratch.take(K * M);
  transpose(R, p.k, p.m, transposed);
  T *k = scratch.take(kBlock * K), *v = scratch.take(kBlock * M);
  T *dk = scratch.take(kBlock * K), *dv = scratch.take(kBlock * M);
  for (int64_t i = from; i < to; i += kBlock) {
    const int64_t c = least(kBlock, to - i);
    r.keys(i, c, k), r.values(i, c, v);
    Ahead next = r.ahead(i + kBlock, kBlock, p.key, p.v), made = r.ahead(i + kBlock, kBlock, p.dk, p.dv);
    stream<T, true, false>({c, k, k, dv, nullptr, dv, K, M, 1, &next, true}, p.k, M, R);
    stream<T, true, false>({c, v, v, dk, nullptr, dk, M, K, 1, &made, true}, p.m, K, transposed);
    for (int64_t j = 0; j < c; ++j) {
      T* row_dk = dk + j * K;
      for (int64_t l = 0; l < K; ++l) row_dk[l] += P[l];
      apply_slope(p.map, k + j * K, p.k, row_dk);
      if (!r.real(i + j)) std::memset(row_dk, 0, K * sizeof(T));
      store_row<E>(row_dk, p.k, at_mutable<E>(p.dk, r.b, r.h, i + j), p.dk.s[3]);
      store_row<E>(dv + j * M, p.m, at_mutable<E>(p.dv, r.b, r.h, i + j), p.dv.s[3]);
    }
  }
}

template <class E>
void bidirectional_backward(const Linear& p, Parallel run) {
  const int64_t rows = p.b * p.h;
  const Cut cut(p);
  States<Wide<E>> at(p, cut.parts), after(p, cut.parts);
  const auto queries = [&](int64_t item) {
    const int64_t row = item / cut.parts, part = item % cut.parts;
    query_part_all<E>(p, row, cut.from(part), cut.to(part), at.s_of(row, 0), at.z_of(row, 0),
                      after.s_of(row, part), after.z_of(row, part));
  };
  const auto keys_and_values = [&](int64_t item) {
    const int64_t row = item / cut.parts, part = item % cut.parts;
    key_value_part_all<E>(p, row, cut.from(part), cut.to(part), after.s_of(row, 0),
                          after.z_of(row, 0));
  };
  const auto sums = part_sums<E>(p, cut, at);
  if (cut.parts == 1)
    return each(run, p.threads, rows,
                [&](int64_t row) { sums(row), queries(row), keys_and_values(row); });
  each(run, p.threads, rows * cut.parts, sums);
  at.gather(rows);
  each(run, p.threads, rows * cut.parts, queries);
  after.gather(rows);
  each(run, p.threads, rows * cut.parts, keys_and_values);
}

}  // namespace subquad::SUBQUAD_ISA
