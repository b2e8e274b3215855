// Byte-pair encoding of one piece: bytes in, token ids out, by the ranks of a merge list.
//
// Contract: starting from single bytes, the adjacent pair of lowest rank is joined, the leftmost among equals, until
// no adjacent pair is in the merge list. Every list is taken as it is: several merges may give the same token, and
// a merge may stand before those that make its parts.
//
// Ideas, by the list:
// - Where every merge comes after those that make its parts (all trained lists), the chain of tokens is found from left
//   to right (chain_merge.hpp). Cost: O(n), whatever the length.
// - Under any other list, and where that chain takes too many steps, a piece is first cut where its two neighbouring
//   bytes are never joined by any merge. A short stretch keeps a row of ids and a row of ranks and looks for the least
//   rank by going through the row: O(n^2) tiny steps. A long one uses a heap of (rank, position): O(n log n).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "encode/chain_merge.hpp"
#include "encode/id_buffer.hpp"

namespace bpe {

class RankMerger {
 public:
  // Working memory of one thread, kept between calls.
  struct Scratch {
    std::vector<uint32_t> ids, ranks, next, previous;
    std::vector<uint64_t> heap;
    ChainMerger::Scratch chain;
  };

  // `merges` in order of rank. std::invalid_argument where a byte has no token, or a merge names no token.
  RankMerger(std::span<const Token> tokens, std::span<const Merge> merges);

  // Appends the ids of `piece`. std::runtime_error for a piece above kMaxPieceBytes.
  void encode(std::string_view piece, Scratch& scratch, IdBuffer& out) const;

  static constexpr size_t kMaxPieceBytes = size_t{1} << 30;
  // Stretches up to this many bytes are merged by walking; also what tests need to reach the other ways.
  static constexpr size_t kShortBytes = 128;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Slot {
    uint32_t left, right, rank;
  };

  uint32_t find(uint32_t left, uint32_t right) const {
    for (size_t at = place(left, right);; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.left == left && slot.right == right) return slot.rank;
      if (slot.rank == kNone) return kNone;
    }
  }
  size_t place(uint32_t left, uint32_t right) const {
    return (((uint64_t{left} << 32 | right) * 0x9E3779B97F4A7C15u) >> 20) & mask_;
  }
  bool joinable(uint8_t left, uint8_t right) const {
    const size_t pair = size_t{left} << 8 | right;
    return joinable_[pair >> 6] >> (pair & 63) & 1;
  }
  void encode_short(const uint8_t* bytes, size_t size, IdBuffer& out) const;
  void encode_by_heap(const uint8_t* bytes, size_t size, Scratch& scratch, IdBuffer& out) const;
  void start_long(const uint8_t* bytes, size_t size, Scratch& scratch) const;
  void encode_stretch(const uint8_t* bytes, size_t size, Scratch& scratch, IdBuffer& out) const;

  std::array<uint32_t, 256> byte_ids_;
  std::vector<uint32_t> byte_pair_ranks_;  // [left byte << 8 | right byte]
  std::vector<uint32_t> results_;          // by rank
  std::vector<Slot> slots_;                // (left, right) -> rank, open addressing, at most half full
  size_t mask_ = 0;
  std::array<uint64_t, 1024> joinable_{};  // bit [left byte << 8 | right byte]: some merge joins these neighbours
  ChainMerger chain_;
};

}  // namespace bpe
