// PairMap: a pair of tokens -> the number of its merge.
//
// Idea: open addressing in a table that is at most half full. Most pairs that are looked up have no merge, so a bitmap
// of sixteen bits a merge is asked first.
// Cost: one load for most pairs without a merge, two for most others; 26 bytes a merge at the least, 52 at the most.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bpe {

class PairMap {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit PairMap(size_t most_pairs = 0) {
    const size_t size = std::bit_ceil(std::max<size_t>(most_pairs, 64));
    slots_.assign(2 * size, {});
    bitmap_.assign(16 * size / 64, 0);
    mask_ = slots_.size() - 1;
    shift_ = 64u - static_cast<unsigned>(std::countr_zero(16 * size));
  }

  // False where the pair has a number already, which stays.
  bool insert(uint32_t left, uint32_t right, uint32_t number) {
    const uint64_t hashed = hash(left, right), bit = hashed >> shift_;
    bitmap_[bit >> 6] |= uint64_t{1} << (bit & 63);
    size_t at = slot_of(hashed);
    for (; slots_[at].number != kNone; at = next(at)) {
      if (slots_[at].left == left && slots_[at].right == right) return false;
    }
    slots_[at] = {left, right, number};
    return true;
  }

  uint32_t find(uint32_t left, uint32_t right) const {
    const uint64_t hashed = hash(left, right), bit = hashed >> shift_;
    if (!(bitmap_[bit >> 6] >> (bit & 63) & 1)) return kNone;
    for (size_t at = slot_of(hashed);; at = next(at)) {
      const Slot& slot = slots_[at];
      if ((slot.left == left && slot.right == right) || slot.number == kNone) return slot.number;
    }
  }

 private:
  struct Slot {
    uint32_t left = kNone, right = kNone, number = kNone;
  };
  static uint64_t hash(uint32_t left, uint32_t right) { return (uint64_t{left} << 32 | right) * 0x9E3779B97F4A7C15u; }
  size_t slot_of(uint64_t hashed) const { return hashed >> 20 & mask_; }
  size_t next(size_t at) const { return (at + 1) & mask_; }

  std::vector<Slot> slots_;
  std::vector<uint64_t> bitmap_;
  size_t mask_;
  unsigned shift_;
};

}  // namespace bpe
