// S and Z of Eq. (10) and (11) as a pass carries them through the blocks of a row.
#pragma once
#include "stream.h"

namespace subquad::SUBQUAD_ISA {

// After this many tokens a sum is put aside and a new one begun: one rounding per addition would
// otherwise bias a long sum of equal terms by up to 6e-8 per token.
constexpr int64_t kFold = 16384;

template <class T>
class Memory {
 public:
  static int64_t elements(int64_t rows, int64_t columns) {
    return 2 * padded(rows) * padded(columns);
  }
  Memory(Scratch<T>& scratch, int64_t rows, int64_t columns)
      : rows_(rows), lds_(padded(columns)), size_(padded(rows) * padded(columns)) {
    s = scratch.take(size_);
    old_ = scratch.take(size_, false);
  }

  template <bool kRead, bool kUpdate>
  void step(Block<T> k) {
    if (age_ + k.tokens > kFold) fold();
    age_ += k.tokens;
    if (folded_ && k.g) {  // it decays, too
      stream<T, kRead, false>(k, rows_, lds_, old_);
      k.fresh = false;
    } else if (folded_) {
      k.older = old_;
    }
    stream<T, kRead, kUpdate>(k, rows_, lds_, s);
  }

  // The whole sum, all in `s`.
  T* total() {
    for (int64_t i = 0; folded_ && i < size_; ++i) s[i] += old_[i];
    folded_ = false, age_ = 0;
    return s;
  }

  T* s;

 private:
  void fold() {
    for (int64_t i = 0; i < size_; ++i) old_[i] = folded_ ? old_[i] + s[i] : s[i], s[i] = 0;
    folded_ = true, age_ = 0;
  }

  int64_t rows_, lds_, size_, age_ = 0;
  T* old_;
  bool folded_ = false;
};

// The normaliser's sum Z: the tokens of the present block apart from those before.
template <class T>
class KeySum {
 public:
  static int64_t elements(int64_t k) { return 2 * padded(k); }
  KeySum(Scratch<T>& scratch, int64_t k) : n(padded(k)) {
    z = scratch.take(n);
    now_ = scratch.take(n);
  }

  // Z <- g Z + factor k; returns into `into` (may be null); with q, returns q·Z.
  inline void add(const T* key, T factor, const T* g, T* into) {
    for (int64_t i = 0; i < n; i += VecOf<T>::width) {
      V& old = *reinterpret_cast<V*>(z + i);
      V& now = *reinterpret_cast<V*>(now_ + i);
      if (g) old *= *g, now *= *g;
      now += factor * *reinterpret_cast<const V*>(key + i);
      if (into) *reinterpret_cast<V*>(into + i) = old + now;
    }
  }
  inline T add_and_read(const T* key, const T* g, const T* q) {
    V total{};
    for (int64_t i = 0; i < n; i += VecOf<T>::width) {
      V& old = *reinterpret_cast<V*>(z + i);
      V& now = *reinterpret_cast<V*>(now_ + i);
      if (g) old *= *g, now *= *g;
      now += *reinterpret_cast<const V*>(key + i);
      total += (old + now) * *reinterpret_cast<const V*>(q + i);
    }
    return sum<T>(total);
  }
  void end_of_block() {
    for (int64_t i = 0; i < n; ++i) z[i] += now_[i], now_[i] = 0;
  }

  int64_t n;
  T* z;

 private:
  using V = Vec<T>;
  T* now_;
};

}  // namespace subquad::SUBQUAD_ISA
