#include "merge_scan.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace bpe::merge {
namespace {

constexpr Position kSlotsPerBeat = Position{1} << 20;
constexpr Position kBlock = 512;
constexpr std::size_t kCachedPairs = 1500;  // so few that prefetching their lists costs more than it gains

// What one shard's scan finds: a hash table of pairs, each with its count and the list being written.
class PairTally {
 public:
  struct Slot {
    PairKey key;
    std::uint64_t count;
    ListWriter list;
    std::uint32_t positions;
  };
  static constexpr PairKey kFree = ~PairKey{0};

  PairTally() : slots_(1 << 12, Slot{kFree, 0, {}, 0}) {}
  void prefetch(std::uint64_t hash) const { __builtin_prefetch(&slots_[slot_of(hash)], 1); }
  Slot& at(PairKey key, std::uint64_t hash) {
    for (std::size_t slot = slot_of(hash);; slot = (slot + 1) & (slots_.size() - 1)) {
      if (slots_[slot].key == key) return slots_[slot];
      if (slots_[slot].key == kFree) {
        slots_[slot].key = key;
        ++used_;
        return slots_[slot];
      }
    }
  }
  const Slot* find(PairKey key, std::uint64_t hash) const {
    for (std::size_t slot = slot_of(hash);; slot = (slot + 1) & (slots_.size() - 1)) {
      if (slots_[slot].key == key) return &slots_[slot];
      if (slots_[slot].key == kFree) return nullptr;
    }
  }
  // Room for one more block; slots move.
  void reserve(std::size_t more) {
    if (3 * (used_ + more) <= 2 * slots_.size()) return;
    std::vector<Slot> old(2 * slots_.size(), Slot{kFree, 0, {}, 0});
    old.swap(slots_);
    used_ = 0;
    for (const auto& slot : old)
      if (slot.key != kFree) at(slot.key, hash_of(slot.key)) = slot;
  }
  const std::vector<Slot>& slots() const { return slots_; }
  std::size_t used() const { return used_; }

 private:
  std::size_t slot_of(std::uint64_t hash) const { return hash >> 20 & (slots_.size() - 1); }
  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

// Whether a pair may be merged at all.
template <bool limited>
struct Allowed {
  const Tokens& tokens;
  const Limits& limits;
  bool operator()(Symbol left, Symbol right) const {
    return left != kBoundary && right != kBoundary && (!limited || !limits.forbids(tokens, left, right));
  }
};

template <bool limited, class S>
PairTally walk_shard(Shard<S>& shard, PositionArena& arena, const Filter& filter, bool gaps,
                     const Allowed<limited>& allowed, Pulse& pulse, unsigned member) {
  PairTally tally;
  S* const symbols = shard.symbols.data();
  std::array<Position, kBlock> positions;
  union Hit {
    std::uint64_t hash;
    PairTally::Slot* slot;
  };
  std::array<Hit, kBlock> hits;
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
      if (gaps) {
        for (; in < end; ++in) {
          const S symbol = symbols[in];
          symbols[out] = symbol;
          out += symbol < kTail<S>;
        }
      } else {
        out = in = end;
      }
      std::size_t n = 0;
      for (Position i = kept; i < out; ++i) {
        const S left = symbols[i - 1], right = symbols[i];
        positions[n] = i - 1;
        n += filter.passes(key_of(left, right));
      }
      tally.reserve(n);
      const std::size_t passed = std::exchange(n, 0);
      for (std::size_t i = 0; i < passed; ++i) {
        const Symbol left = symbols[positions[i]], right = symbols[positions[i] + 1];
        if (!allowed(left, right)) continue;
        positions[n] = positions[i];
        hits[n].hash = hash_of(key_of(left, right));
        tally.prefetch(hits[n++].hash);
      }
      const auto add = [&](PairTally::Slot& slot, Position position) {
        slot.count += weight;
        ++slot.positions;
        slot.list.append(arena, position, 6);
      };
      const auto slot_at = [&](std::size_t i) -> PairTally::Slot& {
        return tally.at(key_of(symbols[positions[i]], symbols[positions[i] + 1]), hits[i].hash);
      };
      if (tally.used() < kCachedPairs) {
        for (std::size_t i = 0; i < n; ++i) add(slot_at(i), positions[i]);
        continue;
      }
      for (std::size_t i = 0; i < n; ++i) {
        auto& slot = slot_at(i);
        slot.list.prefetch(arena);
        hits[i].slot = &slot;
      }
      for (std::size_t i = 0; i < n; ++i) add(*hits[i].slot, positions[i]);
    }
  }
  shard.runs.back().begin = out;
  shard.size = out;
  shard.symbols.shrink(out);
  return tally;
}

PairIndex combine(const std::vector<PairTally>& tallies, std::vector<PositionArena>& arenas, std::uint64_t threshold,
                  const Tokens& tokens, TieBreak tie_break) {
  std::size_t expected = 0;
  for (const auto& tally : tallies) expected = std::max(expected, tally.used());
  PairIndex index(tokens, tie_break, tallies.size(), threshold, expected);
  std::vector<const PairTally::Slot*> found(tallies.size());
  for (std::size_t first = 0; first < tallies.size(); ++first)
    for (const auto& slot : tallies[first].slots()) {
      if (slot.key == PairTally::kFree) continue;
      const auto hash = hash_of(slot.key);
      std::uint64_t count = 0, positions = 0;
      bool earlier = false;
      for (std::size_t s = 0; s < tallies.size() && !earlier; ++s) {
        found[s] = s == first ? &slot : tallies[s].find(slot.key, hash);
        if (found[s] == nullptr) continue;
        earlier = s < first;
        count += found[s]->count;
        positions += found[s]->positions;
      }
      if (earlier || count < threshold) continue;
      const auto number = index.add(slot.key, count, positions);
      for (std::size_t s = first; s < tallies.size(); ++s)
        if (found[s] != nullptr) index.list(number, s) = found[s]->list.finish(arenas[s]);
    }
  index.start();
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
  const auto walk = [&](const auto& allowed) {
    team.each(shards.size(), [&](std::size_t s, unsigned member) {
      arenas[s].clear();
      tallies[s] = walk_shard(shards[s], arenas[s], filter, gaps, allowed, pulse, member);
    });
  };
  if (limits.max_token_bytes == std::numeric_limits<std::uint64_t>::max())
    walk(Allowed<false>{tokens, limits});
  else
    walk(Allowed<true>{tokens, limits});
  return combine(tallies, arenas, threshold, tokens, tie_break);
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
