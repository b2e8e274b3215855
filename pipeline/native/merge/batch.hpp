// Which merges may be made together: the certificate of a batch.
//
// Idea: (a, b) -> x takes apart the pairs (y, a) and (b, z) only, and makes (y, x) and (x, z), which occur no more
// often than those did. So the pair that the queue has next is merged next, with the count that it has, if its count is
// above those of all (y, a) and (b, z): then it is none of them. A batch is the pairs in the order of the queue for
// which this holds: no one's merge changes the count of a later one, and none makes a pair whose count could reach that
// of a later one.
// Exception: (a, a), whose overlaps are neighbours too, and a merge that frees pairs which could not be merged before,
// of which nothing is known. These make pairs up to their own count.
#pragma once
#include "merge/index.hpp"
#include "merge/join.hpp"

namespace bpe::merge {

inline constexpr uint64_t kBatchPositions = uint64_t{1} << 16;  // of a batch of several merges

// What training knows and each merge changes.
struct Learned {
  Tokens& tokens;
  std::vector<uint32_t>& spans;
  Sketch& sketch;
  MergeResult& result;
};

// The highest count of an indexed pair that has a token on its right, or on its left: exact, while counts fall.
//
// Idea: a heap for each token and side, whose top is looked at again when it is asked for.
// Cost: 32 bytes a pair.
class HighestNeighbours {
 public:
  explicit HighestNeighbours(const PairIndex& index) {
    for (PairNumber number = 0; number < index.pairs().size(); ++number) add(index, number);
  }
  void add(const PairIndex& index, PairNumber number) {
    const auto& pair = index.pairs()[number];
    push(to_right_, right_of(pair.key), {pair.count, number});
    push(from_left_, left_of(pair.key), {pair.count, number});
  }
  // Of the pairs (y, left) and (right, z); no lower than what a pair that is not indexed may have.
  uint64_t around(const PairIndex& index, Symbol left, Symbol right) {
    return std::max(highest(index, to_right_, left), highest(index, from_left_, right));
  }

 private:
  using Heap = std::vector<std::pair<uint64_t, PairNumber>>;  // count, as it was when the pair was pushed
  static void push(std::vector<Heap>& heaps, Symbol symbol, Heap::value_type entry) {
    if (heaps.size() <= symbol) heaps.resize(symbol + symbol / 2 + 1);
    heaps[symbol].push_back(entry);
    std::push_heap(heaps[symbol].begin(), heaps[symbol].end());
  }
  static uint64_t highest(const PairIndex& index, std::vector<Heap>& heaps, Symbol symbol) {
    if (symbol >= heaps.size()) return index.threshold() - 1;
    auto& heap = heaps[symbol];
    while (!heap.empty()) {
      const auto [count, number] = heap.front();
      const auto now = index.pairs()[number].count;
      if (now == count) return std::max(count, index.threshold() - 1);
      std::pop_heap(heap.begin(), heap.end());
      heap.pop_back();
      if (now < index.threshold()) continue;
      heap.emplace_back(now, number);
      std::push_heap(heap.begin(), heap.end());
    }
    return index.threshold() - 1;
  }
  std::vector<Heap> to_right_, from_left_;  // by symbol
};

// The merges that are made together: one by one where nothing is known of neighbours.
class Batch {
 public:
  // Takes the next pairs off the queue, `most` at the most; returns how many of them make a token that had an id.
  size_t choose(PairIndex& index, HighestNeighbours* highest, const Learned& learned, uint64_t most) {
    auto& [tokens, spans, sketch, result] = learned;
    joins_.clear();
    reachable_ = 0;
    pairs_.clear();
    counts_.clear();
    positions_ = 0;
    size_t again = 0;
    const auto most_merges = highest == nullptr ? std::min<uint64_t>(most, 1) : most;
    while (pairs_.size() < most_merges) {
      const auto best = index.take_best();
      if (best == kNoPair) break;
      auto& pair = index.pair(best);
      if (!pairs_.empty() && (positions_ + pair.positions > kBatchPositions || pair.count <= reachable_)) {
        index.put_back(best);
        break;
      }
      const Symbol left = left_of(pair.key), right = right_of(pair.key);
      joins_.push_back({left, right, tokens.add(left, right)});
      again += !tokens.last_is_new();
      spans.push_back(spans[left] + spans[right]);
      result.left.push_back(id_of(left));
      result.right.push_back(id_of(right));
      result.counts.push_back(pair.count);
      positions_ += pair.positions;
      pairs_.push_back(best);
      const auto count = std::exchange(pair.count, 0);
      counts_.push_back(count);
      const bool bounded = highest != nullptr && left != right && !tokens.frees(left);
      reachable_ = std::max(reachable_, bounded ? std::min(count, highest->around(index, left, right)) : count);
    }
    return again;
  }
  const std::vector<Join>& joins() const { return joins_; }
  const std::vector<PairNumber>& pairs() const { return pairs_; }
  uint64_t count(size_t merge) const { return counts_[merge]; }  // when it was chosen
  uint64_t positions() const { return positions_; }              // of all, about

 private:
  std::vector<Join> joins_;
  uint64_t reachable_ = 0;  // no pair that these make has a higher count
  std::vector<PairNumber> pairs_;
  std::vector<uint64_t> counts_;
  uint64_t positions_ = 0;
};

}  // namespace bpe::merge
