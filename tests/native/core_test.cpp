// The core alone, without Python or torch, for the sanitizers: every dtype, map and direction, odd
// sizes, strides, mask, state, decay and split time, on exactly sized buffers. Also a small check
// of the numbers: the causal form's last token must equal the bidirectional form's.
#include <cmath>
#include <cstdio>
#include <vector>

#include "core.h"
#include "engine.h"

using namespace subquad;

namespace {

int failures = 0;

struct Tensor {  // an exactly sized buffer, so that one element too far is seen
  std::vector<char> bytes;
  View view;
  Tensor(std::vector<int64_t> shape, int width, unsigned fill) {
    int64_t n = 1;
    for (int i = static_cast<int>(shape.size()) - 1; i >= 0; --i) view.s[i] = n, n *= shape[i];
    bytes.resize(n * width);
    for (int64_t i = 0; i < n; ++i) set(i, width, fill ? ((i * 37 + fill * 11) % 17 - 8) / 8.0 : 0);
    view.p = bytes.data();
  }
  void set(int64_t i, int width, double x) {
    const float f = static_cast<float>(x);
    if (width == 8) reinterpret_cast<double*>(bytes.data())[i] = x;
    if (width == 4) reinterpret_cast<float*>(bytes.data())[i] = f;
    if (width == 2) reinterpret_cast<uint16_t*>(bytes.data())[i] = f > 0 ? 0x3c00 : 0xb800;
    if (width == 1) bytes[i] = x > -0.7;
  }
};

void one(const Table& table, Dtype dtype, Map map, int64_t t, int64_t k, int64_t m, bool all,
         int threads) {
  const int64_t b = 2, h = all ? 1 : 3;
  const int width = dtype == Dtype::f64 ? 8 : dtype == Dtype::f32 ? 4 : 2;
  const int kept = dtype == Dtype::f64 ? 8 : 4;
  Tensor q({b, h, t, k}, width, 1), key({b, h, t, k}, width, 2), v({b, h, t, m}, width, 3);
  Tensor mask({b, t}, 1, 4), s0({b, h, k, m}, kept, 5), z0({b, h, k}, kept, 6);
  Tensor decay({b, h, t}, kept, 7), dout({b, h, t, m}, width, 8);
  Tensor ds({b, h, k, m}, kept, 9), dz({b, h, k}, kept, 10);
  Tensor out({b, h, t, m}, width, 0), s({b, h, k, m}, kept, 0), z({b, h, k}, kept, 0);
  Tensor dq({b, h, t, k}, width, 0), dk({b, h, t, k}, width, 0), dv({b, h, t, m}, width, 0);
  Tensor ds0({b, h, k, m}, kept, 0), dz0({b, h, k}, kept, 0), ddecay({b, h, t}, kept, 0);
  Linear p{};
  p.b = b, p.h = h, p.t = t, p.k = k, p.m = m, p.dtype = dtype, p.map = map, p.threads = threads;
  p.q = q.view, p.key = key.view, p.v = v.view, p.out = out.view, p.s = s.view, p.z = z.view;
  p.dout = dout.view, p.dq = dq.view, p.dk = dk.view, p.dv = dv.view;
  table.bidirectional_forward(p, parallel);
  const std::vector<char> both_ways = out.bytes;
  table.bidirectional_backward(p, parallel);
  table.causal_forward(p, parallel);
  if (dtype == Dtype::f32 && t > 0 && map == Map::elu_plus_one)
    for (int64_t j = 0; j < m; ++j) {
      const int64_t at = (t - 1) * m + j;
      const float x = reinterpret_cast<const float*>(both_ways.data())[at];
      const float y = reinterpret_cast<const float*>(out.bytes.data())[at];
      if (!(std::fabs(x - y) < 1e-4)) ++failures, std::printf("%g != %g\n", x, y);
    }
  if (all) {
    p.mask = mask.view, p.s0 = s0.view, p.z0 = z0.view, p.decay = decay.view;
    p.ds = ds.view, p.dz = dz.view, p.ds0 = ds0.view, p.dz0 = dz0.view, p.ddecay = ddecay.view;
  }
  table.causal_forward(p, parallel);
  table.causal_backward(p, parallel);
}

// GELU forward and backward on exactly sized buffers; at 0 it is 0, and its slope 1/2.
void gelu(const Table& table, Dtype dtype, int64_t n) {
  const int width = dtype == Dtype::f64 ? 8 : dtype == Dtype::f32 ? 4 : 2;
  Tensor x({n}, width, 0), dout({n}, width, 8), out({n}, width, 0);
  Pointwise p{n, dtype, 3, nullptr, x.view.p, out.view.p};
  table.gelu(p, parallel);
  if (width > 2 && out.bytes != x.bytes) ++failures, std::printf("gelu(0) is not 0\n");
  p.dout = dout.view.p;
  table.gelu(p, parallel);
  for (int64_t i = 0; dtype == Dtype::f32 && i < n; ++i) {
    const float half = reinterpret_cast<const float*>(dout.bytes.data())[i] / 2;
    const float found = reinterpret_cast<const float*>(out.bytes.data())[i];
    if (!(std::fabs(found - half) < 1e-6)) ++failures, std::printf("%g != %g\n", found, half);
  }
}

// A convolution with taps before, beside and after, and its gradients, on exactly sized buffers:
// <dy, y> = <W, dW> = <x, dx>, for y is linear in either.
void lagged(const Table& table, Dtype dtype, int64_t t, int64_t d) {
  const int64_t b = 2, taps = 5, made = t + 1, offsets[] = {-3, 0, 1, 4, 9};
  const int64_t back[] = {3, 0, -1, -4, -9};
  const int width = dtype == Dtype::f64 ? 8 : dtype == Dtype::f32 ? 4 : 2;
  const int kept = dtype == Dtype::f64 ? 8 : 4;
  Tensor x({b, t, d}, width, 1), weight({taps, d}, kept, 2), dout({b, made, d}, width, 8);
  Tensor out({b, made, d}, width, 0), dx({b, t, d}, width, 0), dweight({taps, d}, kept, 0);
  Lagged p{b, t, made, d, taps, dtype, 3, x.view, out.view, offsets, weight.view.p, nullptr};
  table.lagged(p, parallel);
  p.out = dout.view, p.weight = nullptr, p.dweight = dweight.view.p;
  table.lagged_weight(p, parallel);
  Lagged g{b, made, t, d, taps, dtype, 3, dout.view, dx.view, back, weight.view.p, nullptr};
  table.lagged(g, parallel);
  if (dtype != Dtype::f64) return;
  const auto inner = [](const Tensor& a, const Tensor& c) {
    double sum = 0;
    for (size_t i = 0; i < a.bytes.size() / 8; ++i)
      sum += reinterpret_cast<const double*>(a.bytes.data())[i] *
             reinterpret_cast<const double*>(c.bytes.data())[i];
    return sum;
  };
  const double y = inner(dout, out), w = inner(weight, dweight), u = inner(x, dx);
  if (!(std::fabs(y - w) < 1e-9 && std::fabs(y - u) < 1e-9))
    ++failures, std::printf("%g, %g, %g differ\n", y, w, u);
}

// Half a spectrum of ones, unfolded on exactly sized buffers: real and imaginary part are 1, so that
// the Hartley transform is 0 to the left and 2 to the right.
void spectrum(const Table& table, Dtype dtype, int64_t t, int64_t d) {
  const int width = dtype == Dtype::f64 ? 8 : 4;
  Tensor half({2, t, d / 2 + 1, 2}, width, 0), out({2, t, d}, width, 0);
  const auto element = [&](Tensor& x, int64_t i) {
    char* at = x.bytes.data() + i * width;
    return width == 8 ? *reinterpret_cast<double*>(at) : double(*reinterpret_cast<float*>(at));
  };
  for (int64_t i = 0; i < 2 * t * (d / 2 + 1) * 2; ++i)
    if (width == 8)
      reinterpret_cast<double*>(half.bytes.data())[i] = 1;
    else
      reinterpret_cast<float*>(half.bytes.data())[i] = 1;
  for (bool hartley : {false, true}) {
    table.unfold({2, t, d, dtype, 3, hartley, half.view.p, out.view.p}, parallel);
    for (int64_t i = 0; i < 2 * t * d; ++i) {
      const double wanted = !hartley ? 1 : i % d <= d / 2 ? 0 : 2;
      if (element(out, i) != wanted) ++failures, std::printf("unfold: %g\n", element(out, i));
    }
  }
}

// Additive pooling and its backward on exactly sized buffers: where every score is the same, y is the
// mean of the real tokens, and dx of each is dy over their number.
void pooling(const Table& table, Dtype dtype, int64_t t, int64_t d, int64_t h, bool masked) {
  const int64_t b = 2;
  const int width = dtype == Dtype::f64 ? 8 : dtype == Dtype::f32 ? 4 : 2;
  const int kept = dtype == Dtype::f64 ? 8 : 4;
  Tensor x({b, t, d}, width, 1), mask({b, t}, 1, 4), weight({b, h, d}, kept, 2);
  Tensor none({b, h, d}, kept, 0), dy({b, d}, kept, 3);
  Tensor y({b, d}, kept, 0), log_sum({b, h}, kept, 0), dx({b, t, d}, width, 0);
  Tensor dweight({b, h, d}, kept, 0);
  Pool p{};
  p.b = b, p.t = t, p.d = d, p.h = h, p.dtype = dtype, p.threads = 3;
  p.x = x.view, p.weight = weight.view, p.y = y.view, p.log_sum = log_sum.view;
  p.dy = dy.view, p.dx = dx.view, p.dweight = dweight.view;
  if (masked) p.mask = mask.view;
  table.pool(p, parallel);
  table.pool_backward(p, parallel);
  p.weight = none.view;
  table.pool(p, parallel);
  table.pool_backward(p, parallel);
  if (dtype != Dtype::f64 || masked || !t) return;
  const auto number = [](const Tensor& a, int64_t i) {
    return reinterpret_cast<const double*>(a.bytes.data())[i];
  };
  for (int64_t c = 0; c < d; ++c) {
    double mean = 0;
    for (int64_t i = 0; i < t; ++i) mean += number(x, i * d + c) / t;
    if (!(std::fabs(mean - number(y, c)) < 1e-9)) ++failures, std::printf("%g is no mean\n", mean);
    if (!(std::fabs(number(dx, (t - 1) * d + c) - number(dy, c) / t) < 1e-9))
      ++failures, std::printf("dx is not dy / %d\n", int(t));
  }
}

// The step engine on an exactly sized block: odd sizes, every kind, several threads and streams.
void engine(Spec spec, int threads) {
  std::vector<float> block((Plan(spec).bytes() + 3) / 4);  // aligned enough, and sized exactly
  for (size_t i = 0; i < block.size(); ++i) block[i] = ((i * 37) % 17 - 8.0f) / 64;
  Engine e(spec, reinterpret_cast<const char*>(block.data()), threads);
  int32_t streams[3] = {e.add(), e.add(), e.add()}, tokens[3] = {0, 1, 2}, drawn[3 * 4];
  e.step(3, streams, tokens);
  e.remove(streams[1]);
  streams[1] = e.clone(streams[0]);
  const uint64_t samples[3] = {0, 1, 2}, first[3] = {0, 0, 0};
  std::vector<uint8_t> seen(3 * spec.outputs);
  e.run(3, streams, tokens, 4, {0.9, 3, 0.9, 0.1, 1.2, 7, 0, 0}, samples, first, seen.data(), drawn);
  for (int32_t token : drawn)
    if (token < 0 || token >= spec.outputs) ++failures, std::printf("drew %d\n", token);
}

void engines() {
  for (int32_t weights = 0; weights < 3; ++weights)
    for (int32_t phi = 0; phi < 4; ++phi)
      for (int32_t pre = 0; pre < 2; ++pre)
        for (int32_t positions = 0; positions < 3; ++positions) {
          // layers, d, heads, ff, inputs, outputs, length, pre_norm, tied, …
          engine({2, 30, 5, 7, 6, 5, 9, pre, pre, Positions(positions), Phi(phi), Weights(weights),
                  0, 0, 1e-5f}, 1);
          engine({1, 64, 4, 100, 6, 5, 9, pre, 0, Positions(positions), Phi(phi), Weights(weights),
                  0, 0, 1e-5f}, 3);
          engine({3, 30, 5, 7, 6, 5, 9, pre, 0, Positions(positions), Phi(phi), Weights(weights),
                  2, 3, 1e-5f}, 2);
        }
}

}  // namespace

