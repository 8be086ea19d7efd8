// The model that the step engine runs, as plain numbers: what it is (Spec), and where each weight
// lies in one block of bytes (Plan). No template and no library here: the block is written in
// Python (generation/packing.py), read by the native engine, and put into a web page as it is.
//
// The block holds, in this order, each piece beginning at a multiple of 64 bytes:
//   tokens [inputs, d]; learned positions [length, d], or the rates of sinusoidal ones [d/2];
//   post-norm: the embedding's norm; every layer: its mixer, norm of the mixer, inner [ff, d] + bias,
//   outer [d, ff] + bias, norm of the feed-forward part;
//   pre-norm: the last norm; unless tied: head [outputs, d] + bias.
// The mixer of the `local` bottom layers is a convolution: each of its taps [d], newest first. That of
// the others is linear attention: qkv [3d, d] + bias, out [d, d] + bias.
// A norm is weight [d], then bias [d]. A matrix of `Spec::weights` has rows and columns filled with
// zeros to multiples of 16, and lies as [rows / 8][columns / 16][8][16]: what a product reads together
// is together, for vectors of any width. Of each 16 columns of bf16, 8 + i stands beside i. After an
// int8 matrix come its scales, one float32 per row. All else is float32, its rows filled likewise.
#pragma once
#include <cstdint>

namespace subquad {

enum class Weights : int32_t { f32, bf16, i8 };
enum class Positions : int32_t { none, learned, sinusoidal };
enum class Phi : int32_t { elu_plus_one, relu, squared_relu, softmax };

struct Spec {
  int32_t layers, d, heads, ff, inputs, outputs, length;
  int32_t pre_norm, tied;
  Positions positions;
  Phi phi;
  Weights weights;
  int32_t local, taps;
  float eps;
};

constexpr int64_t kRow = 16;  // elements: rows are filled to a multiple of it
constexpr int64_t kTall = 8;  // rows of a matrix that lie together, 16 columns at a time
inline int64_t row(int64_t n) { return (n + kRow - 1) / kRow * kRow; }

struct Matrix {
  int64_t at = 0, rows = 0, columns = 0, scales = 0;  // bytes from the block's beginning
};
struct Norm {
  int64_t weight = 0, bias = 0;
};
struct Affine {  // a matrix and its bias
  Matrix w;
  int64_t bias = 0;
};
struct LayerPlan {
  int64_t taps = 0;  // of a convolution, else of no use
  Affine qkv, out, inner, outer;
  Norm norm_mixer, norm_ff;
};

class Plan {
 public:
  explicit Plan(const Spec& spec) : spec_(spec) {
    tokens = matrix(spec.inputs, spec.d);
    if (spec.positions == Positions::learned) positions = matrix(spec.length, spec.d);
    if (spec.positions == Positions::sinusoidal) rates = floats((spec.d + 1) / 2);
    if (!spec.pre_norm) first = norm();
    layers_at_ = end_;
    local_bytes_ = size(true), layer_bytes_ = size(false);
    end_ = layer_begins(spec.layers);
    if (spec.pre_norm) last = norm();
    if (spec.tied)
      head.w = tokens, head.w.rows = spec.outputs;
    else
      head = linear(spec.outputs, spec.d);
  }
  // Where the weights of layer i are.
  LayerPlan layer(int i) const {
    Plan at(*this);
    at.end_ = layer_begins(i);
    return at.take_layer(i < spec_.local);
  }
  int64_t bytes() const { return end_; }

  Matrix tokens, positions;
  int64_t rates = 0;
  Norm first, last;
  Affine head;

 private:
  int64_t layer_begins(int64_t i) const {
    const int64_t local = i < spec_.local ? i : spec_.local;
    return layers_at_ + local_bytes_ * local + layer_bytes_ * (i - local);
  }
  int64_t size(bool local) const {
    Plan at(*this);
    at.take_layer(local);
    return at.end_ - end_;
  }
  LayerPlan take_layer(bool local) {
    LayerPlan p;
    if (local) {
      p.taps = take(spec_.taps * row(spec_.d) * 4);
    } else {
      p.qkv = linear(3 * spec_.d, spec_.d);
      p.out = linear(spec_.d, spec_.d);
    }
    p.norm_mixer = norm();
    p.inner = linear(spec_.ff, spec_.d);
    p.outer = linear(spec_.d, spec_.ff);
    p.norm_ff = norm();
    return p;
  }
  int64_t take(int64_t bytes) {
    const int64_t at = end_;
    end_ += (bytes + 63) / 64 * 64;
    return at;
  }
  int64_t floats(int64_t n) { return take(row(n) * 4); }
  Matrix matrix(int64_t rows, int64_t columns) {
    const int width = spec_.weights == Weights::f32 ? 4 : spec_.weights == Weights::bf16 ? 2 : 1;
    Matrix m{take(row(rows) * row(columns) * width), rows, columns, 0};
    if (spec_.weights == Weights::i8) m.scales = floats(rows);
    return m;
  }
  Affine linear(int64_t rows, int64_t columns) {
    Affine l{matrix(rows, columns), 0};
    l.bias = floats(rows);
    return l;
  }
  Norm norm() {
    Norm n{floats(spec_.d), 0};
    n.bias = floats(spec_.d);
    return n;
  }

  Spec spec_;
  int64_t end_ = 0, layers_at_ = 0, local_bytes_ = 0, layer_bytes_ = 0;
};

// Floats of one stream's state, layer after layer. Of a convolution: its last inputs [taps, row(d)],
// that of position p in row p % taps. Of attention: for each head S [k, row(k)] and Z [row(k)].
inline int64_t head_state(const Spec& s) {
  const int64_t k = s.d / s.heads;
  return (k + 1) * row(k);
}
inline int64_t state_begins(const Spec& s, int64_t layer) {
  const int64_t local = layer < s.local ? layer : s.local;
  return local * s.taps * row(s.d) + (layer - local) * s.heads * head_state(s);
}
inline int64_t state_floats(const Spec& s) { return state_begins(s, s.layers); }

// Working space of one member: q, k and v of a head, and some rows of weights in float32.
inline int64_t scratch_floats(const Spec& s) {
  return 3 * row(s.d / s.heads) + kRow * row(s.d > s.ff ? s.d : s.ff);
}

// What one step works on. Rows of `x` … `logits` belong to streams and are `row(width)` floats
// apart; the filling is zero and stays zero.
struct Step {
  const Spec* spec;
  const Plan* plan;
  const char* block;
  int64_t n;                 // streams
  float* const* states;      // [n]
  const int32_t* tokens;     // [n]
  const int64_t* positions;  // [n]
  float *x, *normed, *qkv, *mixed, *added, *hidden, *logits;
  float* scratch;            // scratch_floats for each member of the crew
};

}  // namespace subquad
