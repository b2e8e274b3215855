// The pairs of a phase: which are indexed, how often they occur, where, and which comes next.
//
// Invariant: the index holds every pair whose count reaches the phase's threshold. The threshold may rise during a phase,
// where far more pairs are indexed than merges are left to make.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "merge/merge.hpp"
#include "merge/positions.hpp"
#include "merge/queue.hpp"
#include "merge/sketch.hpp"
#include "merge/tokens.hpp"

namespace bpe::merge {

class PairIndex {
 public:
  PairIndex(const Tokens& tokens, bool greatest_bytes, size_t n_shards, uint64_t threshold, size_t expected_pairs);

  uint64_t threshold() const { return queue_.threshold(); }
  size_t size() const { return pairs_.size(); }
  IndexedPair& pair(PairNumber number) { return pairs_[number]; }
  ListHandle& list(PairNumber number, size_t shard) { return lists_[number * n_shards_ + shard]; }

  // A pair that is not indexed yet and reaches the threshold.
  PairNumber add(PairKey key, uint64_t count, uint64_t positions);
  void prefetch(PairKey key) const { __builtin_prefetch(&slots_[slot_of(hash_of(key))]); }
  PairNumber find(PairKey key) const;

  // The best pair, taken off the queue; kNoPair when no indexed pair reaches the threshold any more.
  PairNumber take_best() { return queue_.take_best(pairs_); }
  PairNumber upcoming(size_t ahead) const { return queue_.upcoming(ahead); }
  void prefetch(PairNumber number) const {
    __builtin_prefetch(&pairs_[number]);
    __builtin_prefetch(&lists_[number * n_shards_]);
  }
  // Raises the threshold where that leaves at least `enough` pairs; cheap to call.
  void narrow(size_t enough);

 private:
  struct Slot {
    uint32_t tag;  // of the hash, so that hardly any other pair is compared
    PairNumber number;
  };
  static uint64_t hash_of(PairKey pair) {
    pair = Sketch::product(pair);
    pair ^= pair >> 32;
    return pair * 0xD6E8FEB86659FD93u;
  }
  static uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash); }
  size_t slot_of(uint64_t hash) const { return hash >> 32 & (slots_.size() - 1); }
  void place(uint64_t hash, PairNumber number);
  void resize_table(size_t n_slots);

  const size_t n_shards_;
  size_t narrow_at_ = 0;  // pairs from which narrow() looks again
  std::vector<IndexedPair> pairs_;
  std::vector<ListHandle> lists_;
  std::vector<Slot> slots_;  // open addressing; a free slot has number kNoPair
  PairQueue queue_;
};

}  // namespace bpe::merge
