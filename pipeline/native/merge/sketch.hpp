// Sketch: upper bounds for the counts of all pairs, in a small array: what makes phases cheap.
//
// Idea: each pair has, by its hash, one counter, which is never below the sum of the counts of all pairs that share it
// (a count-min sketch of one row: Cormode and Muthukrishnan 2005). It starts with the exact counts of byte pairs, and
// every merge subtracts the pairs it takes apart and adds those it makes, once per different neighbour; so it stays
// true through all phases and the words are never scanned for its sake.
// Invariant: counters are upper bounds. They have 32 bits: large weights are scaled down, rounded up when added and
// down when subtracted, and a counter that reaches the top stays there.
#pragma once
#include "count/pages.hpp"
#include "merge/tokens.hpp"

namespace bpe::merge {

using PairKey = uint64_t;
inline PairKey key_of(Symbol left, Symbol right) { return static_cast<PairKey>(left) << 32 | right; }
inline Symbol left_of(PairKey pair) { return static_cast<Symbol>(pair >> 32); }
inline Symbol right_of(PairKey pair) { return static_cast<Symbol>(pair); }

class Sketch {
 public:
  // For a corpus of `slots` slots, whose counts add up to `mass`; of at most about that many bytes.
  Sketch(uint64_t slots, uint64_t mass, uint64_t most_bytes) {
    const auto most = std::clamp(static_cast<unsigned>(std::bit_width(most_bytes / 8)), kMinBits, kMaxBits);
    const auto bits = std::clamp(static_cast<unsigned>(std::bit_width(slots / 32)), kMinBits, most);
    while (mass >> weight_shift_ > kTop / 2) ++weight_shift_;
    size_ = size_t{1} << bits;
    counters_ = Array<uint32_t>(size_);
  }

  size_t counter_of(PairKey pair) const { return spread(product(pair)) & (size_ - 1); }
  void prefetch(size_t counter) const { __builtin_prefetch(&counters_.data()[counter], 1); }
  uint64_t bound(size_t counter) const {
    const auto value = counters_.data()[counter];
    return value == kTop ? std::numeric_limits<uint64_t>::max() : uint64_t{value} << weight_shift_;
  }
  void add(size_t counter, uint64_t weight) {
    const auto sum = counters_.data()[counter] + (weight >> weight_shift_) + (weight_shift_ != 0);
    counters_.data()[counter] = static_cast<uint32_t>(std::min<uint64_t>(sum, kTop));
  }
  void subtract(size_t counter, uint64_t weight) {
    if (counters_.data()[counter] != kTop) counters_.data()[counter] -= static_cast<uint32_t>(weight >> weight_shift_);
  }
  size_t size() const { return size_; }
  // Sets all counters from exact sums.
  void set(const std::vector<uint64_t>& sums) {
    for (size_t counter = 0; counter < size_; ++counter)
      if (sums[counter] != 0) add(counter, sums[counter]);
  }
  // bound(counter) >= threshold, for a given threshold in one comparison.
  uint32_t lowest_reaching(uint64_t threshold) const {
    const auto scaled = (threshold >> weight_shift_) + ((threshold & ((uint64_t{1} << weight_shift_) - 1)) != 0);
    return static_cast<uint32_t>(std::min<uint64_t>(scaled, kTop));
  }
  bool reaches(size_t counter, uint32_t lowest) const { return counters_.data()[counter] >= lowest; }
  // Counters that reach a threshold.
  size_t reaching(uint64_t threshold) const {
    const auto lowest = lowest_reaching(threshold);
    return static_cast<size_t>(
        std::count_if(counters_.data(), counters_.data() + size_, [=](auto one) { return one >= lowest; }));
  }
  // Multiplicative hashing (Knuth 1973, 6.4): cheap, because every slot of every walk pays for it, and linear: the
  // product of (left, right) is (product(left) << 32) + product(right).
  static uint64_t product(PairKey pair) { return pair * 0x9E3779B97F4A7C15u; }
  static uint64_t spread(uint64_t product) { return product >> (64 - kMaxBits); }

 private:
  static constexpr unsigned kMinBits = 14, kMaxBits = 24;
  static constexpr uint32_t kTop = std::numeric_limits<uint32_t>::max();
  unsigned weight_shift_ = 0;
  size_t size_;
  Array<uint32_t> counters_;
};

// A bit for each range of the hash: whether pairs in it may reach a threshold. A power of two of them, at least 2^14.
using PairFilter = std::vector<uint64_t>;

// Of all pairs whose counter in one of the sketches reaches the threshold that comes with it.
inline PairFilter filter_above(const std::vector<std::pair<const Sketch*, uint64_t>>& thresholds) {
  size_t most = 0, reaching = 0, size = size_t{1} << 14;
  for (const auto& [sketch, threshold] : thresholds) {
    most = std::max(most, sketch->size());
    reaching += sketch->reaching(threshold);
  }
  while (size < most && size < 32 * reaching) size *= 2;
  PairFilter filter(size / 64, 0);
  for (const auto& [sketch, threshold] : thresholds) {
    const auto lowest = sketch->lowest_reaching(threshold);
    for (size_t counter = 0; counter < sketch->size(); ++counter)
      if (sketch->reaches(counter, lowest))
        for (auto at = counter & (size - 1); at < size; at += sketch->size())
          filter[at >> 6] |= uint64_t{1} << (at & 63);
  }
  return filter;
}

// What passes a filter. Where one byte a bit fits a near cache, that is used, since testing a single bit makes a walk half
// as slow again.
class Filter {
 public:
  explicit Filter(PairFilter bits) : bits_(std::move(bits)), mask_(64 * bits_.size() - 1) {
    for (uint64_t place = 0; mask_ < kMaxBytes && place <= mask_; ++place) bytes_.push_back(bit(place));
  }
  // use(passes), which says of a pair's product whether it passes.
  template <class Use>
  auto with(Use&& use) const {
    if (bytes_.empty()) return use([this](uint64_t product) { return bit(Sketch::spread(product) & mask_); });
    return use([this](uint64_t product) -> size_t { return bytes_[Sketch::spread(product) & mask_]; });
  }

