// Between the caller's memory (any dtype, any stride) and scratch rows (wide, padded with zeros).
#pragma once
#include "vec.h"

namespace subquad::SUBQUAD_ISA {

struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

// Wide<E>: what sums of E are kept in.
template <class E>
struct WideOf {
  using type = float;
};
template <>
struct WideOf<double> {
  using type = double;
};
template <class E>
using Wide = typename WideOf<E>::type;

template <class A, class B>
constexpr bool kIs = false;
template <class A>
constexpr bool kIs<A, A> = true;

inline float from_bits(uint32_t u) {
  float f;
  std::memcpy(&f, &u, 4);
  return f;
}
inline uint32_t to_bits(float f) {
  uint32_t u;
  std::memcpy(&u, &f, 4);
  return u;
}

inline float widen(float x) { return x; }
inline double widen(double x) { return x; }
inline float widen(BFloat16 x) { return from_bits(uint32_t(x.bits) << 16); }
inline float widen(Float16 x) {
  uint32_t sign = uint32_t(x.bits & 0x8000) << 16, rest = uint32_t(x.bits & 0x7fff) << 13;
  float normal = from_bits(rest + (112u << 23));
  float subnormal = from_bits(rest + (113u << 23)) - from_bits(113u << 23);
  float special = from_bits(rest | 0x7f800000);  // infinity and NaN
  float f = rest < (1u << 23) ? subnormal : rest >= (31u << 23) ? special : normal;
  return from_bits(to_bits(f) | sign);
}

inline void narrow(float x, float& y) { y = x; }
inline void narrow(double x, double& y) { y = x; }
inline void narrow(float x, BFloat16& y) {  // to nearest, ties to even; NaN stays NaN
  uint32_t u = to_bits(x);
  uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  y.bits = uint16_t((u & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
}
inline void narrow(float x, Float16& y) {
  uint32_t u = to_bits(x), sign = (u >> 16) & 0x8000, a = u & 0x7fffffff;
  uint32_t normal = (a + 0xfff + ((a >> 13) & 1) - (112u << 23)) >> 13;
  uint32_t subnormal = to_bits(from_bits(a) + 0.5f) - to_bits(0.5f);
  uint32_t h = a > 0x7f800000 ? 0x7e00 : a >= 0x47800000 ? 0x7c00 : a < 0x38800000 ? subnormal : normal;
  y.bits = uint16_t(h | sign);
}

template <class E>
const E* at(const View& x, int64_t i, int64_t j, int64_t l = 0) {
  return reinterpret_cast<const E*>(x.p) + i * x.s[0] + j * x.s[1] + l * x.s[2];
}
template <class E>
E* at_mutable(const View& x, int64_t i, int64_t j, int64_t l = 0) {
  return reinterpret_cast<E*>(x.p) + i * x.s[0] + j * x.s[1] + l * x.s[2];
}

// A whole vector from consecutive elements.
template <class E>
inline Vec<Wide<E>> load_vector(const E* x) {
  using T = Wide<E>;
  constexpr int W = VecOf<T>::width;
  Vec<T> v;
  if constexpr (sizeof(E) == sizeof(T)) {
    std::memcpy(&v, x, sizeof v);
  } else if constexpr (kIs<E, BFloat16>) {
    typename Sized<uint16_t, W>::type bits;
    std::memcpy(&bits, x, sizeof bits);
    v = (Vec<T>)(__builtin_convertvector(bits, typename Sized<uint32_t, W>::type) << 16);
  } else {
    for (int i = 0; i < W; ++i) v[i] = widen(x[i]);
  }
  return v;
}

// row[i] <- factor * x[i]
template <class E>
inline void load_row(const E* x, int64_t stride, int64_t n, Wide<E>* row, Wide<E> factor = 1) {
  constexpr int W = VecOf<Wide<E>>::width;
  int64_t i = 0;
  if (stride == 1)
    for (; i + W <= n; i += W)
      *reinterpret_cast<Vec<Wide<E>>*>(row + i) = load_vector(x + i) * factor;
  if (stride == 0) {  // expanded, as the gradient of a sum is
    const Wide<E> same = widen(*x) * factor;
    for (; i < n; ++i) row[i] = same;
  }
  for (; i < n; ++i) row[i] = widen(x[i * stride]) * factor;
}

// x[i] <- factor * row[i]
template <class E>
inline void store_row(const Wide<E>* row, int64_t n, E* x, int64_t stride, Wide<E> factor = 1) {
  if (stride == 1)
    for (int64_t i = 0; i < n; ++i) narrow(row[i] * factor, x[i]);
  else
    for (int64_t i = 0; i < n; ++i) narrow(row[i] * factor, x[i * stride]);
}

template <Map map, class T>
inline Vec<T> phi(Vec<T> x) {
  if constexpr (map == Map::relu) return x < T(0) ? Vec<T>{} : x;
  if constexpr (map == Map::elu_plus_one) return x > T(0) ? x + T(1) : exp_moderate(x);  // Eq. (7)
  return x;
}

// row <- φ(x); the padding behind the n elements is zero (φ(0) is not).
template <Map map, class E>
inline void load_mapped(const E* x, int64_t stride, int64_t n, Wide<E>* row) {
  using T = Wide<E>;
  constexpr int W = VecOf<T>::width;
  int64_t i = 0;
  if (stride == 1)
    for (; i + W <= n; i += W)
      *reinterpret_cast<Vec<T>*>(row + i) = phi<map, T>(load_vector(x + i));
  if (i == n) return;
  load_row<E>(x + i * stride, stride, n - i, row + i);
  for (int64_t j = i; j < n; j += W) {
    Vec<T>& v = *reinterpret_cast<Vec<T>*>(row + j);
    v = phi<map, T>(v);
  }
  for (int64_t j = n; j < padded(n); ++j) row[j] = 0;
}

template <class E>
inline void load_mapped(Map map, const E* x, int64_t stride, int64_t n, Wide<E>* row) {
  if (map == Map::identity) return load_mapped<Map::identity>(x, stride, n, row);
  if (map == Map::relu) return load_mapped<Map::relu>(x, stride, n, row);
  load_mapped<Map::elu_plus_one>(x, stride, n, row);
}

// gradient *= φ'(x), from the value φ(x): elu+1 has φ' = min(φ, 1), relu has φ' = [φ > 0].
template <class T>
inline void apply_slope(Map map, const T* phi, int64_t n, T* gradient) {
  if (map == Map::identity) return;
  for (int64_t i = 0; i < n; i += VecOf<T>::width) {
    const Vec<T> f = *reinterpret_cast<const Vec<T>*>(phi + i);
    Vec<T>& g = *reinterpret_cast<Vec<T>*>(gradient + i);
    if (map == Map::relu)
      g = f > T(0) ? g : Vec<T>{};
    else
      g = f > T(1) ? g : g * f;
  }
}

template <class T>
inline T dot(const T* a, const T* b, int64_t n) {  // padded rows
  Vec<T> total{};
  for (int64_t i = 0; i < n; i += VecOf<T>::width)
    total += *reinterpret_cast<const Vec<T>*>(a + i) * *reinterpret_cast<const Vec<T>*>(b + i);
  return sum<T>(total);
}

template <class T>
inline void scale(T* row, T factor, int64_t n) {
  for (int64_t i = 0; i < n; ++i) row[i] *= factor;
}

}  // namespace subquad::SUBQUAD_ISA
