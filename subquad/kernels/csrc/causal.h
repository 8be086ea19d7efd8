// Causal linear attention, forward: Eq. (9) to (11), and (18), (19) with a decay.
#pragma once
#include "problem.h"

namespace subquad::SUBQUAD_ISA {

// The sums of part [from, to) alone, for those parts that another one follows.
template <class E>
void forward_sums(const Linear& p, int64_t row, int64_t from, int64_t to, Wide<E>* s, Wide<E>* z,
                  Wide<E>& product) {
  using T = Wide<E>;
  const Row<E> r(p, row);
  const int64_t K = padded(p.k), M = padded(p.m);
  Scratch<T> scratch(Memory<T>::elements(p.k, p.m) + KeySum<T>::elements(p.k) +
                     kBlock * (K + M + 1) + kPad);
  Memory<T> memory(scratch, p.k, p.m);
  KeySum<T> keys(scratch, p.k);
  T *k = scratch.take(kBlock * K), *v = scratch.take(kBlock * M), *g = scratch.take(kBlock);
  product = 1;
  for (int64_t i = from; i < to; i += kBlock) {
    const int64_t c = least(kBlock, to - i);
    r.keys(i, c, k), r.values(i, c, v);
    const T* decay = r.decays(i, c, g);
    Ahead next = r.ahead(i + kBlock, kBlock, p.key, p.v);
    memory.template step<false, true>({c, k, k, v, decay, v, K, M, 1, &next});  // Eq. (10)
    for (int64_t j = 0; j < c; ++j) {
      keys.add(k + j * K, T(1), decay ? decay + j : nullptr, nullptr);  // Eq. (11)
      if (decay) product *= decay[j];
    }
    keys.end_of_block();
  }
  std::memcpy(s, memory.total(), K * M * sizeof(T));
  std::memcpy(z, keys.z, K * sizeof(T));
}

// S and Z before every part.
template <class E>
void forward_states(const Linear& p, Parallel run, const Cut& cut, States<Wide<E>>& at) {
  const int64_t rows = p.b * p.h, inner = cut.parts - 1;
  for (int64_t row = 0; row < rows; ++row)
    Row<E>(p, row).load_state(p.s0, p.z0, at.s_of(row, 0), at.z_of(row, 0));
  if (inner == 0) return;
  each(run, p.threads, rows * inner, [&](int64_t item) {
    const int64_t row = item / inner, part = item % inner;
    forward_sums<E>(p, row, cut.from(part), cut.to(part), at.s_of(row, part + 1),
                    at.z_of(row, part + 1), at.g_of(row, part + 1));
  });
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t part = 0; part < inner; ++part) at.join(row, part, part + 1);
}

template <class T, class E>
inline void store_quotient(T* row, T denominator, int64_t n, E* out, int64_t stride) {
  if (denominator == 0) std::memset(row, 0, n * sizeof(T));
  store_row<E>(row, n, out, stride, denominator == 0 ? T(1) : 1 / denominator);
}

template <class E>
void forward_part(const Linear& p, int64_t row, int64_t from, int64_t to, bool last,
                  const Wide<E>* s, const Wide<E>* z) {
  using T = Wide<E>;
  const Row<E> r(p, row);
  const int64_t K = padded(p.k), M = padded(p.m);
  Scratch<T> scratch(Memory<T>::elements(p.k, p.m) + KeySum<T>::elements(p.k) +
                     kBlock * (2 * K + 2 * M + 2));
  Memory<T> memory(scratch, p.k, p.m);
  KeySum<T> keys(scratch, p.k);
  if (s)
    std::memcpy(memory.s, s, K * M * sizeof(T)), std::memcpy(keys.z, z, K * sizeof(T));
  else
    r.load_state(p.s0, p.z0, memory.s, keys.z);
  T *q = scratch.take(kBlock * K, K != p.k), *k = scratch.take(kBlock * K, K != p.k);
  T *v = scratch.take(kBlock * M, M != p.m), *o = scratch.take(kBlock * M, false);
  T *g = scratch.take(kBlock), *den = scratch.take(kBlock);
  for (int64_t i = from; i < to; i += kBlock) {
    const int64_t c = least(kBlock, to - i);
    r.queries(i, c, q), r.keys(i, c, k), r.values(i, c, v);
    const T* decay = r.decays(i, c, g);
    for (int64_t j = 0; j < c; ++j)
      den[j] = keys.add_and_read(k + j * K, decay ? decay + j : nullptr, q + j * K);  // Eq. (11)
    keys.end_of_block();
    Ahead next = r.ahead(i + kBlock, kBlock, p.q, p.key, p.v, p.out);
    memory.template step<true, true>({c, q, k, v, decay, o, K, M, 1, &next, true});  // Eq. (10)
    for (int64_t j = 0; j < c; ++j)
      store_quotient<T, E>(o + j * M, den[j], p.m, at_mutable<E>(p.out, r.b, r.h, i + j),
                           p.out.s[3]);  // Eq. (9)
  }
  if (last) r.store_state(p.s, p.z, memory.total(), keys.z);
}

template <class E>
void causal_forward(const Linear& p, Parallel run) {
  const Cut cut(p);
  if (cut.parts == 1)
    return each(run, p.threads, p.b * p.h, [&](int64_t row) {
      forward_part<E>(p, row, 0, p.t, true, nullptr, nullptr);
    });
  States<Wide<E>> at(p, cut.parts);
  forward_states<E>(p, run, cut, at);
  each(run, p.threads, p.b * p.h * cut.parts, [&](int64_t item) {
    const int64_t row = item / cut.parts, part = item % cut.parts;
    forward_part<E>(p, row, cut.from(part), cut.to(part), part == cut.parts - 1,
                    at.s_of(row, part), at.z_of(row, part));
  });
}

}  // namespace subquad::SUBQUAD_ISA
