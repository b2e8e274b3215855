#include "merge/merge_scan.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "merge/merge_recount.hpp"
#include "merge/merge_tally.hpp"

namespace bpe::merge {
namespace {

constexpr Position kSlotsPerBeat = Position{1} << 20;
constexpr Position kBlock = 512;
constexpr std::size_t kRecountFrom = std::size_t{1} << 16;  // counters that reach the threshold
constexpr std::size_t kCachedPairs = 1500;  // so few that prefetching their lists costs more than it gains

// Closes the gaps of symbols[in, end) towards symbols[out...]; returns the new end of what is kept.
template <class S>
Position close_gaps(S* symbols, Position in, Position end, Position out) {
  for (; in < end; ++in) {
    const S symbol = symbols[in];
    symbols[out] = symbol;
    out += symbol < kTail<S>;
  }
  return out;
}

// Walks over a shard in blocks, closing gaps; use(weight, positions, n) gets those where a pair starts that passes,
// block after block. Boundaries and forbidden pairs are in no counter; those that pass for a counter they share are
// listed like others and left out when the tallies are combined.
template <class S, class Passes, class Use>
void walk_shard(Shard<S>& shard, const Passes& passes, bool gaps, Pulse& pulse, unsigned member, Use&& use) {
  S* const symbols = shard.symbols.data();
  std::array<Position, kBlock> positions;
  Position in = 1, out = 1, next_beat = 0;
  for (std::size_t r = 0; r + 1 < shard.runs.size(); ++r) {
    const auto weight = shard.runs[r].weight;
    const Position run_end = shard.runs[r + 1].begin;
    shard.runs[r].begin = out;
    while (in < run_end) {
      if (in >= next_beat) {
        pulse.beat(member);
        next_beat = in + kSlotsPerBeat;
      }
      const Position kept = out;
      const Position end = run_end - in > kBlock ? in + kBlock : run_end;
      out = gaps ? close_gaps(symbols, in, end, out) : end;
      in = end;
      std::size_t n = 0;
      auto left = Sketch::product(symbols[kept - 1]);
      for (Position i = kept; i < out; ++i) {
        const auto right = Sketch::product(symbols[i]);
        positions[n] = i - 1;
        n += passes((left << 32) + right);
        left = right;
      }
      use(weight, positions.data(), n);
    }
  }
  shard.runs.back().begin = out;
  shard.size = out;
  shard.symbols.shrink(out);
}

template <class S>
PairKey pair_at(const Shard<S>& shard, Position position) {
  return key_of(shard.symbols.data()[position], shard.symbols.data()[position + 1]);
}

template <class S, class Passes>
void recount_shard(Shard<S>& shard, std::size_t s, Recount& recount, const Passes& passes, bool gaps, Pulse& pulse,
                   unsigned member) {
  recount.clear(s);
  std::array<std::size_t, kBlock> places;
  walk_shard(shard, passes, gaps, pulse, member, [&](std::uint64_t weight, const Position* positions, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      places[i] = recount.place_of(Sketch::product(pair_at(shard, positions[i])));
      recount.prefetch(s, places[i]);
    }
    for (std::size_t i = 0; i < n; ++i) recount.add(s, places[i], weight);
  });
}

// `recount` may be null: then what passes is taken as it is.
template <class S, class Passes>
PairTally tally_shard(Shard<S>& shard, PositionArena& arena, const Recount* recount, const Passes& passes, bool gaps,
                      Pulse& pulse, unsigned member) {
  PairTally tally;
  std::array<PairTally::Slot*, kBlock> slots;
  std::array<std::uint32_t, kBlock> places;
  walk_shard(shard, passes, gaps, pulse, member, [&](std::uint64_t weight, Position* positions, std::size_t n) {
    const auto add = [&arena, weight](PairTally::Slot& slot, Position position) {
      slot.count += weight;
      slot.list.append(arena, position);
    };
    if (recount != nullptr) {
      const auto all = std::exchange(n, 0);
      for (std::size_t i = 0; i < all; ++i) {
        positions[n] = positions[i];
        n += recount->passes(recount->place_of(Sketch::product(pair_at(shard, positions[i]))));
      }
    }
    tally.reserve(n);
    if (tally.used() < kCachedPairs) {
      for (std::size_t i = 0; i < n; ++i) {
        const auto key = pair_at(shard, positions[i]);
        add(tally.at(key, tally.place_of(key)), positions[i]);
      }
      return;
    }
    for (std::size_t i = 0; i < n; ++i) {
      const auto place = tally.place_of(pair_at(shard, positions[i]));
      tally.prefetch(place);
      places[i] = static_cast<std::uint32_t>(place);
    }
    for (std::size_t i = 0; i < n; ++i) {
      slots[i] = &tally.at(pair_at(shard, positions[i]), places[i]);
      slots[i]->list.prefetch();
    }
    for (std::size_t i = 0; i < n; ++i) add(*slots[i], positions[i]);
  });
  return tally;
}

PairIndex combine(const std::vector<PairTally>& tallies, std::vector<PositionArena>& arenas, std::uint64_t threshold,
                  const Tokens& tokens, TieBreak tie_break, const Limits& limits) {
  std::size_t expected = 0;
  for (const auto& tally : tallies) expected = std::max(expected, tally.used());
  PairIndex index(tokens, tie_break, tallies.size(), threshold, expected);
  std::vector<const PairTally::Slot*> found(tallies.size());
  std::vector<ListWriter::List> lists(tallies.size());
  for (std::size_t first = 0; first < tallies.size(); ++first)
    for (const auto& slot : tallies[first].slots()) {
      if (slot.key == PairTally::kFree) continue;
      if (left_of(slot.key) == kBoundary || right_of(slot.key) == kBoundary ||
          limits.forbids(tokens, left_of(slot.key), right_of(slot.key)))
        continue;
      std::uint64_t count = 0;
      bool earlier = false;
      for (std::size_t s = 0; s < tallies.size() && !earlier; ++s) {
        found[s] = s == first ? &slot : tallies[s].find(slot.key);
        if (found[s] == nullptr) continue;
        earlier = s < first;
        count += found[s]->count;
      }
      if (earlier || count < threshold) continue;
      std::uint64_t positions = 0;
      for (std::size_t s = first; s < tallies.size(); ++s) {
        lists[s] = found[s] != nullptr ? found[s]->list.finish(arenas[s]) : ListWriter::List{};
        positions += lists[s].positions;
      }
      const auto number = index.add(slot.key, count, positions);
      for (std::size_t s = first; s < tallies.size(); ++s) index.list(number, s) = lists[s].handle;
    }
  return index;
}

}  // namespace

