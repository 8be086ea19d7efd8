// The threads of one engine. They go through a step together and wait for one another between its
// parts, some fifty times per token, so they spin. On a machine where others run too, a member may
// lose its core for milliseconds; then the caller works alone for a while, which is faster.
// Results do not depend on how many work.
#pragma once

#ifdef __wasm__  // one thread, nobody to wait for

namespace subquad {
class Crew {
 public:
  explicit Crew(int) {}
  int most() const { return 1; }
  int size() const { return 1; }
  void wait() {}
  template <class F>
  void run(F f) { f(0); }
};
}  // namespace subquad

#else

#include <memory>

namespace subquad {

class Crew {
 public:
  explicit Crew(int threads);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  int most() const { return most_; }
  // How many work on the job in hand.
  int size() const { return size_; }
  // Until all who work on it have come here.
  void wait();
  // f(0) here and f(1) … f(size - 1) on the others; returns when all have.
  template <class F>
  void run(F f) {
    run([](void* c, int me) { (*static_cast<F*>(c))(me); }, &f);
  }

 private:
  void run(void (*job)(void*, int), void* context);
  bool meet();  // as wait; whether this one had to sleep

  struct Others;
  const int most_;
  int size_;
  std::unique_ptr<Others> others_;
};

}  // namespace subquad

#endif
