// One merge: joins every listed occurrence of a pair, and finds which pairs appeared and disappeared around them.
//
// Idea: pass 1 (join_listed) walks the list in order. An entry may be stale; it is an occurrence exactly when the
// pair's two symbols still start there, since a slot that has lost a symbol never has it again: symbols are only
// written while the merge that makes them runs, and no list holds that symbol yet. The weights of the symbols to the
// left and right are added up in arrays indexed by symbol, so the cost of a hash lookup is paid once per different
// neighbour, not per occurrence.
//
// Pass 2 (list_neighbours) runs only where a new pair reaches the phase's threshold: it visits the list
// again, where the symbol that was made starts now, and lists those pairs. Both passes take a shard at a time and touch nothing outside it.
//
// Overlaps: with (a, b) -> x in `abab`, the first join sees the right neighbour a and counts (x, a); the second sees x
// on its left, which means that a pair (x, a) is gone again. So the weight of x on the left, counted separately, is
// what new pairs (x, a) must lose and what (x, x) has.
#pragma once
#include "merge/positions.hpp"
#include "merge/tokens.hpp"
#include "merge/words.hpp"

namespace bpe::merge {

// What joined occurrences have on one side.
struct Neighbour {
  Symbol symbol;
  uint32_t positions;
  uint64_t weight;
};

// The symbols on one side of the joined occurrences, while these are joined or their pairs are listed.
class Neighbours {
  struct Entry {
    uint64_t weight = 0;
    uint32_t positions = 0;
    uint32_t writer = 0;
  };

 public:
  // Adds one at a time, with everything in registers.
  class Adder {
   public:
    explicit Adder(Neighbours& side)
        : side_(side), entries_(side.entries_.data()), seen_(side.seen_.data()), n_seen_(side.n_seen_) {}
    Adder(const Adder&) = delete;
    Adder& operator=(const Adder&) = delete;
    ~Adder() { side_.n_seen_ = n_seen_; }
    void add(Symbol symbol, uint64_t weight) {
      Entry& entry = entries_[symbol];
      seen_[n_seen_] = symbol;
      n_seen_ += entry.positions++ == 0;
      entry.weight += weight;
    }

   private:
    Neighbours& side_;
    Entry* const entries_;
    Symbol* const seen_;
    uint32_t n_seen_;
  };
  void add(const Neighbour& neighbour) {
    Entry& entry = entries_[neighbour.symbol];
    if (entry.positions == 0) seen_[n_seen_++] = neighbour.symbol;
    entry.positions += neighbour.positions;
    entry.weight += neighbour.weight;
  }
  // Appends what was seen to `out` and forgets it.
  void move_to(std::vector<Neighbour>& out) {
    for (uint32_t i = 0; i < n_seen_; ++i) {
      Entry& entry = entries_[seen_[i]];
      out.push_back({seen_[i], entry.positions, entry.weight});
      entry = {};
    }
    n_seen_ = 0;
  }
  // 1 + the number of the list that the symbol's pair is added to; 0: none.
  uint32_t& writer(Symbol symbol) { return entries_[symbol].writer; }
  void make_space(Symbol symbols) {
    if (entries_.size() > symbols) return;
    entries_.resize(symbols + symbols / 2);
    seen_.resize(entries_.size());
  }

 private:
  std::vector<Entry> entries_;
  std::vector<Symbol> seen_;  // has an entry for every symbol and one more
  uint32_t n_seen_ = 0;
};

struct Surroundings {
  Neighbours left, right;

  // Of a pair that the merge made.
  uint32_t& writer(Symbol made, uint64_t key) {
    const auto before = static_cast<Symbol>(key >> 32), after = static_cast<Symbol>(key);
    return after == made ? left.writer(before) : right.writer(after);
  }
  void make_space(Symbol symbols) {
    left.make_space(symbols);
    right.make_space(symbols);
  }
};

struct Join {
  Symbol left, right, made;
};

// Notes how a merge has changed the counts of pairs, by what its occurrences have on both sides:
// note(pair, weight, positions) for one that appeared, with 0 positions for one that disappeared. `count`: of the pair that
// was merged. Returns how many occurrences became one token.
template <class Note>
uint64_t note_changes(const Join& join, uint64_t count, std::span<const Neighbour> left,
                      std::span<const Neighbour> right, Note&& note) {
  const auto key = [](Symbol one, Symbol other) { return uint64_t{one} << 32 | other; };
  const auto merged = key(join.left, join.right);
  Neighbour doubled{join.made, 0, 0};
  uint64_t joined = 0;  // every occurrence has something on its left, if only a pre-token's boundary
  note(merged, count, 0);
  for (const auto& neighbour : left) {
    const auto& [symbol, positions, weight] = neighbour;
    joined += weight;
    if (symbol == kBoundary) continue;
    if (symbol == join.made)
      doubled = neighbour;
    else if (key(symbol, join.left) != merged)
      note(key(symbol, join.left), weight, 0);
    note(key(symbol, join.made), weight, positions);
  }
  for (auto [symbol, positions, weight] : right) {
    if (symbol == kBoundary) continue;
    if (key(join.right, symbol) != merged) note(key(join.right, symbol), weight, 0);
    if (symbol == join.left) {
      weight -= doubled.weight;
      positions = std::max(positions, doubled.positions + 1) - doubled.positions;
    }
    if (weight != 0) note(key(join.made, symbol), weight, positions);
  }
  return joined;
}

inline constexpr size_t kJoinsAhead = 24;
inline constexpr size_t kJoinsPerBeat = size_t{1} << 16;

// The weight of positions asked for in ascending order.
class WeightCursor {
 public:
  explicit WeightCursor(const std::vector<Run>& runs) : run_(runs.data()), last_(runs.data() + runs.size() - 1) {}
  uint64_t at(Position position) {
    if (position >= run_[1].begin) seek(position);
    return run_->weight;
  }

