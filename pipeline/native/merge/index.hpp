// PairIndex: the pairs of a phase: which are indexed, how often they occur, where, and which comes next.
//
// Idea: pairs are numbered as they are added. The queue orders them by count, then by tie-break: each count below
// threshold + kLevels has a level, a list linked through the pairs themselves; higher counts, of which there are few,
// are in a heap. A level is sorted when it is reached: most pairs never are, and cost nothing but the link.
// Invariants: the index holds every pair whose count reaches the phase's threshold. The threshold may rise during a
// phase, where far more pairs are indexed than merges are left to make. Counts only fall, and the queue is not
// notified: an entry whose count is no longer the pair's moves down when it is reached. Pairs added with the count of
// the open level go to a second heap. While pairs are merged one by one none is added above it, since a pair cannot occur
// more often than the pair whose merge made it; where several are taken first, what is above it joins the high counts.
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

class PairQueue {
 public:
  PairQueue(const Tokens& tokens, uint64_t threshold)
      : tokens_(tokens),
        greatest_bytes_(tokens.rules().tie_break != TieBreak::kLowestIds),
        floor_(threshold),
        threshold_(threshold),
        open_(threshold + kLevels),
        levels_(kLevels, kNoPair) {}

  uint64_t threshold() const { return threshold_; }
  const std::vector<IndexedPair>& pairs() const { return pairs_; }
  IndexedPair& pair(PairNumber number) { return pairs_[number]; }
  // A pair that is not in the queue yet and reaches the threshold.
  PairNumber add(PairKey key, uint64_t count, uint64_t positions) {
    const auto number = static_cast<PairNumber>(pairs_.size());
    constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
    pairs_.push_back({key, count, static_cast<uint32_t>(std::min(positions, kMost)), kNoPair});
    push(number);
    return number;
  }

  // The best pair, taken off the queue; kNoPair when no indexed pair reaches the threshold any more.
  PairNumber take_best() {
    while (!above_.empty()) {
      // Others have lower counts still, and counts below a raised threshold are not exact.
      if (above_.front().count < threshold_) return kNoPair;
      const Candidate best = pop_heap(above_);
      if (pairs_[best.number].count == best.count) return best.number;
      push(best.number);
    }
    do {
      // A batch may have opened a level below counts that its merges then made, and these raised the threshold above it.
      if (open_ < threshold_) return kNoPair;
      while (!ordered_.empty() || !late_.empty()) {
        Candidate best;
        if (late_.empty() || (!ordered_.empty() && worse(late_.front(), ordered_.back()))) {
          best = ordered_.back();
          ordered_.pop_back();
        } else {
          best = pop_heap(late_);
        }
        if (pairs_[best.number].count == best.count) return best.number;
        push(best.number);
      }
    } while (open_next_level());
    return kNoPair;
  }
  // Puts a pair that was taken back on the queue.
  void put_back(PairNumber number) { push(number); }
  void prefetch(PairNumber number) const { __builtin_prefetch(&pairs_[number]); }
  // Raises the threshold where that leaves at least `enough` pairs; cheap to call.
  void narrow(size_t enough) {
    if (pairs_.size() < std::max(narrow_at_, 2 * enough)) return;
    std::vector<uint64_t> counts;
    for (const auto& pair : pairs_)
      if (pair.count >= threshold_) counts.push_back(pair.count);
    if (counts.size() >= 2 * enough) {
      const auto last = counts.begin() + static_cast<std::ptrdiff_t>(enough);
      std::nth_element(counts.begin(), last, counts.end(), std::greater<>());
      threshold_ = *last;
    }
    narrow_at_ = pairs_.size() + pairs_.size() / 4;
  }

 private:
  static constexpr uint64_t kLevels = uint64_t{1} << 14;
  struct Candidate {
    uint64_t count;
    PairKey key;
    PairNumber number;
  };
  bool worse(const Candidate& one, const Candidate& other) const {
    if (one.count != other.count) return one.count < other.count;
    if (!greatest_bytes_ && !tokens_.have_ids()) return one.key > other.key;
    if (!greatest_bytes_)
      return tokens_.above(left_of(one.key), right_of(one.key), left_of(other.key), right_of(other.key));
    const int left = tokens_.compare(left_of(one.key), left_of(other.key));
    return left != 0 ? left < 0 : tokens_.compare(right_of(one.key), right_of(other.key)) < 0;
  }
  void push_heap(std::vector<Candidate>& heap, PairNumber number) const {
    heap.push_back({pairs_[number].count, pairs_[number].key, number});
    std::push_heap(heap.begin(), heap.end(), [this](const auto& a, const auto& b) { return worse(a, b); });
  }
  Candidate pop_heap(std::vector<Candidate>& heap) const {
    std::pop_heap(heap.begin(), heap.end(), [this](const auto& a, const auto& b) { return worse(a, b); });
    const Candidate best = heap.back();
    heap.pop_back();
    return best;
  }
  void push(PairNumber number) {
    auto& pair = pairs_[number];
    if (pair.count < threshold_) return;
    if (pair.count - floor_ >= kLevels || pair.count > open_) {
      push_heap(above_, number);
    } else if (pair.count == open_) {
      push_heap(late_, number);
    } else {
      pair.next = levels_[pair.count - floor_];
      levels_[pair.count - floor_] = number;
    }
  }
  bool open_next_level() {
    do {
      if (open_ <= threshold_) return false;
      --open_;
    } while (levels_[open_ - floor_] == kNoPair);
    for (PairNumber number = levels_[open_ - floor_], next; number != kNoPair; number = next) {
      next = pairs_[number].next;
      if (pairs_[number].count == open_)
        ordered_.push_back({open_, pairs_[number].key, number});
      else
        push(number);
    }
    std::sort(ordered_.begin(), ordered_.end(), [this](const auto& a, const auto& b) { return worse(a, b); });
    return true;
  }

  const Tokens& tokens_;
  const bool greatest_bytes_;
  size_t narrow_at_ = 0;  // pairs from which narrow() looks again
  std::vector<IndexedPair> pairs_;

  const uint64_t floor_;  // the count of level 0
  uint64_t threshold_;
  uint64_t open_;                   // the count of the open level; no lower level has been opened
  std::vector<PairNumber> levels_;  // first pair of each
  std::vector<Candidate> above_;    // heap: counts that have no level
  std::vector<Candidate> ordered_;  // the open level, the best last
  std::vector<Candidate> late_;     // heap: added to the open level since
};

// With the numbers of pairs, and where in each shard they are listed.
class PairIndex : public PairQueue {
 public:
  PairIndex(const Tokens& tokens, size_t n_shards, uint64_t threshold, size_t expected_pairs)
      : PairQueue(tokens, threshold), n_shards_(n_shards), numbers_(expected_pairs) {}

  ListHandle& list(PairNumber number, size_t shard) { return lists_[number * n_shards_ + shard]; }
  PairNumber add(PairKey key, uint64_t count, uint64_t positions) {
    lists_.resize(lists_.size() + n_shards_, 0);
    const auto number = PairQueue::add(key, count, positions);
    numbers_.insert(left_of(key), right_of(key), number);
    return number;
  }
  void prefetch(PairKey key) const { numbers_.prefetch(left_of(key), right_of(key)); }
  PairNumber find(PairKey key) const { return numbers_.find(left_of(key), right_of(key)); }

 private:
  const size_t n_shards_;
  std::vector<ListHandle> lists_;
  PairMap<false> numbers_;
};

}  // namespace bpe::merge