int main() {
  for (const char* name : {"baseline", "avx2", "avx512"}) {
    const Table* table = choose(name);
    if (!table) continue;
    for (int dtype = 0; dtype < 4; ++dtype)
      for (int map = 0; map < 3; ++map)
        for (int64_t t : {0, 1, 31, 33, 70})
          for (int all = 0; all < 2; ++all) {
            one(*table, Dtype(dtype), Map(map), t, 1, 3, all, 1);
            one(*table, Dtype(dtype), Map(map), t, 17, 8, all, 2);
          }
    for (int dtype = 0; dtype < 4; ++dtype)
      for (int64_t n : {0, 1, 255, 257, 20001}) gelu(*table, Dtype(dtype), n);
    for (int dtype = 0; dtype < 4; ++dtype)
      for (int64_t t : {0, 1, 7, 70, 2050}) {
        lagged(*table, Dtype(dtype), t, 1);
        lagged(*table, Dtype(dtype), t, 35);
      }
    for (int dtype = 0; dtype < 4; ++dtype)
      for (int64_t t : {0, 1, 5, 70, 600})
        for (int masked = 0; masked < 2; ++masked) {
          pooling(*table, Dtype(dtype), t, 6, 2, masked);
          pooling(*table, Dtype(dtype), t, 51, 17, masked);
        }
    for (int64_t d : {1, 2, 7, 8, 33})
      for (int64_t t : {0, 1, 2, 5, 70})
        for (Dtype dtype : {Dtype::f32, Dtype::f64}) spectrum(*table, dtype, t, d);
    one(*table, Dtype::f32, Map::elu_plus_one, 40, 64, 96, true, 2);
    one(*table, Dtype::f32, Map::relu, 17000, 3, 16, false, 1);  // longer than one sum is kept
    one(*table, Dtype::f32, Map::relu, 1100, 5, 16, true, 4);  // split time
    one(*table, Dtype::bf16, Map::identity, 1100, 16, 5, false, 8);
    use_step(table);
    engines();
    std::printf("%s done\n", name);
  }
  return failures != 0;
}
