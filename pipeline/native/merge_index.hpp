// The pairs of a phase: which are indexed, how often they stand, where, and which comes next.
//
// Only pairs whose count reached the phase's threshold are in the index. The queue is a heap whose entries may be
// stale: counts of indexed pairs only fall, so an entry whose count is not the pair's any more is put back
// with the lower count when it comes up, and the first entry that is up to date is the best pair.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "merge.hpp"
#include "merge_positions.hpp"
#include "merge_sketch.hpp"
#include "merge_tokens.hpp"

namespace bpe::merge {

inline std::uint64_t hash_of(PairKey pair) {
  pair *= 0x9E3779B97F4A7C15u;
  pair ^= pair >> 32;
  return pair * 0xD6E8FEB86659FD93u;
}

using PairNumber = std::uint32_t;
inline constexpr PairNumber kNoPair = ~PairNumber{0};

struct IndexedPair {
  PairKey key;
  std::uint64_t count;
  std::uint64_t positions;  // listed ones, those gone stale included
};

class PairIndex {
 public:
  PairIndex(const Tokens& tokens, TieBreak tie_break, std::size_t n_shards, std::uint64_t threshold,
            std::size_t expected_pairs);

  std::uint64_t threshold() const { return threshold_; }
  std::size_t size() const { return pairs_.size(); }
  IndexedPair& pair(PairNumber number) { return pairs_[number]; }
  ListHandle& list(PairNumber number, std::size_t shard) { return lists_[number * n_shards_ + shard]; }

  // A pair that is not indexed yet and reaches the threshold. Before start() it is not queued yet.
  PairNumber add(PairKey key, std::uint64_t count, std::uint64_t positions);
  void start();
  void prefetch(std::uint64_t hash) const { __builtin_prefetch(&slots_[slot_of(hash)]); }
  PairNumber find(PairKey key, std::uint64_t hash) const;

  // The best pair, taken off the queue; kNoPair when no indexed pair reaches the threshold any more.
  PairNumber take_best();

 private:
  struct Slot {
    PairKey key;
    PairNumber number;
  };
  struct Candidate {
    std::uint64_t count;
    PairKey key;
    PairNumber number;
  };
  std::size_t slot_of(std::uint64_t hash) const { return hash >> 20 & (slots_.size() - 1); }
  void place(PairKey key, std::uint64_t hash, PairNumber number);
  void resize_table(std::size_t n_slots);
  bool worse(const Candidate& one, const Candidate& other) const;

  const Tokens& tokens_;
  const TieBreak tie_break_;
  const std::size_t n_shards_;
  const std::uint64_t threshold_;
  bool started_ = false;
  std::vector<IndexedPair> pairs_;
  std::vector<ListHandle> lists_;
  std::vector<Slot> slots_;  // open addressing; a free slot has number kNoPair
  std::vector<Candidate> queue_;
};

}  // namespace bpe::merge
