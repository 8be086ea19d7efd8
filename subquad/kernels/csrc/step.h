// One token of every stream through the whole model: what one member of a crew does.
#pragma once
#include "activation.h"
#include "crew.h"
#include "product.h"

namespace subquad::SUBQUAD_ISA {

inline const float* floats(const char* block, int64_t at) {
  return reinterpret_cast<const float*>(block + at);
}

// y = (x - mean) / sqrt(variance + eps) · weight + bias, over d elements; y may be x.
inline void layer_norm(const float* x, float* y, const Norm& norm, const char* block, int64_t d,
                       float eps) {
  const float *weight = floats(block, norm.weight), *bias = floats(block, norm.bias);
  const int64_t whole = d / kW * kW;
  V total{}, squares{};
  float mean = 0, variance = 0;
  for (int64_t i = 0; i < whole; i += kW) total += load(x + i);
  mean = sum<float>(total);
  for (int64_t i = whole; i < d; ++i) mean += x[i];
  mean /= d;
  for (int64_t i = 0; i < whole; i += kW) squares += (load(x + i) - mean) * (load(x + i) - mean);
  variance = sum<float>(squares);
  for (int64_t i = whole; i < d; ++i) variance += (x[i] - mean) * (x[i] - mean);
  const float scale = 1.0f / std::sqrt(variance / d + eps);
  for (int64_t i = 0; i < whole; i += kW)
    store(y + i, (load(x + i) - mean) * scale * load(weight + i) + load(bias + i));
  for (int64_t i = whole; i < d; ++i) y[i] = (x[i] - mean) * scale * weight[i] + bias[i];
}

// φ of one head's q or k (k elements, rows filled with zeros): features, filling zero again.
inline void features(Phi phi, float* x, int64_t k) {
  const int64_t end = row(k);
  if (phi == Phi::softmax) {
    float most = x[0], total = 0;
    for (int64_t i = 1; i < k; ++i) most = x[i] > most ? x[i] : most;
    for (int64_t i = 0; i < end; i += kW) store(x + i, exp_moderate(load(x + i) - most));
    for (int64_t i = 0; i < k; ++i) total += x[i];
    for (int64_t i = 0; i < k; ++i) x[i] /= total;
  } else {
    for (int64_t i = 0; i < end; i += kW) {
      V v = load(x + i), zero{};
      if (phi == Phi::elu_plus_one) v = v > 0 ? v + 1.0f : exp_moderate(v > 0 ? zero : v);
      if (phi == Phi::relu) v = v > 0 ? v : zero;
      if (phi == Phi::squared_relu) v = v > 0 ? v * v : zero;
      store(x + i, v);
    }
  }
  for (int64_t i = k; i < end; ++i) x[i] = 0;
}

// Eq. (18), (19) and (9) of Katharopoulos et al. 2020 for one head: S += φ(k) vᵀ, Z += φ(k),
// y = φ(q)ᵀ S / φ(q)ᵀ Z. `v` is filled with zeros to row(k); the state is S, then Z.
inline void attend(float* state, const float* phi_q, const float* phi_k, const float* v, float* y,
                   int64_t k) {
  const int64_t m = row(k);
  float* z = state + k * m;
  float divisor = 0;
  for (int64_t i = 0; i < k; ++i) divisor += phi_q[i] * (z[i] += phi_k[i]);
  const float scale = divisor == 0 ? 0.0f : 1.0f / divisor;
  for (int64_t c = 0; c < m; c += kRow) {
    V acc[kN] = {}, vs[kN];
    for (int j = 0; j < kN; ++j) vs[j] = load(v + c + j * kW);
    for (int64_t i = 0; i < k; ++i) {
      float* s = state + i * m + c;
      for (int j = 0; j < kN; ++j) {
        const V now = load(s + j * kW) + phi_k[i] * vs[j];
        store(s + j * kW, now);
        acc[j] += phi_q[i] * now;
      }
    }
    float out[kRow];
    for (int j = 0; j < kN; ++j) store(out + j * kW, acc[j] * scale);
    std::memcpy(y + c, out, least(kRow, k - c) * sizeof(float));
  }
}

// sin and cos in double precision for |x| < 2^30, by reduction to [-π/4, π/4]. The library's own
// differ between machines, and a page must draw what the trainer drew.
inline void sin_cos(double x, float* sine, float* cosine) {
  const double turns = x * 0.63661977236758134;  // 2/π
  const int64_t quarter = static_cast<int64_t>(turns + (turns < 0 ? -0.5 : 0.5));
  const double r = (x - quarter * 1.5707963267341256) - quarter * 6.0771005065061922e-11;
  const double r2 = r * r;
  const double s = r + r * r2 * (-1.6666666666666632e-1 + r2 * (8.3333333333224895e-3 +
      r2 * (-1.9841269829857949e-4 + r2 * (2.7557313621385722e-6 + r2 * -2.5050747762857807e-8))));
  const double c = 1 - 0.5 * r2 + r2 * r2 * (4.1666666666666602e-2 + r2 * (-1.3888888888874100e-3 +
      r2 * (2.4801587289476728e-5 + r2 * (-2.7557314351390663e-7 + r2 * 2.0875723212981748e-9))));
  const double table[4] = {s, c, -s, -c};
  *sine = static_cast<float>(table[quarter & 3]);
  *cosine = static_cast<float>(table[(quarter + 1) & 3]);
}

// What member `me` of the crew does of a step.
template <class W>
class Member {
 public:
  Member(const Step& s, Crew& crew, int me) : s_(s), crew_(crew), me_(me), spec_(*s.spec) {}

