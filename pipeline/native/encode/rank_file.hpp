// The merge list that a tiktoken rank file implies.
//
// tiktoken joins the adjacent pair whose *joined bytes* have the lowest rank, the leftmost among equals. A token's own
// bytes, merged so, end with two parts that make it, or never make it. No other pair of parts is ever joined to that
// token in any pre-token: while no merge crosses the ends of the token to be, the merges inside are those of its bytes
// alone. So the list with one merge a token, in order of ranks, makes exactly tiktoken's ids.
// Cost: n log n lookups of up to n bytes for a token of n, hence the limit.
#pragma once
#include "encode/rank_merge.hpp"

namespace bpe {

inline constexpr size_t kMaxRankedTokenBytes = size_t{1} << 14;

// The ids of `tokens` are their ranks. Tokens that merging never makes have no merge.
// std::invalid_argument for a token above kMaxRankedTokenBytes.
inline std::vector<Merge> merges_of_ranks(std::span<const Token> tokens) {
  std::unordered_map<std::string_view, uint32_t> rank_of;
  rank_of.reserve(tokens.size());
  for (const Token& token : tokens) rank_of.emplace(token.bytes, token.id);
  const auto find = [&](std::string_view bytes) {
    const auto found = rank_of.find(bytes);
    return found == rank_of.end() ? kNoRank : found->second;
  };
  std::vector<Merge> merges;
  RankQueue queue;
  for (const Token& token : tokens) {
    const std::string_view bytes = token.bytes;
    if (bytes.size() > kMaxRankedTokenBytes) {
      throw std::invalid_argument("the token of rank " + std::to_string(token.id) + " has more than " +
                                  std::to_string(kMaxRankedTokenBytes) + " bytes");
    }
    size_t parts = bytes.size(), second = 0;
    join_by_rank(
        bytes.size(), queue, [&](size_t left, size_t, size_t end) { return find(bytes.substr(left, end - left)); },
        [&](uint32_t, uint32_t, uint32_t right) { --parts, second = right; });
    if (parts != 1 || second == 0) continue;
    const uint32_t left = find(bytes.substr(0, second)), right = find(bytes.substr(second));
    if (left != kNoRank && right != kNoRank) merges.push_back({left, right, token.id});
  }
  std::sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) { return a.result < b.result; });
  return merges;
}

}  // namespace bpe
