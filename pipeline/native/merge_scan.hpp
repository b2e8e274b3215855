// Between phases: compact the words, choose the next threshold, and index the pairs that reach it.
//
// 1. compact_and_sketch walks each shard once: it closes the gaps that merges left, drops words that have
//    become a single token, and adds every pair's weight to a small array of counters chosen by the pair's
//    hash. A counter is never below the count of any pair that falls to it.
// 2. choose_threshold reads off, with the help of a sample of positions, the lowest threshold whose index
//    stays within a number of positions.
// 3. index_pairs walks the words again and counts exactly, with their positions, only the pairs whose counter
//    reaches the threshold; of these the ones whose count reaches it make up the index. So no pair that
//    reaches the threshold is missed, and those that do not cost little.
//
// A pair longer than max_token_bytes is treated as if a boundary stood between its tokens.
#pragma once
#include <cstdint>
#include <vector>

#include "merge_index.hpp"
#include "merge_positions.hpp"
#include "merge_team.hpp"
#include "merge_tokens.hpp"
#include "merge_words.hpp"

namespace bpe::merge {

struct Limits {
  std::uint64_t max_token_bytes;
  bool forbids(const Tokens& tokens, Symbol left, Symbol right) const {
    return tokens.bytes(left) + tokens.bytes(right) > max_token_bytes;
  }
};

// Counters by pair hash, 32 bit: weights are scaled down, rounding up, so that no sum overflows.
struct Sketch {
  std::vector<std::uint32_t> counters;
  unsigned hash_shift = 0;    // hash >> hash_shift is the counter
  unsigned weight_shift = 0;  // counter << weight_shift bounds the count
  std::uint32_t scaled(std::uint64_t weight) const {
    return static_cast<std::uint32_t>((weight >> weight_shift) + (weight_shift != 0));
  }
};

template <class S>
Sketch compact_and_sketch(std::vector<Shard<S>>& shards, const std::vector<std::uint32_t>& spans,
                          const Tokens& tokens, const Limits& limits, std::uint64_t mass, Team& team,
                          Pulse& pulse);

struct Budget {
  std::uint64_t positions;  // of an index, as estimated
  std::uint64_t pairs;
};

// The lowest threshold within the budget, at least min_frequency; 0 when no pair can reach that.
template <class S>
std::uint64_t choose_threshold(const std::vector<Shard<S>>& shards, const Sketch& sketch, const Budget& budget,
                               std::uint64_t min_frequency);

// All pairs of count >= threshold with the lists of their positions, ready to start.
template <class S>
PairIndex index_pairs(const std::vector<Shard<S>>& shards, std::vector<PositionArena>& arenas,
                      const Sketch& sketch, std::uint64_t threshold, const Tokens& tokens, TieBreak tie_break,
                      const Limits& limits, Team& team, Pulse& pulse);

}  // namespace bpe::merge
