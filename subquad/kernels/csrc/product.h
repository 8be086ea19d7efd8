// Rows of weights times vectors of activations, for the step engine: at one stream the weights are
// the traffic, so each is read once, widened in registers; at many streams a panel of rows stays in
// the cache while the streams pass. A dot product is added up in the same order in every case, so
// that results depend neither on the number of streams nor on that of threads.
#pragma once
#if defined(__AVX2__)  // GCC's own widening of short vectors is several times slower
#include <immintrin.h>
#endif

#include "model.h"
#include "vec.h"

namespace subquad::SUBQUAD_ISA {

using V = Vec<float>;
constexpr int kW = VecOf<float>::width;

inline V load(const float* p) { V v; std::memcpy(&v, p, sizeof v); return v; }
inline void store(float* p, V v) { std::memcpy(p, &v, sizeof v); }

// Keeps GCC from reading a weight from memory once for every product that it is part of.
inline void in_register(V& v) {
#if defined(__AVX2__)
  asm("" : "+x"(v));
#else
  (void)v;
#endif
}

constexpr int kN = kRow / kW;  // vectors of sixteen columns

// Weights as they lie in the block; sixteen columns of a row as vectors in float32.
struct F32 {
  static constexpr bool kNarrow = false;
  using type = float;
  static void widen(const float* p, V* out) {
    for (int j = 0; j < kN; ++j) out[j] = load(p + j * kW);
  }
};
// Columns i and 8 + i share a word, so that a shift and a mask part them.
struct Bf16 {
  static constexpr bool kNarrow = true;
  using type = uint16_t;
  static void widen(const uint16_t* p, V* out) {
    constexpr int kWords = kW < 8 ? kW : 8;
    using Words = typename Sized<uint32_t, kWords>::type;
    Words words[8 / kWords];
    std::memcpy(words, p, sizeof words);
    for (int j = 0; j < 8 / kWords; ++j) {
      const Words low = words[j] << 16, high = words[j] & 0xffff0000u;
      std::memcpy(reinterpret_cast<float*>(out) + j * kWords, &low, sizeof low);
      std::memcpy(reinterpret_cast<float*>(out) + 8 + j * kWords, &high, sizeof high);
    }
  }
};
struct I8 {
  static constexpr bool kNarrow = true;
  using type = int8_t;
  static void widen(const int8_t* p, V* out) {
    for (int j = 0; j < kN; ++j, p += kW) {
#if defined(__AVX512F__)
      out[j] = (V)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p)));
#elif defined(__AVX2__)
      out[j] = (V)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p)));
#else
      typename Sized<int8_t, kW>::type byte;
      std::memcpy(&byte, p, sizeof byte);
      out[j] = __builtin_convertvector(__builtin_convertvector(byte, VecInt), V);
#endif
    }
  }
};

// Sums of neighbouring lanes of a and b: first inside groups of four, then of whole groups, so that
// log2(kW) rounds over kW vectors end in the vector of their sums, in order.
#if SUBQUAD_VECTOR_BYTES == 16
#define SUBQUAD_EVEN 0, 2, 4, 6
#define SUBQUAD_ODD 1, 3, 5, 7
#elif SUBQUAD_VECTOR_BYTES == 32
#define SUBQUAD_EVEN 0, 2, 8, 10, 4, 6, 12, 14
#define SUBQUAD_ODD 1, 3, 9, 11, 5, 7, 13, 15
#define SUBQUAD_EVEN_FOURS 0, 1, 2, 3, 8, 9, 10, 11
#define SUBQUAD_ODD_FOURS 4, 5, 6, 7, 12, 13, 14, 15
#else
#define SUBQUAD_EVEN 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30
#define SUBQUAD_ODD 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31
#define SUBQUAD_EVEN_FOURS 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27
#define SUBQUAD_ODD_FOURS 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31
#endif

inline V pairs(V a, V b) {
  return __builtin_shufflevector(a, b, SUBQUAD_EVEN) + __builtin_shufflevector(a, b, SUBQUAD_ODD);
}
inline V fours(V a, V b) {
#ifdef SUBQUAD_EVEN_FOURS
  return __builtin_shufflevector(a, b, SUBQUAD_EVEN_FOURS) +
         __builtin_shufflevector(a, b, SUBQUAD_ODD_FOURS);
#else
  return a + b;  // never called: a vector is one group
#endif
}

// Lane i = the sum over v[i], for kW vectors.
inline V sums(V* v) {
  int n = kW;
  for (int level = 0; level < 2; ++level, n /= 2)
    for (int i = 0; i < n / 2; ++i) v[i] = pairs(v[2 * i], v[2 * i + 1]);
  for (; n > 1; n /= 2)
    for (int i = 0; i < n / 2; ++i) v[i] = fours(v[2 * i], v[2 * i + 1]);
  return v[0];
}

