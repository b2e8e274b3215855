// A team of threads that runs one task after another, and the pulse by which long loops stay interruptible.
//
// Idea: the calling thread is member 0: it alone calls the poll function (which may run Python), at most every 50 ms,
// also while it waits for the others. What poll throws cancels the task: the other members notice at their next beat,
// and the exception leaves Team::run once all have stopped. A member spins briefly before it sleeps, since during
// merging a task lasts microseconds and the next one follows at once. A child of a fork has no members but its caller: a
// team of its parent refuses there to work, and does not wait for them when it ends.
#pragma once
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "merge/merge.hpp"
#include "text/forks.hpp"

namespace bpe::merge {

inline constexpr int kSpins = 4000;
inline constexpr auto kPollInterval = std::chrono::milliseconds(50);

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class Pulse {
 public:
  explicit Pulse(const MergePoll& poll) : poll_(poll), polled_(std::chrono::steady_clock::now()) {}

  // Called by every member at least every few milliseconds of work. Throws where the work is to stop.
  void beat(unsigned member) {
    if (member == 0)
      beat_of_caller();
    else if (cancelled_.load(std::memory_order_relaxed))
      throw Cancelled{};
  }

  MergeProgress progress{};  // written by the calling thread only

 private:
  friend class Team;
  struct Cancelled {};
  void beat_of_caller() {
    const auto now = std::chrono::steady_clock::now();
    if (now - polled_ < kPollInterval) return;
    poll_(progress);
    polled_ = std::chrono::steady_clock::now();
  }
  const MergePoll& poll_;
  std::chrono::steady_clock::time_point polled_;
  std::atomic<bool> cancelled_{false};
};

class Team {
 public:
  Team(unsigned members, Pulse& pulse) : pulse_(pulse) {
    threads_.reserve(members);  // what is thrown later would end the process: threads that run cannot be destroyed
    try {
      for (unsigned member = 1; member < members; ++member) threads_.emplace_back([this, member] { serve(member); });
    } catch (const std::system_error&) {
      // A container may allow fewer threads than asked for: the team is smaller then, the result the same.
    }
  }
  ~Team() {
    if (process_ != forks) {
      new std::vector<std::thread>(std::move(threads_));  // never destroyed: they can be neither joined nor detached
      return;
    }
    closing_ = true;
    generation_.fetch_add(1);
    generation_.notify_all();
    for (auto& thread : threads_) thread.join();
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  unsigned members() const { return static_cast<unsigned>(threads_.size()) + 1; }
  // Runs task(member) for every member and returns when all have ended; throws the first exception of any.
  template <class Task>
  void run(Task&& task) {
    if (threads_.empty()) return task(0u);
    if (process_ != forks)
      throw std::runtime_error("the threads of this object are in the process that forked: make another one here");
    run_task(std::ref(task));
  }
  // Runs work(i) for every i below n, spread over the members in a fixed way.
  template <class Work>
  void each(size_t n, Work&& work) {
    run([&](unsigned member) {
      for (size_t i = member; i < n; i += members()) work(i, member);
    });
  }

 private:
  void run_task(std::function<void(unsigned)> task) {
    task_ = std::move(task);
    working_.store(static_cast<uint32_t>(threads_.size()), std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    try {
      task_(0);
    } catch (...) {
      keep(std::current_exception());
    }
    for (int spins = 0; working_.load(std::memory_order_acquire) != 0; ++spins) {
      if (spins < kSpins) {
        pause();
        continue;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      try {
        if (!pulse_.cancelled_) pulse_.beat_of_caller();
      } catch (...) {
        keep(std::current_exception());
      }
    }
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }
  void serve(unsigned member) {
    uint32_t seen = 0;
    while (true) {
      for (int spins = 0; spins < kSpins && generation_.load(std::memory_order_acquire) == seen; ++spins) pause();
      generation_.wait(seen, std::memory_order_acquire);
      seen = generation_.load(std::memory_order_acquire);
      if (closing_) return;
      try {
        task_(member);
      } catch (const Pulse::Cancelled&) {
      } catch (...) {
        keep(std::current_exception());
      }
      working_.fetch_sub(1, std::memory_order_release);
    }
  }
  void keep(std::exception_ptr error) {
    const std::lock_guard lock(error_mutex_);
    if (!error_) error_ = std::move(error);
    pulse_.cancelled_ = true;
  }

  const uint32_t process_ = forks;
  Pulse& pulse_;
  std::function<void(unsigned)> task_;
  std::atomic<uint32_t> generation_{0};
  std::atomic<uint32_t> working_{0};
  std::atomic<bool> closing_{false};
  std::mutex error_mutex_;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

}  // namespace bpe::merge
