#include "crew.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

namespace subquad {
namespace {

// Rounds of spinning before a thread sleeps: one to three ms, longer than any part of a token takes, and
// shorter than the turn of somebody else on the core.
constexpr int kSpins = 65536;
// After a job in which somebody had to sleep the caller does the next one alone; after another such
// job two, then four, and at most so many.
constexpr int kMostAlone = 32;

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A thread inherits the cores of the one that makes it. Where OpenMP has bound that one to a single
// core (OMP_PROC_BIND), two members would take turns on it: then any core will do.
void leave_narrow_place(int members) {
#if defined(__linux__)
  cpu_set_t mine;
  if (sched_getaffinity(0, sizeof mine, &mine) == 0 && CPU_COUNT(&mine) < members) {
    for (int i = 0; i < CPU_SETSIZE; ++i) CPU_SET(i, &mine);
    sched_setaffinity(0, sizeof mine, &mine);
  }
#else
  (void)members;
#endif
}

// A number that threads wait for to change: spinning first, then asleep.
class Turn {
 public:
  unsigned now() const { return value_.load(std::memory_order_acquire); }
  void next() {
    {
      std::lock_guard<std::mutex> held(lock_);
      value_.fetch_add(1, std::memory_order_acq_rel);
    }
    changed_.notify_all();
  }
  void next_quick() {  // as next, without a call to the system if nobody sleeps
    value_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst)) {
      std::lock_guard<std::mutex> held(lock_);
      changed_.notify_all();
    }
  }
  // Returns whether it had to sleep.
  bool wait_while(unsigned last) {
    for (int i = 0; i < kSpins; ++i) {
      if (now() != last) return false;
      pause();
    }
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    {
      std::unique_lock<std::mutex> held(lock_);
      changed_.wait(held, [&] { return value_.load(std::memory_order_seq_cst) != last; });
    }
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    return true;
  }

 private:
  std::atomic<unsigned> value_{0};
  std::atomic<int> sleepers_{0};
  std::mutex lock_;
  std::condition_variable changed_;
};

}  // namespace

struct Crew::Others {
  Turn call, round;
  std::atomic<int> arrived{0};
  std::atomic<bool> over{false}, slept{false};
  int alone = 0;    // jobs still to be done by the caller alone
  int penalty = 1;  // how many that will be, if somebody sleeps
  void (*job)(void*, int) = nullptr;
  void* context = nullptr;
  std::vector<std::thread> threads;
};

Crew::Crew(int threads)
    : most_(threads < 1 ? 1 : threads), size_(most_), others_(new Others) {
  for (int me = 1; me < most_; ++me) {
    others_->threads.emplace_back([this, me] {
      leave_narrow_place(most_);
      Others& o = *others_;
      for (unsigned last = 0;; ++last) {
        o.call.wait_while(last);
        if (o.over) return;
        meet();
        o.job(o.context, me);
        wait();
      }
    });
  }
}

Crew::~Crew() {
  others_->over = true;
  others_->call.next();
  for (auto& thread : others_->threads) thread.join();
}

void Crew::run(void (*job)(void*, int), void* context) {
  Others& o = *others_;
  if (size_ > 1) {  // the last job was done together: how did it go?
    const bool badly = o.slept.exchange(false);
    o.alone = badly ? o.penalty : 0;
    o.penalty = !badly ? 1 : o.penalty < kMostAlone ? 2 * o.penalty : kMostAlone;
  }
  size_ = o.alone > 0 ? 1 : most_;
  if (o.alone > 0) --o.alone;
  if (size_ > 1) {
    o.job = job, o.context = context;
    o.call.next_quick();
    meet();  // waking up may take a while, and says nothing about how busy the cores are
  }
  job(context, 0);
  wait();
}

void Crew::wait() {
  if (size_ > 1 && meet()) others_->slept = true;
}

bool Crew::meet() {
  Others& o = *others_;
  const unsigned round = o.round.now();
  if (o.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    o.arrived.store(0, std::memory_order_relaxed);
    o.round.next_quick();
    return false;
  }
  return o.round.wait_while(round);
}

}  // namespace subquad
