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
std::vector<Merge> merges_of_ranks(std::span<const Token> tokens);

}  // namespace bpe
