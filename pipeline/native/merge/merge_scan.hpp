// Between phases: compact the words, and index the pairs that reach the next threshold.
//
// One walk over each shard closes the gaps that merges left and, of the pairs whose counter in the sketch
// reaches the threshold, counts each exactly and lists its positions; those whose count does reach it make up
// the index. So no pair that reaches the threshold is missed, and those that do not cost little. A walk works
// in blocks, each in steps (choose, prefetch, count), so that hash lookups wait for memory together.
//
// A pair longer than max_token_bytes is treated as if a boundary stood between its tokens.
#pragma once
#include <cstdint>
#include <vector>

#include "merge/merge_index.hpp"
#include "merge/merge_positions.hpp"
#include "merge/merge_sketch.hpp"
#include "merge/merge_team.hpp"
#include "merge/merge_tokens.hpp"
#include "merge/merge_words.hpp"

namespace bpe::merge {

struct Limits {
  std::uint64_t max_token_bytes;
  bool forbids(const Tokens& tokens, Symbol left, Symbol right) const {
    return tokens.bytes(left) + tokens.bytes(right) > max_token_bytes;
  }
};

// The lowest threshold whose index is estimated to stay within so many pairs and positions (0: no pair can
// reach min_frequency). Words need not be compact.
template <class S>
std::uint64_t choose_threshold(const std::vector<Shard<S>>& shards, const std::vector<std::uint32_t>& spans,
                               const Sketch& sketch, std::uint64_t max_pairs, std::uint64_t max_positions,
                               std::uint64_t min_frequency);

// Compacts the words, if they may have gaps, and indexes all pairs of count >= threshold, ready to start.
template <class S>
PairIndex compact_and_index(std::vector<Shard<S>>& shards, std::vector<PositionArena>& arenas,
                            const Sketch& sketch, std::uint64_t threshold, bool gaps, const Tokens& tokens,
                            TieBreak tie_break, const Limits& limits, Team& team, Pulse& pulse);

}  // namespace bpe::merge
