// One merge: joins every listed occurrence of a pair, and learns which pairs came and went around them.
//
// Pass 1 (join_listed) walks the list in order. An entry may be stale; it is an occurrence exactly when the
// pair's two symbols still start there, since a slot that has lost a symbol never gets it back: symbols are
// only written while the merge that makes them runs, and no list holds that symbol yet. The weights of the
// symbols to the left and right are added up in arrays indexed by symbol, so the cost of a hash lookup is
// paid once per different neighbour, not per occurrence.
//
// Pass 2 (list_neighbours) runs only where a new pair reaches the phase's threshold: it visits the joined
// positions again and lists those pairs. Both passes take a shard at a time and touch nothing outside it.
//
// Overlaps: with (a, b) -> x in `abab`, the first join sees the right neighbour a and counts (x, a); the second
// sees x on its left, which stands for a pair (x, a) that is gone again. So the weight of x on the left, kept
// apart from all others, is what new pairs (x, a) must give up and what (x, x) has.
#pragma once
#include <cstdint>
#include <vector>

#include "merge/merge_positions.hpp"
#include "merge/merge_tokens.hpp"
#include "merge/merge_words.hpp"

namespace bpe::merge {

// What stands on one side of the joined occurrences.
class Neighbours {
 public:
  struct Entry {
    std::uint64_t weight = 0;
    std::uint32_t positions = 0;
    std::uint32_t writer = 0;  // 1 + index of the list that pass 2 writes; 0: none
  };
  void reserve(Symbol symbols) {
    if (entries_.size() <= symbols) {
      entries_.resize(symbols + symbols / 2);
      seen_.resize(entries_.size());
    }
  }
  // Adds one at a time, with everything in registers.
  class Adder {
   public:
    explicit Adder(Neighbours& side)
        : side_(side), entries_(side.entries_.data()), seen_(side.seen_.data()), n_seen_(side.n_seen_) {}
    Adder(const Adder&) = delete;
    Adder& operator=(const Adder&) = delete;
    ~Adder() { side_.n_seen_ = n_seen_; }
    void add(Symbol symbol, std::uint64_t weight) {
      Entry& entry = entries_[symbol];
      seen_[n_seen_] = symbol;
      n_seen_ += entry.positions++ == 0;
      entry.weight += weight;
    }

   private:
    Neighbours& side_;
    Entry* const entries_;
    Symbol* const seen_;
    std::uint32_t n_seen_;
  };
  void add(const Neighbours& other) {
    for (std::uint32_t i = 0; i < other.n_seen_; ++i) {
      const Symbol symbol = other.seen_[i];
      Entry& entry = entries_[symbol];
      if (entry.positions == 0) seen_[n_seen_++] = symbol;
      entry.positions += other.entries_[symbol].positions;
      entry.weight += other.entries_[symbol].weight;
    }
  }
  Entry& operator[](Symbol symbol) { return entries_[symbol]; }
  const Symbol* begin() const { return seen_.data(); }
  const Symbol* end() const { return seen_.data() + n_seen_; }
  void clear() {
    for (std::uint32_t i = 0; i < n_seen_; ++i) entries_[seen_[i]] = {};
    n_seen_ = 0;
  }

 private:
  std::vector<Entry> entries_;
  std::vector<Symbol> seen_;  // has room for every symbol and one more
  std::uint32_t n_seen_ = 0;
};

struct Surroundings {
  Neighbours left, right;
  void reserve(Symbol symbols) {
    left.reserve(symbols);
    right.reserve(symbols);
  }
  void clear() {
    left.clear();
    right.clear();
  }
};

struct Join {
  Symbol left, right, made;
};

// Pass 1. `positions` holds the pair's list and is cut down to the occurrences joined.
template <class S>
void join_listed(Shard<S>& shard, const Join& join, const std::vector<std::uint32_t>& spans,
                 std::vector<Position>& positions, Surroundings& around, Pulse& pulse, unsigned member);

// Pass 2. Entries of `around` that have a writer say which list their pair goes to.
template <class S>
void list_neighbours(const Shard<S>& shard, const Join& join, const std::vector<std::uint32_t>& spans,
                     const std::vector<Position>& positions, Surroundings& around, PositionArena& arena,
                     std::vector<ListWriter>& writers, Pulse& pulse, unsigned member);

}  // namespace bpe::merge