 private:
  void seek(Position position) {
    std::ptrdiff_t step = 1;
    while (last_ - run_ > step && position >= run_[step].begin) {
      run_ += step;
      step *= 2;
    }
    const Run* const beyond = last_ - run_ > step ? run_ + step : last_;
    run_ = std::upper_bound(run_ + 1, beyond, position,
                            [](Position wanted, const Run& run) { return wanted < run.begin; }) -
           1;
  }
  const Run* run_;
  const Run* last_;  // the guard
};

// Pass 1, for listed positions, which are cut down to the occurrences joined; returns how many these are.
template <class S>
size_t join_listed(Shard<S>& shard, const Join& join, const std::vector<uint32_t>& spans, std::span<Position> listed,
                   Surroundings& around, Pulse& pulse, unsigned member) {
  S* const symbols = shard.symbols.data();
  const auto reach = spans[join.left] + spans[join.right];
  const typename Slots<S>::Joiner joiner(join.left, join.right, join.made, spans[join.left], spans[join.right]);
  WeightCursor weights(shard.runs);
  Neighbours::Adder left(around.left), right(around.right);
  const size_t n = listed.size();
  size_t joined = 0;
  for (size_t i = 0; i < n;) {
    pulse.beat(member);
    for (const size_t stop = std::min(n, i + kJoinsPerBeat); i < stop; ++i) {
      if (i + kJoinsAhead < n) {  // both ends: an eighth of the occurrences straddle two cache lines
        __builtin_prefetch(symbols + listed[i + kJoinsAhead] - 1, 1);
        __builtin_prefetch(symbols + listed[i + kJoinsAhead] + reach, 1);
      }
      const Position first = listed[i];
      S* const at = symbols + first;
      if (!joiner.occurs(at)) continue;
      joiner.join(at);
      const auto weight = weights.at(first);
      left.add(Slots<S>::ending(at), weight);
      right.add(Slots<S>::starting(at + reach), weight);
      listed[joined++] = first;
    }
  }
  return joined;
}

// Pass 2, for listed positions of which some were joined: neighbours that have a writer say which list their pair is
// added to.
template <class S>
void list_neighbours(const Shard<S>& shard, const Join& join, const std::vector<uint32_t>& spans,
                     std::span<const Position> positions, Surroundings& around, PositionArena& arena,
                     std::vector<ListWriter>& writers, Pulse& pulse, unsigned member) {
  const S* const symbols = shard.symbols.data();
  const uint32_t made_span = spans[join.made];
  const size_t n = positions.size();
  for (size_t i = 0; i < n;) {
    pulse.beat(member);
    for (const size_t stop = std::min(n, i + kJoinsPerBeat); i < stop; ++i) {
      if (i + kJoinsAhead < n) __builtin_prefetch(symbols + positions[i + kJoinsAhead]);
      const Position position = positions[i];
      if (!Slots<S>::starts(symbols + position) || Slots<S>::starting(symbols + position) != join.made) continue;
      const Symbol before = Slots<S>::ending(symbols + position);
      const Symbol after = Slots<S>::starting(symbols + position + made_span);
      if (const auto left = around.left.writer(before); left != 0)
        writers[left - 1].append(arena, position - spans[before]);
      if (const auto right = around.right.writer(after); right != 0) writers[right - 1].append(arena, position);
    }
  }
}

// Lists the pairs key(first), ..., key(end - 1) that the merge made, each with the writer of its number. read(use) calls
// use(positions) with the merge's.
template <class S, class Key, class Read>
void list_pairs(const Shard<S>& shard, const Join& join, const std::vector<uint32_t>& spans, size_t first, size_t end,
                Key&& key, Read&& read, Surroundings& around, PositionArena& arena, std::vector<ListWriter>& writers,
                Pulse& pulse, unsigned member) {
  for (auto pair = first; pair < end; ++pair) around.writer(join.made, key(pair)) = static_cast<uint32_t>(pair + 1);
  read([&](std::span<const Position> positions) {
    list_neighbours(shard, join, spans, positions, around, arena, writers, pulse, member);
  });
  for (auto pair = first; pair < end; ++pair) around.writer(join.made, key(pair)) = 0;
}

}  // namespace bpe::merge
