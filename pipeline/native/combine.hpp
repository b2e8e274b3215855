// Combines counters that are ordered by hash into one that is.
//
// Idea: all counters are walked together, one window of hashes after the other. A window holds some eight thousand
// rows of them all, so its table of pieces stays in the cache, and its output is already in order.
// Invariant: the rows of each counter are in order of hash64; otherwise std::invalid_argument.
// Cost: one hash and one lookup in the cache a row; memory for the output and one window.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "columns.hpp"

namespace bpe {

// Throws std::overflow_error when a sum is beyond 2^63 - 1.
Columns combine(const std::vector<ColumnsView>& counters);

// The rows at which each of `partitions` (a power of two) equal ranges of hashes starts, and the number of rows.
std::vector<size_t> partition_starts(const ColumnsView& counter, size_t partitions);

}  // namespace bpe
