// CounterSum: what a counter holds, in numbers that add up over counters: so a sum of counters is checked without combining.
#pragma once
#include "count/columns.hpp"

namespace bpe {

struct CounterSum {
  uint64_t rows = 0;
  uint64_t pre_tokens = 0;  // the sum of counts, modulo 2^64
  uint64_t bytes = 0;       // of pre-tokens, each as often as it was found, modulo 2^64
  uint64_t digest = 0;      // the sum of count * (a hash of the pre-token), modulo 2^64
  bool ascending = true;    // in order of hash64, then of bytes, and no pre-token twice
};

inline CounterSum counter_sum(const ColumnsView& counter) {
  CounterSum sum;
  sum.rows = counter.rows;
  std::string_view last;
  uint64_t last_place = 0;
  for (size_t row = 0; row < counter.rows; ++row) {
    const std::string_view pre_token = counter.text(row);
    uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, which has nothing to do with the order of rows
    for (char byte : pre_token) hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3u;
    hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93u;
    hash ^= hash >> 32;
    const uint64_t count = counter.counts[row], place = counter.hash(row);
    sum.pre_tokens += count;
    sum.bytes += count * pre_token.size();
    sum.digest += count * hash;
    if (row && (place < last_place || (place == last_place && pre_token <= last))) sum.ascending = false;
    last = pre_token;
    last_place = place;
  }
  return sum;
}

}  // namespace bpe
