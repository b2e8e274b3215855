// The pairs of a phase: which are indexed, how often they stand, where, and which comes next.
//
// Only pairs whose count reached the phase's threshold are in the index. The threshold may rise while the phase
// lasts, where far more pairs are indexed than merges are left to make: the index then holds, as before, every
// pair that reaches the threshold.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "merge/merge.hpp"
#include "merge/merge_positions.hpp"
#include "merge/merge_queue.hpp"
#include "merge/merge_sketch.hpp"
#include "merge/merge_tokens.hpp"

namespace bpe::merge {

class PairIndex {
 public:
  PairIndex(const Tokens& tokens, TieBreak tie_break, std::size_t n_shards, std::uint64_t threshold,
            std::size_t expected_pairs);

  std::uint64_t threshold() const { return queue_.threshold(); }
  std::size_t size() const { return pairs_.size(); }
  IndexedPair& pair(PairNumber number) { return pairs_[number]; }
  ListHandle& list(PairNumber number, std::size_t shard) { return lists_[number * n_shards_ + shard]; }

  // A pair that is not indexed yet and reaches the threshold.
  PairNumber add(PairKey key, std::uint64_t count, std::uint64_t positions);
  void prefetch(PairKey key) const { __builtin_prefetch(&slots_[slot_of(hash_of(key))]); }
  PairNumber find(PairKey key) const;

  // The best pair, taken off the queue; kNoPair when no indexed pair reaches the threshold any more.
  PairNumber take_best() { return queue_.take_best(pairs_); }
  PairNumber upcoming(std::size_t ahead) const { return queue_.upcoming(ahead); }
  void prefetch(PairNumber number) const {
    __builtin_prefetch(&pairs_[number]);
    __builtin_prefetch(&lists_[number * n_shards_]);
  }
  // Raises the threshold where that leaves at least `enough` pairs; cheap to call.
  void narrow(std::size_t enough);

 private:
  struct Slot {
    std::uint32_t tag;  // of the hash, so that a pair is looked at only where it is the one
    PairNumber number;
  };
  static std::uint64_t hash_of(PairKey pair) {
    pair = Sketch::product(pair);
    pair ^= pair >> 32;
    return pair * 0xD6E8FEB86659FD93u;
  }
  static std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash); }
  std::size_t slot_of(std::uint64_t hash) const { return hash >> 32 & (slots_.size() - 1); }
  void place(std::uint64_t hash, PairNumber number);
  void resize_table(std::size_t n_slots);

  const std::size_t n_shards_;
  std::size_t narrow_at_ = 0;  // pairs from which narrow() looks again
  std::vector<IndexedPair> pairs_;
  std::vector<ListHandle> lists_;
  std::vector<Slot> slots_;  // open addressing; a free slot has number kNoPair
  PairQueue queue_;
};

}  // namespace bpe::merge
