// A team of threads that runs one task after another, and the pulse by which long loops stay interruptible.
//
// Idea: the calling thread is member 0: it alone calls the poll function (which may run Python), at most every 50 ms,
// also while it waits for the others. What poll throws cancels the task: the other members notice at their next beat,
// and the exception leaves Team::run once all have stopped. A member spins briefly before it sleeps, since during
// merging a task lasts microseconds and the next one follows at once.
#pragma once
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>

#include "merge/merge.hpp"

namespace bpe::merge {

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
  void beat_of_caller();
  const MergePoll& poll_;
  std::chrono::steady_clock::time_point polled_;
  std::atomic<bool> cancelled_{false};
};

class Team {
 public:
  Team(unsigned members, Pulse& pulse);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  unsigned members() const { return static_cast<unsigned>(threads_.size()) + 1; }
  // Runs task(member) for every member and returns when all have ended; throws the first exception of any.
  template <class Task>
  void run(Task&& task) {
    if (threads_.empty()) return task(0u);
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
  void run_task(std::function<void(unsigned)> task);
  void serve(unsigned member);
  void keep(std::exception_ptr error);

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
