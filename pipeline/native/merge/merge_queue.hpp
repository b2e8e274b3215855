// Which pair comes next: a queue of indexed pairs by count, then by tie-break.
//
// Counts below threshold + kLevels have a level each, a list linked through the pairs themselves; higher counts,
// of which there are few, are in a heap. A level is put in order when it is reached: most pairs wait in vain, and
// pay nothing but the link; and while the pairs of a level are merged, the ones to come are known in advance.
//
// Counts only fall, and the queue is not told: an entry whose count is not the pair's any more moves down when
// it comes up. Pairs added with the count of the open level go to a heap beside it; none is ever added above it,
// since a pair cannot stand more often than the pair whose merge made it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "merge/merge.hpp"
#include "merge/merge_sketch.hpp"
#include "merge/merge_tokens.hpp"

namespace bpe::merge {

using PairNumber = std::uint32_t;
inline constexpr PairNumber kNoPair = ~PairNumber{0};

struct IndexedPair {
  PairKey key;
  std::uint64_t count;
  std::uint32_t positions;  // listed ones, those gone stale included; or the most that fits
  PairNumber next;          // in its level
};

class PairQueue {
 public:
  PairQueue(const Tokens& tokens, TieBreak tie_break, std::uint64_t threshold);
  std::uint64_t threshold() const { return threshold_; }
  // Forgets all pairs below a higher threshold.
  void raise(std::uint64_t threshold) { threshold_ = threshold; }
  void push(std::vector<IndexedPair>& pairs, PairNumber number);
  // The best pair, taken off; kNoPair when none reaches the threshold.
  PairNumber take_best(std::vector<IndexedPair>& pairs);
  // The pair that will be taken `ahead` pairs after the next one if nothing changes, where that is known.
  PairNumber upcoming(std::size_t ahead) const {
    return ahead < ordered_.size() ? ordered_[ordered_.size() - 1 - ahead].number : kNoPair;
  }

 private:
  static constexpr std::uint64_t kLevels = std::uint64_t{1} << 14;
  struct Candidate {
    std::uint64_t count;
    PairKey key;
    PairNumber number;
  };
  bool worse(const Candidate& one, const Candidate& other) const;
  void push_heap(std::vector<Candidate>& heap, const Candidate& candidate) const;
  Candidate pop_heap(std::vector<Candidate>& heap) const;
  bool open_next_level(std::vector<IndexedPair>& pairs);

  const Tokens& tokens_;
  const TieBreak tie_break_;
  const std::uint64_t floor_;            // the count of level 0
  std::uint64_t threshold_;
  std::uint64_t open_;                   // the count of the open level; no lower level has been looked at
  std::vector<PairNumber> levels_;       // first pair of each
  std::vector<Candidate> above_;         // heap: counts that have no level
  std::vector<Candidate> ordered_;       // the open level, the best last
  std::vector<Candidate> late_;          // heap: what came to the open level since
};

}  // namespace bpe::merge
