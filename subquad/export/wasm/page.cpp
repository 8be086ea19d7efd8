// The interface for a web page to the step engine of kernels/csrc, for one text or image at a time.
// All numbers are 32-bit or double, because JavaScript handles other types less easily.
#include "engine.h"
#include "step.h"

namespace subquad {

// There is only one instruction set.
StepKernel choose_step() { return SUBQUAD_ISA::step; }

namespace {

Engine* engine = nullptr;
Sampling how{};
int32_t stream = 0;
uint32_t drawn = 0;  // tokens taken from the random stream
double* probability = nullptr;
int32_t* order = nullptr;
uint8_t* seen = nullptr;

// The fields of Spec in order; eps comes separately.
Spec spec_of(const int32_t* f, float eps) {
  return {f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8],
          Positions(f[9]), Phi(f[10]), Weights(f[11]), f[12], f[13], eps};
}

}  // namespace
}  // namespace subquad

using namespace subquad;
#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void* take(int32_t bytes) { return std::malloc(bytes); }

EXPORT int32_t block_bytes(const int32_t* spec, float eps) {
  return static_cast<int32_t>(Plan(spec_of(spec, eps)).bytes());
}

// f16 → f32: the shifted bits are the number times 2^-112, also for subnormal numbers.
EXPORT void widen(float* to, const uint16_t* from, int32_t n) {
  for (int32_t i = 0; i < n; ++i) {
    const uint32_t bits = (from[i] & 0x7fffu) << 13, sign = (from[i] & 0x8000u) << 16;
    float x;
    std::memcpy(&x, &bits, sizeof x);
    x *= 0x1p112f;
    to[i] = sign ? -x : x;
  }
}

EXPORT void load(const int32_t* spec, float eps, const char* block) {
  engine = new Engine(spec_of(spec, eps), block, 1);
  stream = engine->add();
  const int64_t outputs = row(engine->spec.outputs);
  probability = static_cast<double*>(std::malloc(outputs * sizeof(double)));
  order = static_cast<int32_t*>(std::malloc(outputs * sizeof(int32_t)));
  seen = static_cast<uint8_t*>(std::malloc(outputs));
}

EXPORT int32_t state_bytes() {
  return static_cast<int32_t>(state_floats(engine->spec) * sizeof(float));
}

// Resets the state and the random stream, and sets the sampling options.
EXPORT void begin(double temperature, int32_t top_k, double top_p, double min_p, double penalty,
                  uint32_t seed_low, uint32_t seed_high, int32_t mixture, int32_t levels) {
  how = {temperature, top_k, top_p, min_p, penalty,
         static_cast<uint64_t>(seed_high) << 32 | seed_low, mixture, levels};
  engine->remove(stream);
  stream = engine->add();  // the same memory, set to zero
  std::memset(seen, 0, row(engine->spec.outputs));
  drawn = 0;
}

// Reads a token; returns where the outputs after it are.
EXPORT const float* step(int32_t token) {
  if (token < engine->spec.outputs) seen[token] = 1;  // a start token is never sampled
  engine->step(1, &stream, &token);
  return engine->logits();
}

// Samples a token from the outputs of the last step, without reading it.
EXPORT int32_t next() {
  return draw(how, engine->logits(), engine->spec.outputs, seen, 0, drawn++, probability, order);
}