 private:
  static constexpr size_t kMaxBytes = size_t{1} << 18;
  size_t bit(uint64_t place) const { return bits_[place >> 6] >> (place & 63) & 1; }
  PairFilter bits_;
  uint64_t mask_;
  std::vector<uint8_t> bytes_;
};

// How many counters, and how many of the sampled positions, are in each class of bounds (quarter octaves).
class BoundHistogram {
 public:
  explicit BoundHistogram(const Sketch& sketch) {
    for (size_t counter = 0; counter < sketch.size(); ++counter)
      if (const auto bound = sketch.bound(counter); bound != 0) ++pairs_[class_of(bound)];
  }
  void add_positions(uint64_t bound, double positions) { positions_[class_of(bound)] += positions; }
  // Slots of words whose highest bound this is.
  void add_slots(uint64_t bound, double slots) { slots_[class_of(bound)] += slots; }
  // Adds the positions and slots of a sample of one in `each`.
  void add(const BoundHistogram& sample, double each) {
    for (unsigned c = 0; c < kClasses; ++c) {
      positions_[c] += each * sample.positions_[c];
      slots_[c] += each * sample.slots_[c];
    }
  }
  // The lowest bound of a class, at least min_frequency, such that it and all higher ones stay within that many pairs, and
  // slots and positions of a size each within that many bytes; `none` where not even the highest class does, which counts
  // as enough where `none` is 0. 0 when no bound reaches min_frequency.
  uint64_t threshold(uint64_t max_pairs, uint64_t max_bytes, uint64_t min_frequency, double slot_bytes = 0,
                     double position_bytes = 1, uint64_t none = 0) const {
    uint64_t pairs = 0, lowest = 0;
    double bytes = 0;
    for (unsigned c = kClasses; c-- > 0;) {
      if (pairs_[c] == 0) continue;
      if (c + 1 < kClasses && lowest_of(c + 1) <= min_frequency) break;
      pairs += pairs_[c];
      bytes += slot_bytes * slots_[c] + position_bytes * positions_[c];
      const bool too_many = pairs > max_pairs || bytes > static_cast<double>(max_bytes);
      if (too_many && (lowest != 0 || none != 0)) return lowest != 0 ? lowest : none;
      lowest = std::max(lowest_of(c), min_frequency);
    }
    return lowest;
  }

 private:
  static unsigned class_of(uint64_t bound) {
    const auto exponent = 63u - static_cast<unsigned>(std::countl_zero(bound));
    const auto quarter = exponent < 2 ? bound << (2 - exponent) : bound >> (exponent - 2);
    return 4 * exponent + static_cast<unsigned>(quarter & 3);
  }
  static uint64_t lowest_of(unsigned bound_class) {
    const auto exponent = bound_class / 4;
    const uint64_t quarters = 4 + bound_class % 4;
    return exponent < 2 ? ((quarters << exponent) + 3) >> 2 : quarters << (exponent - 2);
  }
  static constexpr unsigned kClasses = 256;
  uint64_t pairs_[kClasses] = {};
  double positions_[kClasses] = {}, slots_[kClasses] = {};
};

// Recount: a second sketch, of the pairs that pass a filter. Far down the tail the sketch has fewer counters than there
// are pairs, and most that pass do so for what others have added to their counter; to tally and list them would take
// more memory than the rest of the engine. So they are counted once more in counters of another hash (together a
// count-min sketch of two rows). All occurrences of a pair pass or none does, so its counter is again an upper bound.
// Counters have 16 bits and stay at the top: thresholds beyond are not for it.
class Recount {
 public:
  static constexpr uint64_t kTop = std::numeric_limits<uint16_t>::max();

  // For about that many pairs; every shard has counters of its own.
  Recount(size_t n_shards, size_t pairs)
      : shift_(64u - std::clamp(static_cast<unsigned>(std::bit_width(2 * pairs)), 12u, 22u)) {
    for (size_t s = 0; s < n_shards; ++s) shards_.emplace_back(size());
  }
  size_t place_of(uint64_t product) const { return (product ^ product >> 32) * 0xD6E8FEB86659FD93u >> shift_; }
  void prefetch(size_t shard, size_t place) const { __builtin_prefetch(shards_[shard].data() + place, 1); }
  void add(size_t shard, size_t place, uint64_t weight) {
    auto& counter = shards_[shard].data()[place];
    counter = static_cast<uint16_t>(std::min(counter + std::min(weight, kTop), kTop));
  }
  // Ends the counting; threshold <= kTop.
  void settle(uint64_t threshold) {
    reaching_.assign(size(), 0);
    for (size_t place = 0; place < size(); ++place) {
      uint64_t count = 0;
      for (const auto& counters : shards_) count += counters.data()[place];
      reaching_[place] = count >= threshold;
    }
    shards_.clear();
  }
  bool passes(size_t place) const { return reaching_[place]; }

 private:
  size_t size() const { return size_t{1} << (64 - shift_); }
  const unsigned shift_;
  std::vector<Array<uint16_t>> shards_;
  std::vector<bool> reaching_;
};

}  // namespace bpe::merge
