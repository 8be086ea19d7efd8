// What crosses the border between the binding, the tests and the compiled-many-times kernels:
// plain structs and function pointers, so that no template is shared between instruction sets.
#pragma once
#include <cstdint>

namespace subquad {

enum class Dtype : int { f32, f64, bf16, f16 };
enum class Map : int { identity, elu_plus_one, relu };

// A tensor as the caller holds it: first element and strides in elements. No pointer = not given.
struct View {
  char* p = nullptr;
  int64_t s[4] = {0, 0, 0, 0};
};

// One problem of linear attention, in the letters of subquad/shapes.py: q, k [b,h,t,k];
// v, out [b,h,t,m]; mask [b,t]; decay [b,h,t]; s [b,h,k,m]; z [b,h,k]. States, decay and their
// gradients are in the width of the sums (f64 for f64, else f32).
struct Linear {
  int64_t b, h, t, k, m;
  Dtype dtype;
  Map map;
  int threads;
  View q, key, v, mask, s0, z0, decay;               // given
  View out, s, z;                                    // forward's results
  View dout, ds, dz;                                 // given to the backward
  View dq, dk, dv, ds0, dz0, ddecay;                 // the backward's results
};

// `n` consecutive elements. Without `dout`, the forward: out from x; with it, the backward: dx.
struct Pointwise {
  int64_t n;
  Dtype dtype;
  int threads;
  const char *dout, *x;
  char* out;
};

// A depthwise convolution with taps anywhere (lagged.h): x [b,read,d], out [b,made,d], weight and
// dweight [taps,d] without gaps, in the width of the sums; tap j reads `offsets[j]` ahead. For the
// gradient of the weight, `out` is the gradient above.
struct Lagged {
  int64_t b, read, made, d, taps;
  Dtype dtype;
  int threads;
  View x, out;
  const int64_t* offsets;
  const char* weight;
  char* dweight;
};

// Pooling by additive attention (additive.h): x [b,t,d], mask [b,t], weight [b,h,d] and y [b,d] and
// log_sum [b,h] in the width of the sums, without gaps in the last dimension. The backward is given
// y and log_sum as the forward left them, and dy.
struct Pool {
  int64_t b, t, d, h;
  Dtype dtype;
  int threads;
  View x, mask, weight, y, log_sum;
  View dy, dx, dweight;
};

// Half a spectrum unfolded (spectrum.h): half [b,t,d/2+1], complex; out [b,t,d]; no gaps; f32 or f64.
struct Spectrum {
  int64_t b, t, d;
  Dtype dtype;
  int threads;
  bool hartley;
  const char* half;
  char* out;
};

using Body = void (*)(void* context, int64_t item);
using Parallel = void (*)(int threads, int64_t items, Body body, void* context);

class Crew;
struct Step;
// What one member of a crew does of a step of the engine (step.h).
using StepKernel = void (*)(const Step&, Crew&, int me);

// The kernels of one instruction set.
struct Table {
  const char* name;
  void (*causal_forward)(const Linear&, Parallel);
  void (*causal_backward)(const Linear&, Parallel);
  void (*bidirectional_forward)(const Linear&, Parallel);
  void (*bidirectional_backward)(const Linear&, Parallel);
  void (*gelu)(const Pointwise&, Parallel);
  void (*lagged)(const Lagged&, Parallel);
  void (*lagged_weight)(const Lagged&, Parallel);
  void (*pool)(const Pool&, Parallel);
  void (*pool_backward)(const Pool&, Parallel);
  void (*unfold)(const Spectrum&, Parallel);
  StepKernel step;
};

// The best table this processor can run, or the one called `name` (null: not here).
const Table* choose(const char* name = nullptr);

// The step kernel in use: the best one, or that of the table given to `use_step`.
StepKernel choose_step();
void use_step(const Table* table);

// Runs body(context, item) for all items, on torch's own OpenMP team where there is one.
void parallel(int threads, int64_t items, Body body, void* context);
// Asks the system to back a fresh buffer with large pages: writing 32 MiB for the first time costs
// eight thousand page faults, more time than the kernel itself. A hint; it may do nothing.
void use_large_pages(char* p, int64_t bytes);

const char* team();  // "openmp" or "threads"

}  // namespace subquad
