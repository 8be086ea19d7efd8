#include "engine.h"

#include <cstdlib>
#include <cstring>

#include "core.h"

namespace subquad {

void Engine::Free::operator()(void* p) const { std::free(p); }

template <class T>
Engine::Buffer<T> Engine::zeros(int64_t n) {
  const int64_t bytes = (n * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
  void* p = std::aligned_alloc(64, bytes ? bytes : 64);
  if (!p) std::abort();
  std::memset(p, 0, bytes);
  return Buffer<T>(static_cast<T*>(p));
}

Engine::Engine(const Spec& s, const char* block, int threads)
    : spec(s), plan(s), block_(block), crew_(threads) {
  scratch_ = zeros<float>(crew_.most() * scratch_floats(s));
  probability_ = zeros<double>(crew_.most() * row(s.outputs));
  order_ = zeros<int32_t>(crew_.most() * row(s.outputs));
  reserve(1);
}

int32_t Engine::add() {
  size_t i = 0;
  while (i < streams_.size() && streams_[i].alive) ++i;
  if (i == streams_.size()) streams_.emplace_back();
  Stream& one = streams_[i];
  if (one.state)
    std::memset(one.state.get(), 0, state_floats(spec) * sizeof(float));
  else
    one.state = zeros<float>(state_floats(spec));
  one.position = 0;
  one.alive = true;
  return static_cast<int32_t>(i);
}

int32_t Engine::clone(int32_t stream) {
  const int32_t made = add();
  std::memcpy(state(made), state(stream), state_floats(spec) * sizeof(float));
  position(made) = position(stream);
  return made;
}

void Engine::remove(int32_t stream) { streams_[stream].alive = false; }

bool Engine::alive(int32_t stream) const {
  return stream >= 0 && stream < static_cast<int64_t>(streams_.size()) && streams_[stream].alive;
}

void Engine::reserve(int64_t n) {
  if (n <= room_) return;
  room_ = n;
  const int64_t d = row(spec.d);
  x_ = zeros<float>(n * d);
  normed_ = zeros<float>(n * d);
  qkv_ = zeros<float>(n * row(3 * spec.d));
  mixed_ = zeros<float>(n * d);
  added_ = zeros<float>(n * d);
  hidden_ = zeros<float>(n * row(spec.ff));
  logits_ = zeros<float>(n * row(spec.outputs));
  states_ = zeros<float*>(n);
  positions_ = zeros<int64_t>(n);
}

void Engine::forward(int64_t n, const int32_t* streams, const int32_t* tokens, int me) {
  if (me == 0) {
    for (int64_t b = 0; b < n; ++b) {
      states_[b] = state(streams[b]);
      positions_[b] = position(streams[b])++;
    }
  }
  crew_.wait();
  const Step s{&spec,       &plan,       block_,        n,             states_.get(),
               tokens,      positions_.get(), x_.get(), normed_.get(), qkv_.get(),
               mixed_.get(), added_.get(), hidden_.get(), logits_.get(), scratch_.get()};
  choose_step()(s, crew_, me);
}

void Engine::step(int64_t n, const int32_t* streams, const int32_t* tokens) {
  reserve(n);
  crew_.run([&](int me) { forward(n, streams, tokens, me); });
}

void Engine::run(int64_t n, const int32_t* streams, int32_t* tokens, int64_t steps,
                 const Sampling& how, const uint64_t* samples, const uint64_t* first,
                 uint8_t* seen, int32_t* drawn) {
  reserve(n);
  const int64_t wide = row(spec.outputs);
  crew_.run([&](int me) {
    for (int64_t i = 0; i < steps; ++i) {
      forward(n, streams, tokens, me);
      for (int64_t b = me; b < n; b += crew_.size()) {
        uint8_t* mine = seen ? seen + b * spec.outputs : nullptr;
        const int32_t token =
            draw(how, logits_.get() + b * wide, spec.outputs, mine, samples[b], first[b] + i,
                 probability_.get() + me * wide, order_.get() + me * wide);
        if (mine) mine[token] = 1;
        drawn[b * steps + i] = tokens[b] = token;
      }
      crew_.wait();
    }
  });
}

}  // namespace subquad
