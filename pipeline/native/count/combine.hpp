// Combines counters that are ordered by hash into one that is.
//
// Idea: all counters are walked together, one window of hashes after the other. A window holds some
// two thousand rows of them all, which are put into buckets by the next bits of their hash: since hashes are even, a bucket
// has hardly more than one pre-token, and all stays in the cache. What is alike is adjacent then, and copied once, to its place.
// Invariant: the rows of each counter are in order of hash64; otherwise std::invalid_argument.
// Weights: a counter's counts may be multiplied by a fraction, rounded half up and never below 1, before they are
// added; in whole numbers of 128 bits, so exactly. Each pre-token of each counter is rounded by itself.
// Cost: one hash and one bucket in the cache a row; memory for the output and one window.
#pragma once
#include "count/columns.hpp"

namespace bpe {

struct Weight {
  static constexpr uint64_t kMost = (uint64_t{1} << 62) - 1;

  uint64_t numerator = 1, denominator = 1;  // 1..kMost
};

// `weights` are as many as counters, or none. Throws std::overflow_error when a count or sum is beyond 2^63 - 1.
Columns combine(const std::vector<ColumnsView>& counters, const std::vector<Weight>& weights = {});

// The upper and lower 64 bits of a number.
using Wide = std::pair<uint64_t, uint64_t>;

// The sum of a counter's counts, and the bytes of its pre-tokens, each as often as it occurs.
std::pair<Wide, Wide> totals(const ColumnsView& counter);

// The rows at which each of `partitions` (a power of two) equal ranges of hashes starts, and the number of rows.
std::vector<size_t> partition_starts(const ColumnsView& counter, size_t partitions);

}  // namespace bpe
