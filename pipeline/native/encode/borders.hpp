// Borders: between which characters no merge ever joins, so that a long pre-token may be encoded in parts.
//
// Proof: the first token that reaches over a border is made by a merge whose left token ends at the border and whose right
// one begins there. So where the bytes on both sides, up to three each, are those of no such merge, no token reaches over
// the border, and the pre-token's ids are those of its parts. This holds for any list of merges and for any bytes.
// Idea: a Bloom filter with one hash of the bytes around the border (B. H. Bloom, 1970); of merges whose tokens have fewer
// than three bytes, of as many as they have. Only borders before characters of three or four bytes are asked about: in
// scripts that have these, pre-tokens are long, most words are not separated by spaces, and few characters make one token.
// Cost: 2 to 4 bytes a merge; a question loads 8 bytes and asks once for each pair of lengths that merges have.
#pragma once
#include "count/hash.hpp"

namespace bpe {

class Borders {
 public:
  static constexpr size_t kBefore = 3, kBehind = 5;  // bytes that are read
  static constexpr uint8_t kLead = 0xE0;             // the first byte of a character of three or four

  explicit Borders(size_t merges) : bits_(std::bit_ceil(16 * merges + 64) / 64) {}

  // A merge of two tokens, neither of which is empty.
  void add(std::string_view left, std::string_view right) {
    if (static_cast<uint8_t>(left.back()) < 0x80 || static_cast<uint8_t>(right.front()) < kLead) return;
    std::array<uint8_t, 8> around{};
    const size_t before = std::min(left.size(), kBefore), behind = std::min(right.size(), kBefore);
    std::memcpy(around.data() + kBefore - before, left.data() + left.size() - before, before);
    std::memcpy(around.data() + kBefore, right.data(), behind);
    const uint64_t mask = mask_of(before, behind);
    if (std::find(masks_.begin(), masks_.end(), mask) == masks_.end()) masks_.push_back(mask);
    const size_t bit = bit_of(load64(around.data()), mask);
    bits_[bit / 64] |= uint64_t{1} << bit % 64;
  }

  // Whether a merge may join what ends before `at` to what begins there.
  bool joined(const uint8_t* at) const {
    if (*at < kLead || at[-1] < 0x80) return true;
    const uint64_t around = load64(at - kBefore);
    for (const uint64_t mask : masks_) {
      const size_t bit = bit_of(around, mask);
      if (bits_[bit / 64] >> bit % 64 & 1) return true;
    }
    return false;
  }

 private:
  static uint64_t mask_of(size_t before, size_t behind) {
    return ((uint64_t{1} << 8 * (before + behind)) - 1) << 8 * (kBefore - before);
  }
  size_t bit_of(uint64_t around, uint64_t mask) const {
    return ((around & mask) ^ ~mask) * kHotFactor >> 20 & (64 * bits_.size() - 1);
  }

  std::vector<uint64_t> bits_;
  std::vector<uint64_t> masks_;  // of the bytes that are compared
};

}  // namespace bpe
