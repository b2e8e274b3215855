// The merge list that a tiktoken rank file implies.
//
// tiktoken joins the adjacent pair whose *joined bytes* have the lowest rank, the leftmost among equals. A token's own
// bytes, merged so, end with two parts that make it, or never make it. No other pair of parts is ever joined to that
// token in any piece: while no merge crosses the ends of the token to be, the merges inside are those of its bytes
// alone. So the list with one merge a token, in order of ranks, makes exactly tiktoken's ids.
// Cost: O(n^2) tiny steps for a token of n bytes, hence the limit.
#pragma once
#include "encode/rank_merge.hpp"

namespace bpe {

inline constexpr size_t kMaxRankedTokenBytes = size_t{1} << 14;

// The ids of `tokens` are their ranks. Tokens that merging never makes have no merge.
// std::invalid_argument for a token above kMaxRankedTokenBytes.
inline std::vector<Merge> merges_of_ranks(std::span<const Token> tokens) {
  constexpr uint32_t kNone = UINT32_MAX;
  std::unordered_map<std::string_view, uint32_t> rank_of;
  rank_of.reserve(tokens.size());
  for (const Token& token : tokens) rank_of.emplace(token.bytes, token.id);
  const auto find = [&](std::string_view bytes) {
    const auto found = rank_of.find(bytes);
    return found == rank_of.end() ? kNone : found->second;
  };
  std::vector<Merge> merges;
  std::vector<size_t> starts;    // of each part, and the end of the last one
  std::vector<uint32_t> ranks;   // of each part joined with the next one
  for (const Token& token : tokens) {
    const std::string_view bytes = token.bytes;
    if (bytes.size() < 2) continue;
    if (bytes.size() > kMaxRankedTokenBytes) {
      throw std::invalid_argument("the token of rank " + std::to_string(token.id) + " has more than " +
                                  std::to_string(kMaxRankedTokenBytes) + " bytes");
    }
    starts.resize(bytes.size() + 1);
    for (size_t i = 0; i < starts.size(); ++i) starts[i] = i;
    ranks.resize(bytes.size() - 1);
    for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = find(bytes.substr(i, 2));
    const auto joined = [&](size_t part) {
      return part + 2 < starts.size() ? find(bytes.substr(starts[part], starts[part + 2] - starts[part])) : kNone;
    };
    while (ranks.size() > 1) {
      const size_t at = static_cast<size_t>(std::min_element(ranks.begin(), ranks.end()) - ranks.begin());
      if (ranks[at] == kNone) break;
      starts.erase(starts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
      ranks.erase(ranks.begin() + static_cast<std::ptrdiff_t>(at));
      if (at < ranks.size()) ranks[at] = joined(at);
      if (at > 0) ranks[at - 1] = joined(at - 1);
    }
    if (ranks.size() > 1) continue;
    const uint32_t left = find(bytes.substr(0, starts[1])), right = find(bytes.substr(starts[1]));
    if (left != kNone && right != kNone) merges.push_back({left, right, token.id});
  }
  std::sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) { return a.result < b.result; });
  return merges;
}

}  // namespace bpe
