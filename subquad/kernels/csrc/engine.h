// A whole causal linear-attention model, one token at a time, for any number of streams: texts or
// images that each have a state and a position of their own.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "crew.h"
#include "model.h"
#include "sampling.h"

namespace subquad {

class Engine {
 public:
  // `block` (see model.h) is read where it lies and has to outlive the engine.
  Engine(const Spec& spec, const char* block, int threads);

  // Streams have numbers; a removed one's number and memory are used again.
  int32_t add();
  int32_t clone(int32_t stream);
  void remove(int32_t stream);
  bool alive(int32_t stream) const;
  float* state(int32_t stream) { return streams_[stream].state.get(); }
  int64_t& position(int32_t stream) { return streams_[stream].position; }

  // Makes room for n streams in one call; no later call of up to n allocates.
  void reserve(int64_t n);
  // Each stream reads its token; row(outputs) floats for each are left in `logits()`.
  void step(int64_t n, const int32_t* streams, const int32_t* tokens);
  const float* logits() const { return logits_.get(); }

  // `steps` times: every stream reads its token and draws its next. drawn [n, steps]; `tokens` ends
  // as the last ones drawn, which have not been read. `samples` [n] and `first` [n] number the
  // random streams and the first step in each; `seen` [n, outputs] is kept up to date (null: not).
  void run(int64_t n, const int32_t* streams, int32_t* tokens, int64_t steps, const Sampling& how,
           const uint64_t* samples, const uint64_t* first, uint8_t* seen, int32_t* drawn);

  const Spec spec;
  const Plan plan;

 private:
  struct Free {
    void operator()(void* p) const;
  };
  template <class T>
  using Buffer = std::unique_ptr<T[], Free>;
  template <class T>
  static Buffer<T> zeros(int64_t n);
  struct Stream {
    Buffer<float> state;
    int64_t position = 0;
    bool alive = false;
  };

  void forward(int64_t n, const int32_t* streams, const int32_t* tokens, int me);

  const char* block_;
  Crew crew_;
  std::vector<Stream> streams_;
  int64_t room_ = 0;
  Buffer<float> x_, normed_, qkv_, mixed_, added_, hidden_, logits_, scratch_;
  Buffer<double> probability_;
  Buffer<int32_t> order_;
  Buffer<float*> states_;
  Buffer<int64_t> positions_;
};

}  // namespace subquad