template <class S>
std::uint64_t choose_threshold(const std::vector<Shard<S>>& shards, const std::vector<std::uint32_t>& spans,
                               const Sketch& sketch, std::uint64_t max_pairs, std::uint64_t max_positions,
                               std::uint64_t min_frequency) {
  constexpr std::uint64_t kSampled = 64, kSampleEvery = 256 * kSampled, kSmall = std::uint64_t{1} << 18;
  BoundHistogram histogram(sketch);
  for (const auto& shard : shards) {
    const auto step = shard.size < kSmall ? kSampled : kSampleEvery;
    for (std::uint64_t begin = 1; begin < shard.size; begin += step)
      for (auto i = begin; i < begin + kSampled && i < shard.size; ++i) {
        const S left = shard.symbols.data()[i];
        if (left >= kTail<S> || left == kBoundary) continue;
        const S right = shard.symbols.data()[i + spans[left]];
        if (right == kBoundary) continue;
        const auto bound = sketch.bound(sketch.counter_of(key_of(left, right)));
        if (bound != 0) histogram.add_positions(bound, step / kSampled);
      }
  }
  return histogram.threshold(max_pairs, max_positions, min_frequency);
}

template <class S>
PairIndex compact_and_index(std::vector<Shard<S>>& shards, std::vector<PositionArena>& arenas,
                            const Sketch& sketch, std::uint64_t threshold, bool gaps, const Tokens& tokens,
                            TieBreak tie_break, const Limits& limits, Team& team, Pulse& pulse) {
  const Filter filter(sketch, threshold);
  std::vector<PairTally> tallies(shards.size());
  const auto walk = [&](const auto& passes) {
    std::optional<Recount> recount;
    if (filter.reaching() >= kRecountFrom && threshold <= Recount::kTop) {
      recount.emplace(shards.size(), filter.reaching() * 4);
      team.each(shards.size(), [&](std::size_t s, unsigned member) {
        recount_shard(shards[s], s, *recount, passes, gaps, pulse, member);
      });
      recount->settle(threshold);
    }
    team.each(shards.size(), [&](std::size_t s, unsigned member) {
      arenas[s].clear();
      tallies[s] = tally_shard(shards[s], arenas[s], recount ? &*recount : nullptr, passes, gaps && !recount, pulse,
                               member);
    });
  };
  if (filter.in_bytes())
    walk([&filter](std::uint64_t product) { return filter.byte(product); });
  else
    walk([&filter](std::uint64_t product) { return filter.bit(product); });
  return combine(tallies, arenas, threshold, tokens, tie_break, limits);
}

template std::uint64_t choose_threshold(const std::vector<Shard<std::uint16_t>>&, const std::vector<std::uint32_t>&,
                                        const Sketch&, std::uint64_t, std::uint64_t, std::uint64_t);
template std::uint64_t choose_threshold(const std::vector<Shard<std::uint32_t>>&, const std::vector<std::uint32_t>&,
                                        const Sketch&, std::uint64_t, std::uint64_t, std::uint64_t);
template PairIndex compact_and_index(std::vector<Shard<std::uint16_t>>&, std::vector<PositionArena>&, const Sketch&,
                                     std::uint64_t, bool, const Tokens&, TieBreak, const Limits&, Team&, Pulse&);
template PairIndex compact_and_index(std::vector<Shard<std::uint32_t>>&, std::vector<PositionArena>&, const Sketch&,
                                     std::uint64_t, bool, const Tokens&, TieBreak, const Limits&, Team&, Pulse&);

}  // namespace bpe::merge
