// Upper bounds for the counts of all pairs, in a small array: what makes phases cheap.
//
// Each pair falls, by its hash, to one counter, which is never below the sum of the counts of all pairs that
// fall to it (a count-min sketch of one row: Cormode and Muthukrishnan 2005). It starts with the exact counts
// of byte pairs, and every merge subtracts the pairs it takes apart and adds those it makes, once per
// different neighbour; so it stays true through all phases and the words are never scanned for its sake.
//
// Counters are 32 bit. Large weights are scaled down, rounded up when added and down when subtracted; a
// counter that reaches the top stays there. Both keep it an upper bound.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "merge/merge_memory.hpp"
#include "merge/merge_tokens.hpp"

namespace bpe::merge {

using PairKey = std::uint64_t;
inline PairKey key_of(Symbol left, Symbol right) { return static_cast<PairKey>(left) << 32 | right; }
inline Symbol left_of(PairKey pair) { return static_cast<Symbol>(pair >> 32); }
inline Symbol right_of(PairKey pair) { return static_cast<Symbol>(pair); }

class Sketch {
 public:
  // For a corpus of so many slots, whose counts add up to `mass`.
  Sketch(std::uint64_t slots, std::uint64_t mass);

  std::size_t counter_of(PairKey pair) const { return spread(product(pair)) & (size_ - 1); }
  void prefetch(std::size_t counter) const { __builtin_prefetch(&counters_.data()[counter], 1); }
  std::uint64_t bound(std::size_t counter) const {
    const auto value = counters_.data()[counter];
    return value == kTop ? std::numeric_limits<std::uint64_t>::max() : std::uint64_t{value} << weight_shift_;
  }
  void add(std::size_t counter, std::uint64_t weight) {
    const auto sum = counters_.data()[counter] + (weight >> weight_shift_) + (weight_shift_ != 0);
    counters_.data()[counter] = static_cast<std::uint32_t>(std::min<std::uint64_t>(sum, kTop));
  }
  void subtract(std::size_t counter, std::uint64_t weight) {
    if (counters_.data()[counter] != kTop) counters_.data()[counter] -= static_cast<std::uint32_t>(weight >> weight_shift_);
  }
  std::size_t size() const { return size_; }
  // bound(counter) >= threshold, for a given threshold in one comparison.
  std::uint32_t lowest_reaching(std::uint64_t threshold) const;
  bool reaches(std::size_t counter, std::uint32_t lowest) const { return counters_.data()[counter] >= lowest; }
  // Multiplicative hashing (Knuth 1973, 6.4): cheap, because every slot of every walk pays for it, and linear:
  // the product of (left, right) is (product(left) << 32) + product(right).
  static std::uint64_t product(PairKey pair) { return pair * 0x9E3779B97F4A7C15u; }
  static std::uint64_t spread(std::uint64_t product) { return product >> (64 - kMaxBits); }

 private:
  static constexpr unsigned kMaxBits = 24;
  static constexpr std::uint32_t kTop = std::numeric_limits<std::uint32_t>::max();
  unsigned weight_shift_ = 0;
  std::size_t size_;
  Buffer<std::uint32_t> counters_;
};

// The pairs whose counter reaches a threshold: which counters do, folded until it fits a near cache. Where a
// byte a counter still fits, that is used, since looking at a single bit costs a walk half as much again.
class Filter {
 public:
  Filter(const Sketch& sketch, std::uint64_t threshold);
  bool in_bytes() const { return words_.empty(); }
  std::size_t reaching() const { return reaching_; }  // counters that reach the threshold
  // 1 where the pair of this product passes, else 0; only the one that in_bytes() names may be called.
  std::size_t byte(std::uint64_t product) const { return bytes_[Sketch::spread(product) & mask_]; }
  std::size_t bit(std::uint64_t product) const {
    const auto place = Sketch::spread(product) & mask_;
    return words_[place >> 6] >> (place & 63) & 1;
  }

 private:
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 18;
  std::size_t reaching_ = 0;
  std::uint64_t mask_;
  std::vector<std::uint8_t> bytes_;
  std::vector<std::uint64_t> words_;
};

// How many counters, and how many of the sampled positions, lie in each class of bounds (quarter octaves).
class BoundHistogram {
 public:
  explicit BoundHistogram(const Sketch& sketch);
  void add_positions(std::uint64_t bound, std::uint64_t positions) { positions_[class_of(bound)] += positions; }
  // The lowest threshold, at least min_frequency, whose pairs and positions stay within the given numbers; the
  // highest class is always taken. 0 when no bound reaches min_frequency.
  std::uint64_t threshold(std::uint64_t max_pairs, std::uint64_t max_positions, std::uint64_t min_frequency) const;

 private:
  static unsigned class_of(std::uint64_t bound);
  static std::uint64_t lowest_of(unsigned bound_class);
  static constexpr unsigned kClasses = 256;
  std::uint64_t pairs_[kClasses] = {}, positions_[kClasses] = {};
};

}  // namespace bpe::merge
