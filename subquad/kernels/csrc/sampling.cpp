#include "sampling.h"

#include <algorithm>
#include <cmath>

namespace subquad {
namespace {

constexpr double kColdest = 1e-4;  // below, the likeliest is as good as certain

uint64_t mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

template <class T>
int32_t largest(const T* x, int64_t n) {
  return static_cast<int32_t>(std::max_element(x, x + n) - x);
}

double penalised(const Sampling& how, const float* logits, const uint8_t* seen, int64_t i) {
  const double x = logits[i];
  if (!seen || !seen[i]) return x;
  return x > 0 ? x / how.repetition_penalty : x * how.repetition_penalty;
}

// Sets to zero what top-k, top-p and min-p leave out, in that order; ties go to the lower token.
void filter(const Sampling& how, double* p, int64_t n, int32_t* order) {
  const bool by_k = how.top_k > 0 && how.top_k < n, by_p = how.top_p < 1;
  if (by_k || by_p) {
    for (int64_t i = 0; i < n; ++i) order[i] = static_cast<int32_t>(i);
    const auto likelier = [p](int32_t a, int32_t b) { return p[a] != p[b] ? p[a] > p[b] : a < b; };
    const int64_t k = by_k ? how.top_k : n;
    std::partial_sort(order, order + k, order + n, likelier);
    int64_t kept = k;
    if (by_p) {
      double total = 0, together = 0;
      for (int64_t i = 0; i < k; ++i) total += p[order[i]];
      for (kept = 0; kept < k && (kept == 0 || together < how.top_p * total); ++kept)
        together += p[order[kept]];
    }
    for (int64_t i = kept; i < n; ++i) p[order[i]] = 0;
  }
  if (how.min_p > 0) {
    const double least = how.min_p * p[largest(p, n)];
    for (int64_t i = 0; i < n; ++i)
      if (p[i] < least) p[i] = 0;
  }
}

// The index at which the cumulated weights pass u of their total.
int32_t invert(const double* p, int64_t n, double u) {
  double total = 0, passed = 0;
  int32_t last = 0;
  for (int64_t i = 0; i < n; ++i) total += p[i];
  for (int64_t i = 0; i < n; ++i) {
    if (p[i] <= 0) continue;
    last = static_cast<int32_t>(i);
    if ((passed += p[i]) > u * total) break;
  }
  return last;
}

void soften(double* x, int64_t n, double temperature) {
  const double most = x[largest(x, n)];
  for (int64_t i = 0; i < n; ++i) x[i] = std::exp((x[i] - most) / temperature);
}

// A level from `mixture` logistics: outputs are weights' logits, means, logs of scales, on [-1, 1].
int32_t draw_logistic(const Sampling& how, const float* outputs, double u, double v, double* p) {
  const int32_t m = how.mixture;
  for (int32_t i = 0; i < m; ++i) p[i] = outputs[i];
  int32_t one = largest(p, m);
  double x;
  if (how.temperature < kColdest) {
    x = outputs[m + one];
  } else {
    soften(p, m, how.temperature);
    one = invert(p, m, u);
    const double scale = std::exp(std::max(double(outputs[2 * m + one]), -7.0));
    v = std::min(std::max(v, 1e-5), 1 - 1e-5);
    x = outputs[m + one] + how.temperature * scale * (std::log(v) - std::log1p(-v));
  }
  x = std::min(std::max(x, -1.0), 1.0);
  return static_cast<int32_t>(std::floor((x + 1) / 2 * (how.levels - 1) + 0.5));
}

}  // namespace

double uniform(uint64_t seed, uint64_t sample, uint64_t step, uint64_t which) {
  return (mix(mix(mix(mix(seed) ^ sample) ^ step) ^ which) >> 11) * 0x1p-53;
}

int32_t draw(const Sampling& how, const float* outputs, int64_t n, const uint8_t* seen,
             uint64_t sample, uint64_t step, double* probability, int32_t* order) {
  const double u = uniform(how.seed, sample, step, 0);
  if (how.mixture) {
    const double v = uniform(how.seed, sample, step, 1);
    return draw_logistic(how, outputs, u, v, probability);
  }
  for (int64_t i = 0; i < n; ++i) probability[i] = penalised(how, outputs, seen, i);
  if (how.temperature < kColdest) return largest(probability, n);
  soften(probability, n, how.temperature);
  filter(how, probability, n, order);
  return invert(probability, n, u);
}

}  // namespace subquad
