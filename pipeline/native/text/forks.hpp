// How often this process was forked from another: what threads of the parent hold or do is lost in the child.
//
// A lock that such a thread held would never be free, and the thread cannot be joined: what would wait for one compares
// this number with the one it was made in. Reading it costs a load.
#pragma once
#include <atomic>
#include <cstdint>

#if !defined(_WIN32)
#include <pthread.h>
#endif

namespace bpe {

inline std::atomic<uint32_t> forks{0};
#if !defined(_WIN32)
inline const int counts_forks = pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
#endif

}  // namespace bpe
