// Which pair is next: a queue of indexed pairs by count, then by tie-break.
//
// Idea: each count below threshold + kLevels has a level, a list linked through the pairs themselves; higher counts, of
// which there are few, are in a heap. A level is sorted when it is reached: most pairs never are, and cost nothing but
// the link; and while the pairs of a level are merged, the next ones are known in advance.
// Invariant: counts only fall, and the queue is not notified: an entry whose count is no longer the pair's moves down when
// it is reached. Pairs added with the count of the open level go to a second heap; none is ever added above it, since a
// pair cannot occur more often than the pair whose merge made it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "merge/merge.hpp"
#include "merge/sketch.hpp"
#include "merge/tokens.hpp"

namespace bpe::merge {

using PairNumber = uint32_t;
inline constexpr PairNumber kNoPair = ~PairNumber{0};

struct IndexedPair {
  PairKey key;
  uint64_t count;
  uint32_t positions;  // listed ones, stale ones included; or the most that fits
  PairNumber next;          // in its level
};

class PairQueue {
 public:
  PairQueue(const Tokens& tokens, bool greatest_bytes, uint64_t threshold);
  uint64_t threshold() const { return threshold_; }
  // Forgets all pairs below a higher threshold.
  void raise(uint64_t threshold) { threshold_ = threshold; }
  void push(std::vector<IndexedPair>& pairs, PairNumber number);
  // The best pair, taken off; kNoPair when none reaches the threshold.
  PairNumber take_best(std::vector<IndexedPair>& pairs);
  // The pair that is `ahead` pairs after the next one if nothing changes, where that is known.
  PairNumber upcoming(size_t ahead) const {
    return ahead < ordered_.size() ? ordered_[ordered_.size() - 1 - ahead].number : kNoPair;
  }

 private:
  static constexpr uint64_t kLevels = uint64_t{1} << 14;
  struct Candidate {
    uint64_t count;
    PairKey key;
    PairNumber number;
  };
  bool worse(const Candidate& one, const Candidate& other) const;
  void push_heap(std::vector<Candidate>& heap, const Candidate& candidate) const;
  Candidate pop_heap(std::vector<Candidate>& heap) const;
  bool open_next_level(std::vector<IndexedPair>& pairs);

  const Tokens& tokens_;
  const bool greatest_bytes_;
  const uint64_t floor_;            // the count of level 0
  uint64_t threshold_;
  uint64_t open_;                   // the count of the open level; no lower level has been looked at
  std::vector<PairNumber> levels_;       // first pair of each
  std::vector<Candidate> above_;         // heap: counts that have no level
  std::vector<Candidate> ordered_;       // the open level, the best last
  std::vector<Candidate> late_;          // heap: added to the open level since
};

}  // namespace bpe::merge