  void run() {
    const int64_t d = spec_.d;
    float* h = spec_.pre_norm ? s_.normed : s_.x;
    const Rows x{s_.x, row(d), s_.n}, in{h, row(d), s_.n}, mixed{s_.mixed, row(d), s_.n};
    const Rows added{s_.added, row(d), s_.n}, hidden{s_.hidden, row(spec_.ff), s_.n};
    LayerPlan now = s_.plan->layer(0);
    for (int64_t b = me_; b < s_.n; b += crew_.size()) {
      embed(b);
      if (spec_.pre_norm) normalise(x.p, in.p, now.norm_mixer, b);
    }
    crew_.wait();
    for (int i = 0; i < spec_.layers; ++i) {
      const LayerPlan next = s_.plan->layer(i + 1 < spec_.layers ? i + 1 : i);
      if (i < spec_.local) {
        convolve(now, in, added, i);
      } else {
        attend_all(now, in, i);
        crew_.wait();
        mine(now.out, mixed, added);
      }
      crew_.wait();
      residual(now.norm_mixer, now.norm_ff);
      crew_.wait();
      mine(now.inner, in, hidden);
      activate(hidden);
      crew_.wait();
      mine(now.outer, hidden, added);
      crew_.wait();
      residual(now.norm_ff, i + 1 < spec_.layers ? next.norm_mixer : s_.plan->last);
      crew_.wait();
      now = next;
    }
    mine(s_.plan->head, in, Rows{s_.logits, row(spec_.outputs), s_.n});
    crew_.wait();
  }

 private:
  // This member's share of n things, in whole rows of 16 so that no two write one cache line.
  void share(int64_t n, int64_t* from, int64_t* to) const {
    const int64_t units = row(n) / kRow, each = crew_.size();
    *from = least(units * me_ / each * kRow, n);
    *to = least(units * (me_ + 1) / each * kRow, n);
  }
  void mine(const Affine& a, const Rows& x, const Rows& y) const {
    int64_t from, to;
    share(a.w.rows, &from, &to);
    Product<W>(a, s_.block, room())(x, y, from, to);
  }
  float* room() const {
    return s_.scratch + me_ * scratch_floats(spec_) + 3 * row(spec_.d / spec_.heads);
  }
  void normalise(const float* from, float* to, const Norm& norm, int64_t b) const {
    const int64_t at = b * row(spec_.d);
    layer_norm(from + at, to + at, norm, s_.block, spec_.d, spec_.eps);
  }

