// PairIndex: the pairs of a phase: which are indexed, how often they occur, where, and which comes next.
//
// Idea: pairs are numbered as they are added. The queue orders them by count, then by tie-break: each count below
// threshold + kLevels has a level, a list linked through the pairs themselves; higher counts, of which there are few,
// are in a heap. A level is sorted when it is reached: most pairs never are, and cost nothing but the link; and while
// the pairs of a level are merged, the next ones are known in advance.
// Invariants: the index holds every pair whose count reaches the phase's threshold. The threshold may rise during a
// phase, where far more pairs are indexed than merges are left to make. Counts only fall, and the queue is not
// notified: an entry whose count is no longer the pair's moves down when it is reached. Pairs added with the count of
// the open level go to a second heap; none is ever added above it, since a pair cannot occur more often than the pair
// whose merge made it.
#pragma once
#include "count/pair_map.hpp"
#include "merge/positions.hpp"
#include "merge/sketch.hpp"
#include "merge/tokens.hpp"

namespace bpe::merge {

using PairNumber = uint32_t;
inline constexpr PairNumber kNoPair = PairMap<false>::kNone;

struct IndexedPair {
  PairKey key;
  uint64_t count;
  uint32_t positions;  // listed ones, stale ones included; or the most that fits
  PairNumber next;     // in its level
};

class PairIndex {
 public:
  PairIndex(const Tokens& tokens, bool greatest_bytes, size_t n_shards, uint64_t threshold, size_t expected_pairs);

  uint64_t threshold() const { return threshold_; }
  IndexedPair& pair(PairNumber number) { return pairs_[number]; }
  ListHandle& list(PairNumber number, size_t shard) { return lists_[number * n_shards_ + shard]; }

  // A pair that is not indexed yet and reaches the threshold.
  PairNumber add(PairKey key, uint64_t count, uint64_t positions);
  void prefetch(PairKey key) const { numbers_.prefetch(left_of(key), right_of(key)); }
  PairNumber find(PairKey key) const { return numbers_.find(left_of(key), right_of(key)); }

  // The best pair, taken off the queue; kNoPair when no indexed pair reaches the threshold any more.
  PairNumber take_best();
  // The pair that is `ahead` pairs after the next one if nothing changes, where that is known.
  PairNumber upcoming(size_t ahead) const {
    return ahead < ordered_.size() ? ordered_[ordered_.size() - 1 - ahead].number : kNoPair;
  }
  void prefetch(PairNumber number) const {
    __builtin_prefetch(&pairs_[number]);
    __builtin_prefetch(&lists_[number * n_shards_]);
  }
  // Raises the threshold where that leaves at least `enough` pairs; cheap to call.
  void narrow(size_t enough);

 private:
  static constexpr uint64_t kLevels = uint64_t{1} << 14;
  struct Candidate {
    uint64_t count;
    PairKey key;
    PairNumber number;
  };
  bool worse(const Candidate& one, const Candidate& other) const;
  void push_heap(std::vector<Candidate>& heap, PairNumber number) const;
  Candidate pop_heap(std::vector<Candidate>& heap) const;
  void push(PairNumber number);
  bool open_next_level();

  const Tokens& tokens_;
  const bool greatest_bytes_;
  const size_t n_shards_;
  size_t narrow_at_ = 0;  // pairs from which narrow() looks again
  std::vector<IndexedPair> pairs_;
  std::vector<ListHandle> lists_;
  PairMap<false> numbers_;

  const uint64_t floor_;            // the count of level 0
  uint64_t threshold_;
  uint64_t open_;                   // the count of the open level; no lower level has been opened
  std::vector<PairNumber> levels_;  // first pair of each
  std::vector<Candidate> above_;    // heap: counts that have no level
  std::vector<Candidate> ordered_;  // the open level, the best last
  std::vector<Candidate> late_;     // heap: added to the open level since
};

}  // namespace bpe::merge
