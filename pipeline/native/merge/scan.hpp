// Between phases: compact the words, and index the pairs that reach the next threshold.
//
// Idea: one walk over each shard closes the gaps that merges left and, of the pairs whose counter in the sketch reaches
// the threshold, counts each exactly and lists its positions; those whose count does reach it make up the index. So no
// pair that reaches the threshold is missed, and those that do not cost little. A walk works in blocks, each in steps
// (choose, prefetch, count), so that hash lookups wait for memory together. A pair longer than max_token_bytes is
// treated as if a boundary separated its tokens.
#pragma once
#include "merge/index.hpp"
#include "merge/positions.hpp"
#include "merge/sketch.hpp"
#include "merge/team.hpp"
#include "merge/tokens.hpp"
#include "merge/words.hpp"

namespace bpe::merge {

inline constexpr Position kSlotsPerBeat = Position{1} << 20;
inline constexpr Position kBlock = kMostAtOnce - 2;
inline constexpr size_t kRecountFrom = size_t{1} << 16;  // counters that reach the threshold
inline constexpr size_t kCachedPairs = 1500;             // so few that prefetching their lists costs more than it gains

// Walks over a shard in blocks, closing gaps; use(weight, block, found, n) gets the pairs that pass, block after block.
// Boundaries and forbidden pairs are in no counter; those that pass for a counter they share are listed like others and
// left out when the tallies are combined.
template <class S, class Passes, class Use>
void walk_shard(Shard<S>& shard, const Passes& passes, bool gaps, Pulse& pulse, unsigned member, Use&& use) {
  S* const symbols = shard.symbols.data();
  std::array<Position, kMostAtOnce> found;
  typename Slots<S>::Block block;
  Position in = Slots<S>::kFirst, out = in, next_beat = 0;
  for (size_t r = 0; r + 1 < shard.runs.size(); ++r) {
    const auto weight = shard.runs[r].weight;
    const Position run_end = shard.runs[r + 1].begin;
    shard.runs[r].begin = out;
    while (in < run_end) {
      if (in >= next_beat) {
        pulse.beat(member);
        next_beat = in + kSlotsPerBeat;
      }
      const Position end = run_end - in > kBlock ? Slots<S>::whole(symbols, in + kBlock) : run_end;
      out = block.read(symbols, in, end, out, gaps);
      in = end;
      use(weight, block, found.data(), block.pairs(passes, found.data()));
    }
  }
  shard.runs.back().begin = out;
  shard.size = out;
  Slots<S>::close(symbols, out);
  shard.symbols.shrink(out);
}

template <class S, class Passes>
void recount_shard(Shard<S>& shard, size_t s, Recount& recount, const Passes& passes, bool gaps, Pulse& pulse,
                   unsigned member) {
  std::array<size_t, kMostAtOnce> places;
  walk_shard(shard, passes, gaps, pulse, member,
             [&](uint64_t weight, const auto& block, const Position* found, size_t n) {
               for (size_t i = 0; i < n; ++i) {
                 places[i] = recount.place_of(Sketch::product(block.key(found[i])));
                 recount.prefetch(s, places[i]);
               }
               for (size_t i = 0; i < n; ++i) recount.add(s, places[i], weight);
             });
}

// `recount` may be null: then what passes is taken as it is.
template <class S, class Passes>
PairTally tally_shard(Shard<S>& shard, PositionArena& arena, const Recount* recount, const Passes& passes, bool gaps,
                      Pulse& pulse, unsigned member) {
  PairTally tally;
  std::array<Tallied*, kMostAtOnce> slots;
  std::array<uint32_t, kMostAtOnce> places;
  walk_shard(shard, passes, gaps, pulse, member, [&](uint64_t weight, const auto& block, Position* found, size_t n) {
    const auto add = [&](Tallied& slot, Position pair) {
      slot.count += weight;
      slot.list.append(arena, block.position(pair));
    };
    if (recount != nullptr) {
      const auto all = std::exchange(n, 0);
      for (size_t i = 0; i < all; ++i) {
        found[n] = found[i];
        n += recount->passes(recount->place_of(Sketch::product(block.key(found[i]))));
      }
    }
    tally.reserve(n);
    if (tally.used() < kCachedPairs) {
      for (size_t i = 0; i < n; ++i) {
        const auto key = block.key(found[i]);
        add(tally.at(key), found[i]);
      }
      return;
    }
    for (size_t i = 0; i < n; ++i) {
      const auto place = tally.place_of(block.key(found[i]));
      tally.prefetch(place);
      places[i] = static_cast<uint32_t>(place);
    }
    for (size_t i = 0; i < n; ++i) {
      slots[i] = &tally.at(block.key(found[i]), places[i]);
      slots[i]->list.prefetch();
    }
    for (size_t i = 0; i < n; ++i) add(*slots[i], found[i]);
  });
  return tally;
}

inline PairIndex combine(const std::vector<PairTally>& tallies, std::vector<PositionArena>& arenas, uint64_t threshold,
                         const Tokens& tokens) {
  size_t expected = 0;
  for (const auto& tally : tallies) expected = std::max(expected, tally.used());
  PairIndex index(tokens, tallies.size(), threshold, expected);
  std::vector<const Tallied*> found(tallies.size());
  std::vector<ListWriter::List> lists(tallies.size());
  for (size_t first = 0; first < tallies.size(); ++first)
    tallies[first].each([&](const PairTally::Slot& slot) {
      if (left_of(slot.key()) == kBoundary || right_of(slot.key()) == kBoundary ||
          tokens.forbids(left_of(slot.key()), right_of(slot.key())))
        return;
      uint64_t count = 0;
      bool earlier = false;
      for (size_t s = 0; s < tallies.size() && !earlier; ++s) {
        found[s] = s == first ? &slot.value : tallies[s].find(slot.key());
        if (found[s] == nullptr) continue;
        earlier = s < first;
        count += found[s]->count;
      }
      if (earlier || count < threshold) return;
      uint64_t positions = 0;
      for (size_t s = first; s < tallies.size(); ++s) {
        lists[s] = found[s] != nullptr ? found[s]->list.finish(arenas[s]) : ListWriter::List{};
        positions += lists[s].positions;
      }
      const auto number = index.add(slot.key(), count, positions);
      for (size_t s = first; s < tallies.size(); ++s) index.list(number, s) = lists[s].handle;
    });
  return index;
}

// note(pair, positions) for a sample of the words, which need not be compact: `together` positions of each `together` * step.
template <class S, class Note>
void sample_pairs(std::span<const Shard<S>> shards, const std::vector<uint32_t>& spans, uint64_t together,
                  uint64_t step, Note&& note) {
  for (const auto& shard : shards)
    for (uint64_t begin = Slots<S>::kFirst; begin < shard.size; begin += together * step)
      for (auto i = begin; i < begin + together && i < shard.size; ++i) {
        const S* const at = shard.symbols.data() + i;
        if (!Slots<S>::starts(at)) continue;
        const auto left = Slots<S>::starting(at);
        if (left == kBoundary) continue;
        if (const auto right = Slots<S>::starting(at + spans[left]); right != kBoundary)
          note(key_of(left, right), static_cast<double>(step));
      }
}

// Compacts the words, if they may have gaps, and indexes all pairs of count >= threshold, ready to start.
template <class S>
PairIndex compact_and_index(std::vector<Shard<S>>& shards, std::vector<PositionArena>& arenas, const Sketch& sketch,
                            uint64_t threshold, bool gaps, const Tokens& tokens, Team& team, Pulse& pulse) {
  const Filter filter(filter_above({{&sketch, threshold}}));
  const auto reaching = sketch.reaching(threshold);
  std::vector<PairTally> tallies(shards.size());
  filter.with([&](const auto& passes) {
    std::optional<Recount> recount;
    if (reaching >= kRecountFrom && threshold <= Recount::kTop) {
      recount.emplace(shards.size(), reaching * 4);
      team.each(shards.size(),
                [&](size_t s, unsigned member) { recount_shard(shards[s], s, *recount, passes, gaps, pulse, member); });
      recount->settle(threshold);
    }
    team.each(shards.size(), [&](size_t s, unsigned member) {
      arenas[s].clear();
      tallies[s] =
          tally_shard(shards[s], arenas[s], recount ? &*recount : nullptr, passes, gaps && !recount, pulse, member);
    });
  });
  return combine(tallies, arenas, threshold, tokens);
}

}  // namespace bpe::merge