  void look_up(const Matrix& m, int64_t i, float* x) const {
    const auto* w = Product<W>({m, 0}, s_.block, nullptr).begin(i);
    const float scale = m.scales ? floats(s_.block, m.scales)[i] : 1.0f;
    for (int64_t c = 0; c < row(m.columns); c += kRow, w += kTall * kRow) {
      V ws[kN];
      W::widen(w, ws);
      for (int j = 0; j < kN; ++j) store(x + c + j * kW, load(x + c + j * kW) + ws[j] * scale);
    }
  }
  void embed(int64_t b) const {
    const int64_t d = spec_.d;
    float* x = s_.x + b * row(d);
    std::memset(x, 0, row(d) * sizeof(float));
    look_up(s_.plan->tokens, s_.tokens[b], x);
    if (spec_.positions == Positions::learned) look_up(s_.plan->positions, s_.positions[b], x);
    if (spec_.positions == Positions::sinusoidal) {
      const float* rates = floats(s_.block, s_.plan->rates);
      for (int64_t i = 0; i < d; i += 2) {
        float sine, cosine;
        sin_cos(static_cast<float>(s_.positions[b]) * rates[i / 2], &sine, &cosine);
        x[i] += sine;
        if (i + 1 < d) x[i + 1] += cosine;
      }
    }
    if (!spec_.pre_norm) normalise(s_.x, s_.x, s_.plan->first, b);
  }

  // A convolution, this member's channels: y = Σ_j W_j x_{position - j}.
  void convolve(const LayerPlan& layer, const Rows& in, const Rows& out, int i) const {
    const int64_t apart = row(spec_.d), taps = spec_.taps;
    const float* weights = floats(s_.block, layer.taps);
    int64_t from, to;
    share(spec_.d, &from, &to);
    for (int64_t b = 0; b < s_.n; ++b) {
      float* last = s_.states[b] + state_begins(spec_, i);
      const int64_t now = s_.positions[b] % taps;
      for (int64_t c = from; c < to; c += kW) {
        store(last + now * apart + c, load(in.p + b * apart + c));
        V y{};
        for (int64_t j = 0; j < taps; ++j)
          y += load(weights + j * apart + c) * load(last + (now + taps - j) % taps * apart + c);
        store(out.p + b * apart + c, y);
      }
    }
  }

  // The attention of layer i for this member's heads: projections, features, state, output.
  void attend_all(const LayerPlan& layer, const Rows& in, int i) const {
    const int64_t d = spec_.d, k = d / spec_.heads, padded_k = row(k);
    const int64_t first = spec_.heads * me_ / crew_.size();
    const int64_t end = spec_.heads * (me_ + 1) / crew_.size();
    if (first == end) return;
    const Product<W> qkv(layer.qkv, s_.block, room());
    const Rows out{s_.qkv, row(3 * d), s_.n};
    for (int part = 0; part < 3; ++part) qkv(in, out, part * d + first * k, part * d + end * k);
    float* q = s_.scratch + me_ * scratch_floats(spec_);
    for (int64_t b = 0; b < s_.n; ++b) {
      for (int64_t head = first; head < end; ++head) {
        const float* from = s_.qkv + b * row(3 * d) + head * k;
        for (int part = 0; part < 3; ++part)
          std::memcpy(q + part * padded_k, from + part * d, k * sizeof(float));
        features(spec_.phi, q, k);
        features(spec_.phi, q + padded_k, k);
        attend(s_.states[b] + state_begins(spec_, i) + head * head_state(spec_), q, q + padded_k,
               q + 2 * padded_k, s_.mixed + b * row(d) + head * k, k);
      }
    }
  }

  void activate(const Rows& hidden) const {
    int64_t from, to;
    share(spec_.ff, &from, &to);
    for (int64_t b = 0; b < s_.n; ++b)
      for (int64_t c = from; c < to; c += kW)
        store(hidden.p + b * hidden.apart + c, gelu<float>(load(hidden.p + b * hidden.apart + c)));
  }

  // Post-norm: x = norm(x + added). Pre-norm: x += added, and the next sublayer's norm of it.
  void residual(const Norm& post, const Norm& next) const {
    const int64_t apart = row(spec_.d);
    for (int64_t b = me_; b < s_.n; b += crew_.size()) {
      float *x = s_.x + b * apart, *more = s_.added + b * apart;
      for (int64_t c = 0; c < apart; c += kW) store(x + c, load(x + c) + load(more + c));
      if (spec_.pre_norm)
        normalise(s_.x, s_.normed, next, b);
      else
        normalise(s_.x, s_.x, post, b);
    }
  }

  const Step& s_;
  Crew& crew_;
  const int me_;
  const Spec& spec_;
};

inline void step(const Step& s, Crew& crew, int me) {
  switch (s.spec->weights) {
    case Weights::f32: return Member<F32>(s, crew, me).run();
    case Weights::bf16: return Member<Bf16>(s, crew, me).run();
    case Weights::i8: return Member<I8>(s, crew, me).run();
  }
}

}  // namespace subquad::SUBQUAD_ISA
