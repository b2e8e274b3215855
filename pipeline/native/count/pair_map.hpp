// PairMap: a pair of tokens -> a number.
//
// Idea: open addressing in a table that is at most half full. Where most pairs that are looked up are not in it
// (`kFiltered`), a bitmap of at least sixteen bits a pair is asked first.
// Cost: one load for most pairs without a number, one or two for most others; 24 bytes a pair at the least, 48 at the
// most, and 2 to 4 for the bitmap.
#pragma once
#include "text/base.hpp"

namespace bpe {

template <bool kFiltered>
class PairMap {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit PairMap(size_t expected_pairs = 0) { resize(std::bit_ceil(std::max<size_t>(2 * expected_pairs, 128))); }

  // False where the pair has a number already, which stays.
  bool insert(uint32_t left, uint32_t right, uint32_t number) {
    if (2 * (used_ + 1) > slots_.size()) {
      std::vector<Slot> old = std::move(slots_);
      resize(2 * old.size());
      for (const Slot& slot : old)
        if (slot.number != kNone) insert(slot.left, slot.right, slot.number);
    }
    const uint64_t hashed = hash(left, right);
    if (kFiltered) bitmap_[hashed >> shift_ >> 6] |= uint64_t{1} << (hashed >> shift_ & 63);
    size_t at = slot_of(hashed);
    for (; slots_[at].number != kNone; at = (at + 1) & mask_) {
      if (slots_[at].left == left && slots_[at].right == right) return false;
    }
    slots_[at] = {left, right, number};
    ++used_;
    return true;
  }

  uint32_t find(uint32_t left, uint32_t right) const {
    const uint64_t hashed = hash(left, right);
    if (kFiltered && !(bitmap_[hashed >> shift_ >> 6] >> (hashed >> shift_ & 63) & 1)) return kNone;
    for (size_t at = slot_of(hashed);; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if ((slot.left == left && slot.right == right) || slot.number == kNone) return slot.number;
    }
  }
  void prefetch(uint32_t left, uint32_t right) const { __builtin_prefetch(&slots_[slot_of(hash(left, right))]); }

 private:
  struct Slot {
    uint32_t left = kNone, right = kNone, number = kNone;
  };
  static uint64_t hash(uint32_t left, uint32_t right) { return (uint64_t{left} << 32 | right) * 0x9E3779B97F4A7C15u; }
  size_t slot_of(uint64_t hashed) const { return hashed >> 20 & mask_; }
  void resize(size_t slots) {
    slots_.assign(slots, {});
    mask_ = slots - 1;
    used_ = 0;
    if (kFiltered) bitmap_.assign(8 * slots / 64, 0);
    shift_ = 64u - static_cast<unsigned>(std::countr_zero(8 * slots));
  }

  std::vector<Slot> slots_;
  std::vector<uint64_t> bitmap_;
  size_t mask_, used_;
  unsigned shift_;
};

}  // namespace bpe