// kR rows of weights times kB vectors of activations; dots[b · kR + r], always added up in the same
// order. `w` is the first row's beginning in a matrix that lies as model.h tells.
template <class W, int kR, int kB>
inline void tile(const typename W::type* w, const float* x, int64_t x_row, int64_t columns,
                 float* dots) {
  V acc[kR * kB] = {};
  for (int64_t c = 0; c < columns; c += kRow) {
    V xs[kB][kN], ws[kN];
    for (int b = 0; b < kB; ++b) F32::widen(x + b * x_row + c, xs[b]);
#pragma GCC unroll 16  // or clang makes a loop of it, a fiftieth slower in a page
    for (int r = 0; r < kR; ++r) {
      W::widen(w + r / kTall * kTall * columns + c * kTall + r % kTall * kRow, ws);
      for (int j = 0; j < kN; ++j) {
        if (kB > 1) in_register(ws[j]);
        for (int b = 0; b < kB; ++b) acc[b * kR + r] += ws[j] * xs[b][j];
      }
    }
  }
  for (int i = 0; i < kR * kB; i += kW) store(dots + i, sums(acc + i));
}

struct Rows {  // of activations
  float* p;
  int64_t apart, n;
};

// y[:, from:to] = x · wᵀ + bias for the rows [from, to) of an affine map.
template <class W>
struct Product {
  const typename W::type* w;
  const float *scales, *bias;
  int64_t columns;
  float* room;  // for kTall rows in float32

  Product(const Affine& a, const char* block, float* room)
      : w(reinterpret_cast<const typename W::type*>(block + a.w.at)),
        scales(a.w.scales ? reinterpret_cast<const float*>(block + a.w.scales) : nullptr),
        bias(a.bias ? reinterpret_cast<const float*>(block + a.bias) : nullptr),
        columns(row(a.w.columns)), room(room) {}

  const typename W::type* begin(int64_t r) const {
    return w + r / kTall * kTall * columns + r % kTall * kRow;
  }
  // Row r's dot product with one stream.
  void put(float* y, int64_t r, float dot) const {
    const float offset = bias ? bias[r] : 0.0f;
    y[r] = scales ? dot * scales[r] + offset : dot + offset;
  }
  // A tile's dot products, kR rows for each of its streams; of its rows, those in [from, to).
  template <int kR, int kB>
  void put(const Rows& y, int64_t b, int64_t r, int64_t from, int64_t to, const float* dots) const {
    using Some = typename Sized<float, kR>::type;
    if (r < from || r + kR > to) {
      for (int j = 0; j < kB; ++j)
        for (int64_t i = r < from ? from : r; i < least(r + kR, to); ++i)
          put(y.p + (b + j) * y.apart, i, dots[j * kR + i - r]);
      return;
    }
    Some factor, offset{}, part;
    if (scales) std::memcpy(&factor, scales + r, sizeof factor);
    if (bias) std::memcpy(&offset, bias + r, sizeof offset);
    for (int j = 0; j < kB; ++j) {
      std::memcpy(&part, dots + j * kR, sizeof part);
      part = scales ? part * factor + offset : part + offset;
      std::memcpy(y.p + (b + j) * y.apart + r, &part, sizeof part);
    }
  }
  template <int kR, int kB>
  void tiles(const Rows& x, const Rows& y, int64_t b, int64_t from, int64_t to) const {
    for (int64_t r = from / kR * kR; r < to; r += kR) {
      float dots[kR * kB];
      tile<W, kR, kB>(begin(r), x.p + b * x.apart, x.apart, columns, dots);
      put<kR, kB>(y, b, r, from, to, dots);
    }
  }
  // Streams [0, end) by rows that are widened once for all of them.
  template <int kR, int kB>
  void widened(const Rows& x, const Rows& y, int64_t end, int64_t from, int64_t to) const {
    for (int64_t r = from / kR * kR; r < to; r += kR) {
      const auto* rows = begin(r);
      for (int64_t c = 0; c < columns * kTall; c += kTall * kRow)
        for (int64_t i = c; i < c + kR * kRow; i += kRow) {
          V ws[kN];
          W::widen(rows + i, ws);
          std::memcpy(room + i, ws, sizeof ws);
        }
      for (int64_t b = 0; b < end; b += kB) {
        float dots[kR * kB];
        tile<F32, kR, kB>(room, x.p + b * x.apart, x.apart, columns, dots);
        put<kR, kB>(y, b, r, from, to, dots);
      }
    }
  }
  void operator()(const Rows& x, const Rows& y, int64_t from, int64_t to) const {
    constexpr int kB = kW == 16 ? 4 : 2, kR = kW / kB;
    constexpr int64_t kPanel = 32;
    int64_t b = 0;
    if (W::kNarrow && x.n >= 2 * kB) {
      b = x.n / kB * kB;
      widened<kR, kB>(x, y, b, from, to);
    } else if (x.n >= kB) {
      const int64_t whole = x.n / kB * kB;
      for (int64_t panel = from; panel < to; panel += kPanel)
        for (b = 0; b < whole; b += kB) tiles<kR, kB>(x, y, b, panel, least(panel + kPanel, to));
    }
    for (; b < x.n; ++b) tiles<kW == 16 ? 16 : 8, 1>(x, y, b, from, to);
  }
};

}  // namespace subquad::SUBQUAD_ISA
