// What one thread needs to encode, and how it comes by it: caches and working memory, kept from call to call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include "encode/encode.hpp"
#include "count/hash.hpp"
#include "encode/hot_ids.hpp"
#include "encode/id_buffer.hpp"
#include "encode/long_piece_cache.hpp"
#include "encode/piece_cache.hpp"
#include "encode/rank_merge.hpp"

namespace bpe {

struct Encoder::State {
  static constexpr size_t kBlockPieces = 256;
  static constexpr size_t kStride = 8;  // ids that are copied at once

  explicit State(size_t cache_bytes) : cache(cache_bytes / 2), long_cache(cache_bytes / 2) {}
  HotIds hot;
  PieceCache cache;
  LongPieceCache long_cache;
  RankMerger::Scratch scratch;
  std::array<uint32_t, kBlockPieces> ends;
  std::array<uint32_t, 2 * kBlockPieces + kStride> known;  // the ids of a block's frequent pieces
  // Of the others, in order: which they are, and how many of `known` come before; which of these are longer; keys and
  // hashes; how many ids, and the ids of those that have few.
  struct Other {
    uint32_t piece, known_before;
  };
  std::array<Other, kBlockPieces> others;
  std::array<uint32_t, kBlockPieces> longer;
  std::array<Key, kBlockPieces> keys;
  std::array<uint64_t, kBlockPieces> hashes;
  std::array<uint8_t, kBlockPieces> counts;
  std::array<std::array<uint32_t, PieceCache::kMaxIds>, kBlockPieces> found;
  IdBuffer aside;  // the ids of those that have many
};

// A state taken from the encoder's pool for one call; beyond the pool, one of its own with hardly any cache.
class Encoder::Lease {
 public:
  explicit Lease(Encoder& encoder) : encoder_(encoder) {
    {
      const std::lock_guard lock(encoder.mutex_);
      if (!encoder.idle_.empty()) {
        state_ = std::move(encoder.idle_.back());
        encoder.idle_.pop_back();
        return;
      }
      pooled_ = encoder.states_ < encoder.pooled_states_;
      if (pooled_) ++encoder.states_;
    }
    try {
      state_ = std::make_unique<State>(pooled_ ? encoder.cache_bytes_ : 0);
    } catch (...) {
      give_back();
      throw;
    }
  }
  // A state that saw an exception may hold half-done work and is not used again.
  ~Lease() {
    if (std::uncaught_exceptions() > 0) state_.reset();
    give_back();
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  State& operator*() { return *state_; }

 private:
  void give_back() {
    if (!pooled_) return;
    const std::lock_guard lock(encoder_.mutex_);
    if (state_) {
      encoder_.idle_.push_back(std::move(state_));
    } else {
      --encoder_.states_;
    }
  }
  Encoder& encoder_;
  std::unique_ptr<State> state_;
  bool pooled_ = true;
};

}  // namespace bpe
