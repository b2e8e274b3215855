#include "merge_scan.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>

namespace bpe::merge {
namespace {

constexpr Position kSlotsPerBeat = Position{1} << 20;
constexpr Position kBlock = 256;

// Byte lengths for the limit, or nothing where there is none.
struct Allowed {
  const Tokens& tokens;
  const Limits& limits;
  const bool limited = limits.max_token_bytes != std::numeric_limits<std::uint64_t>::max();
  bool operator()(Symbol left, Symbol right) const { return !limited || !limits.forbids(tokens, left, right); }
};

template <class S>
void compact_shard(Shard<S>& shard, const std::vector<std::uint32_t>& spans, const Allowed& allowed,
                   Sketch& sketch, Pulse& pulse, unsigned member) {
  S* const symbols = shard.symbols.data();
  const std::uint32_t* const span = spans.data();
  std::uint32_t* const counters = sketch.counters.data();
  const std::size_t discard = sketch.counters.size() - 1;  // one counter more than hashes reach
  const unsigned shift = sketch.hash_shift;
  Position out = 1, word = 1;
  std::vector<Run> runs;
  for (std::size_t r = 0; r + 1 < shard.runs.size(); ++r) {
    const Position end = shard.runs[r + 1].begin;
    const Position begin = out;
    const auto weight = sketch.scaled(shard.runs[r].weight);
    Symbol previous = kBoundary;
    for (Position in = shard.runs[r].begin; in < end;) {
      pulse.beat(member);
      for (const Position stop = end - in > kSlotsPerBeat ? in + kSlotsPerBeat : end; in < stop;) {
        const Symbol symbol = symbols[in];
        in += span[symbol];
        symbols[out++] = static_cast<S>(symbol);
        const bool closes = symbol == kBoundary;
        const bool counts = !closes && previous != kBoundary && allowed(previous, symbol);
        counters[counts ? hash_of(key_of(previous, symbol)) >> shift : discard] += weight;
        out = closes && out - word == 2 ? word : out;
        word = closes ? out : word;
        previous = symbol;
      }
    }
    if (out != begin) runs.push_back({begin, shard.runs[r].weight});
  }
  runs.push_back({out, 0});
  shard.runs = std::move(runs);
  shard.size = out;
  shard.symbols.resize(out);
}

// Quarter octaves: 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20 ...
unsigned class_of(std::uint32_t value) {
  const auto exponent = 31u - static_cast<unsigned>(std::countl_zero(value));
  return 4 * exponent + static_cast<unsigned>((static_cast<std::uint64_t>(value) << 2 >> exponent) & 3);
}
std::uint64_t lowest_of(unsigned value_class) {
  return (((std::uint64_t{4} + value_class % 4) << (value_class / 4)) + 3) >> 2;
}

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
    if (2 * (used_ + more) <= slots_.size()) return;
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

template <class S>
PairTally tally_shard(const Shard<S>& shard, PositionArena& arena, const Sketch& sketch,
                      const std::vector<std::uint64_t>& reaches, const Allowed& allowed, Pulse& pulse,
                      unsigned member) {
  PairTally tally;
  const S* const symbols = shard.symbols.data();
  const unsigned shift = sketch.hash_shift;
  struct Hit {
    PairKey key;
    std::uint64_t hash;
    Position position;
  };
  std::array<Hit, kBlock> hits;
  for (std::size_t r = 0; r + 1 < shard.runs.size(); ++r) {
    const auto weight = shard.runs[r].weight;
    const Position end = shard.runs[r + 1].begin;
    for (Position begin = shard.runs[r].begin; begin < end;) {
      pulse.beat(member);
      for (const Position pause = end - begin > kSlotsPerBeat ? begin + kSlotsPerBeat : end; begin < pause;) {
        const Position stop = pause - begin > kBlock ? begin + kBlock : pause;
        std::size_t n = 0;
        // A pair may start at a word's closing boundary or before it: neither counts.
        for (Position i = begin; i + 1 < shard.size && i < stop; ++i) {
          const Symbol left = symbols[i], right = symbols[i + 1];
          const auto hash = hash_of(key_of(left, right));
          const auto counter = hash >> shift;
          hits[n] = {key_of(left, right), hash, i};
          n += (reaches[counter >> 6] >> (counter & 63) & 1) && left != kBoundary && right != kBoundary &&
               allowed(left, right);
        }
        begin = stop;
        tally.reserve(n);
        for (std::size_t i = 0; i < n; ++i) tally.prefetch(hits[i].hash);
        for (std::size_t i = 0; i < n; ++i) {
          auto& slot = tally.at(hits[i].key, hits[i].hash);
          slot.count += weight;
          ++slot.positions;
          slot.list.append(arena, hits[i].position, 6);
        }
      }
    }
  }
  return tally;
}

}  // namespace

template <class S>
Sketch compact_and_sketch(std::vector<Shard<S>>& shards, const std::vector<std::uint32_t>& spans,
                          const Tokens& tokens, const Limits& limits, std::uint64_t mass, Team& team,
                          Pulse& pulse) {
  std::uint64_t slots = 0;
  for (const auto& shard : shards) slots += shard.size;
  const auto symbols_squared = std::uint64_t{tokens.next()} * tokens.next();
  const auto bits = std::clamp(static_cast<unsigned>(std::bit_width(std::min(slots / 2, symbols_squared))), 10u, 21u);
  Sketch sketch;
  sketch.hash_shift = 64 - bits;
  while ((mass >> sketch.weight_shift) + 2 * slots > std::numeric_limits<std::uint32_t>::max() &&
         sketch.weight_shift < 63)
    ++sketch.weight_shift;
  std::vector<Sketch> parts(shards.size(), sketch);
  const Allowed allowed{tokens, limits};
  team.each(shards.size(), [&](std::size_t s, unsigned member) {
    parts[s].counters.assign((std::size_t{1} << bits) + 1, 0);
    compact_shard(shards[s], spans, allowed, parts[s], pulse, member);
  });
  sketch.counters = std::move(parts[0].counters);
  for (std::size_t s = 1; s < parts.size(); ++s)
    for (std::size_t i = 0; i < sketch.counters.size(); ++i) sketch.counters[i] += parts[s].counters[i];
  sketch.counters.pop_back();
  return sketch;
}

template <class S>
std::uint64_t choose_threshold(const std::vector<Shard<S>>& shards, const Sketch& sketch, const Budget& budget,
                               std::uint64_t min_frequency) {
  constexpr Position kSampled = 64, kSampleEvery = 16 * kSampled;
  std::array<std::uint64_t, 128> pairs{}, positions{};
  for (const auto counter : sketch.counters)
    if (counter != 0) ++pairs[class_of(counter)];
  for (const auto& shard : shards) {
    const auto step = shard.size < (1u << 16) ? kSampled : kSampleEvery;
    for (std::uint64_t begin = 0; begin < shard.size; begin += step)
      for (auto i = begin; i < begin + kSampled && i + 1 < shard.size; ++i) {
        const Symbol left = shard.symbols.data()[i], right = shard.symbols.data()[i + 1];
        if (left == kBoundary || right == kBoundary) continue;
        const auto counter = sketch.counters[hash_of(key_of(left, right)) >> sketch.hash_shift];
        if (counter != 0) positions[class_of(counter)] += step / kSampled;
      }
  }
  std::uint64_t all_pairs = 0, all_positions = 0;
  std::optional<std::uint64_t> threshold;
  for (unsigned c = 128; c-- > 0;) {
    if (pairs[c] == 0) continue;
    all_pairs += pairs[c];
    all_positions += positions[c];
    if (threshold && (all_pairs > budget.pairs || all_positions > budget.positions)) break;
    if ((lowest_of(c + 1) - 1) << sketch.weight_shift < min_frequency) break;
    threshold = std::max(lowest_of(c) << sketch.weight_shift, min_frequency);
  }
  return threshold.value_or(0);
}

template <class S>
PairIndex index_pairs(const std::vector<Shard<S>>& shards, std::vector<PositionArena>& arenas,
                      const Sketch& sketch, std::uint64_t threshold, const Tokens& tokens, TieBreak tie_break,
                      const Limits& limits, Team& team, Pulse& pulse) {
  std::vector<std::uint64_t> reaches((sketch.counters.size() + 63) / 64, 0);
  for (std::size_t i = 0; i < sketch.counters.size(); ++i)
    if (static_cast<std::uint64_t>(sketch.counters[i]) << sketch.weight_shift >= threshold)
      reaches[i >> 6] |= std::uint64_t{1} << (i & 63);

  const Allowed allowed{tokens, limits};
  std::vector<PairTally> tallies(shards.size());
  team.each(shards.size(), [&](std::size_t s, unsigned member) {
    arenas[s].clear();
    tallies[s] = tally_shard(shards[s], arenas[s], sketch, reaches, allowed, pulse, member);
  });

  std::size_t expected = 0;
  for (const auto& tally : tallies) expected = std::max(expected, tally.used());
  PairIndex index(tokens, tie_break, shards.size(), threshold, expected);
  std::vector<const PairTally::Slot*> found(shards.size());
  for (std::size_t first = 0; first < shards.size(); ++first)
    for (const auto& slot : tallies[first].slots()) {
      if (slot.key == PairTally::kFree) continue;
      const auto hash = hash_of(slot.key);
      std::uint64_t count = 0, positions = 0;
      bool earlier = false;
      for (std::size_t s = 0; s < shards.size() && !earlier; ++s) {
        found[s] = s == first ? &slot : tallies[s].find(slot.key, hash);
        if (found[s] == nullptr) continue;
        earlier = s < first;
        count += found[s]->count;
        positions += found[s]->positions;
      }
      if (earlier || count < threshold) continue;
      const auto number = index.add(slot.key, count, positions);
      for (std::size_t s = first; s < shards.size(); ++s)
        if (found[s] != nullptr) index.list(number, s) = found[s]->list.finish(arenas[s]);
    }
  index.start();
  return index;
}

template Sketch compact_and_sketch(std::vector<Shard<std::uint16_t>>&, const std::vector<std::uint32_t>&,
                                   const Tokens&, const Limits&, std::uint64_t, Team&, Pulse&);
template Sketch compact_and_sketch(std::vector<Shard<std::uint32_t>>&, const std::vector<std::uint32_t>&,
                                   const Tokens&, const Limits&, std::uint64_t, Team&, Pulse&);
template std::uint64_t choose_threshold(const std::vector<Shard<std::uint16_t>>&, const Sketch&, const Budget&,
                                        std::uint64_t);
template std::uint64_t choose_threshold(const std::vector<Shard<std::uint32_t>>&, const Sketch&, const Budget&,
                                        std::uint64_t);
template PairIndex index_pairs(const std::vector<Shard<std::uint16_t>>&, std::vector<PositionArena>&,
                               const Sketch&, std::uint64_t, const Tokens&, TieBreak, const Limits&, Team&,
                               Pulse&);
template PairIndex index_pairs(const std::vector<Shard<std::uint32_t>>&, std::vector<PositionArena>&,
                               const Sketch&, std::uint64_t, const Tokens&, TieBreak, const Limits&, Team&,
                               Pulse&);

}  // namespace bpe::merge
