// A second opinion on the pairs that pass a filter: far down the tail the sketch has fewer counters than there are
// pairs, and most that pass do so for what others have added to their counter. To tally and list them would cost
// more memory than the rest of the engine.
//
// The pairs that pass are counted once more in counters of another hash (so the two make a count-min sketch of two
// rows, the second made when it is needed, of what is left). All occurrences of a pair pass or none does, so its
// counter is again an upper bound. Counters have 16 bits and stay at the top: thresholds beyond are not for it.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "merge/merge_memory.hpp"
#include "merge/merge_sketch.hpp"

namespace bpe::merge {

class Recount {
 public:
  static constexpr std::uint64_t kTop = std::numeric_limits<std::uint16_t>::max();

  // For so many pairs; every shard counts apart.
  Recount(std::size_t n_shards, std::size_t pairs)
      : shift_(64u - std::clamp(static_cast<unsigned>(std::bit_width(2 * pairs)), 12u, 22u)) {
    for (std::size_t s = 0; s < n_shards; ++s) shards_.emplace_back(size());
  }
  void clear(std::size_t shard) { std::fill_n(shards_[shard].data(), size(), std::uint16_t{0}); }
  std::size_t place_of(std::uint64_t product) const { return (product ^ product >> 32) * 0xD6E8FEB86659FD93u >> shift_; }
  void prefetch(std::size_t shard, std::size_t place) const { __builtin_prefetch(shards_[shard].data() + place, 1); }
  void add(std::size_t shard, std::size_t place, std::uint64_t weight) {
    auto& counter = shards_[shard].data()[place];
    counter = static_cast<std::uint16_t>(std::min(counter + std::min(weight, kTop), kTop));
  }
  // Ends the counting; threshold <= kTop.
  void settle(std::uint64_t threshold) {
    reaching_.assign(size(), 0);
    for (std::size_t place = 0; place < size(); ++place) {
      std::uint64_t count = 0;
      for (const auto& counters : shards_) count += counters.data()[place];
      reaching_[place] = count >= threshold;
    }
    shards_.clear();
  }
  bool passes(std::size_t place) const { return reaching_[place]; }

 private:
  std::size_t size() const { return std::size_t{1} << (64 - shift_); }
  const unsigned shift_;
  std::vector<Buffer<std::uint16_t>> shards_;
  std::vector<bool> reaching_;
};

}  // namespace bpe::merge
