// How a token is drawn from the model's output: twin of generation/sampling.py, which a test holds
// it to, and the only sampler of the web page.
#pragma once
#include <cstdint>

namespace subquad {

struct Sampling {
  double temperature;         // divides the logits; 0 = always the likeliest
  int32_t top_k;              // only the k likeliest; 0 = all
  double top_p;               // only the likeliest that together have this probability; 1 = all
  double min_p;               // only what has at least this part of the likeliest one's probability
  double repetition_penalty;  // of tokens already in the text; 1 = none
  uint64_t seed;
  int32_t mixture;            // logistic components (the output is no list of logits); 0 = none
  int32_t levels;             // values that a mixture stands for
};

// A number in [0, 1) that depends on its arguments only: sample, step, and which of several.
double uniform(uint64_t seed, uint64_t sample, uint64_t step, uint64_t which);

// Draws from `n` outputs. `seen` [n] marks tokens already in the text (null: none);
// `probability` [n] and `order` [n] are working space.
int32_t draw(const Sampling& how, const float* outputs, int64_t n, const uint8_t* seen,
             uint64_t sample, uint64_t step, double* probability, int32_t* order);

}  // namespace subquad
