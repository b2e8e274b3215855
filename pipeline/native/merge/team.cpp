#include "merge/team.hpp"

#include <system_error>

namespace bpe::merge {
namespace {

constexpr int kSpins = 4000;
constexpr auto kPollInterval = std::chrono::milliseconds(50);

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void Pulse::beat_of_caller() {
  const auto now = std::chrono::steady_clock::now();
  if (now - polled_ < kPollInterval) return;
  poll_(progress);
  polled_ = std::chrono::steady_clock::now();
}

Team::Team(unsigned members, Pulse& pulse) : pulse_(pulse) {
  try {
    for (unsigned member = 1; member < members; ++member)
      threads_.emplace_back([this, member] { serve(member); });
  } catch (const std::system_error&) {
    // A container may allow fewer threads than asked for: the team is smaller then, the result the same.
  }
}

Team::~Team() {
  closing_ = true;
  generation_.fetch_add(1);
  generation_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void Team::keep(std::exception_ptr error) {
  const std::lock_guard lock(error_mutex_);
  if (!error_) error_ = std::move(error);
  pulse_.cancelled_ = true;
}

void Team::run_task(std::function<void(unsigned)> task) {
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

void Team::serve(unsigned member) {
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

}  // namespace bpe::merge
