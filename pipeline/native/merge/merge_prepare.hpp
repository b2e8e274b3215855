// Preparing the small merges to come.
//
// A small merge waits for memory at every step. What the next ones will need is sent for while this one is made: the
// pair, its lists, the positions. Where nothing is known of what comes next this costs a few comparisons; it changes
// no result.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "merge/merge_index.hpp"
#include "merge/merge_positions.hpp"
#include "merge/merge_words.hpp"

namespace bpe::merge {

inline constexpr std::uint64_t kSmall = 256;  // occurrences up to which a merge is prepared while earlier ones are made

template <class S>
void prefetch_upcoming(std::vector<Shard<S>>& shards, std::vector<PositionArena>& arenas, PairIndex& index) {
  if (const auto pair = index.upcoming(9); pair != kNoPair) index.prefetch(pair);
  const auto chunks = [&](std::size_t ahead, auto&& use) {
    const auto pair = index.upcoming(ahead);
    if (pair == kNoPair || index.pair(pair).positions > kSmall) return;
    for (std::size_t s = 0; s < shards.size(); ++s)
      if (const auto list = index.list(pair, s); list != 0) use(s, arenas[s].at(list));
  };
  chunks(7, [](std::size_t, const std::uint32_t* chunk) { __builtin_prefetch(chunk); });
  chunks(5, [&](std::size_t s, const std::uint32_t* chunk) {
    if (chunk[0] != 0) __builtin_prefetch(arenas[s].at(chunk[0]));
  });
  chunks(2, [&](std::size_t s, const std::uint32_t* chunk) {
    const auto* symbols = shards[s].symbols.data();
    for (int several = 0; several < 2; ++several) {
      for (std::uint32_t i = 0; i < chunk[1]; ++i) __builtin_prefetch(symbols + chunk[2 + i], 1);
      if (chunk[0] == 0) break;
      chunk = arenas[s].at(chunk[0]);
    }
  });
}

}  // namespace bpe::merge
