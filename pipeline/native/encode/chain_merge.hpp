// Byte-pair encoding of one piece in time that grows with its length: the chain of tokens in which all neighbours fit.
//
// Contract: the ids that joining by rank gives (rank_merge.hpp), for lists in which every merge comes after those that
// make its parts; any other list is not `usable`, nor one whose tokens are very long together.
//
// Idea. Two tokens fit if their joint bytes, merged by rank, give these two again. A row of tokens is the encoding of
// its bytes exactly if every two neighbours fit: the first merge across a border of the row would also be the first
// across that border in the bytes of the two tokens beside it. So the longest token that begins at a place is tried,
// then each shorter one; where none fits its left neighbour, that neighbour is given up. There is one encoding of each
// beginning of a piece, so a place given up once is never tried again. (After the encoder in GitHub's `bpe` crate.)
// Whether two tokens fit is told by undoing their merges, the latest first: at each stage the two tokens at the border
// must have no merge that would have come before the one undone.
// Numbers: a byte is its value, any other token 256 + the rank of the merge that makes it of its own bytes, so that
// numbers compare as merges follow one another. A token that its own bytes do not make has none: it never comes about.
//
// Cost: a walk through the trie and some five lookups a token. That is at worst the length times that of the longest
// token, where a text keeps beginning long tokens that it does not end; a long piece is given up after kMaxSteps a byte.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "encode/id_buffer.hpp"
#include "encode/token_trie.hpp"

namespace bpe {

struct Token {
  uint32_t id;
  std::string_view bytes;
};

struct Merge {
  uint32_t left, right, result;  // ids
};

class ChainMerger {
 public:
  // Working memory of one thread: which places of a long piece were given up, and whether two tokens fit, for as many
  // pairs as a small cache holds.
  struct Scratch {
    std::vector<uint64_t> failed;
    std::vector<uint64_t> fits;
  };
  static constexpr size_t kMaxTokenBytes = size_t{16} << 20;  // of all tokens together
  static constexpr size_t kMaxSteps = 64;                     // for each byte of a long piece

  ChainMerger() = default;
  // `by_id`: the token of each id, or null. The merges must name tokens.
  ChainMerger(std::span<const Token* const> by_id, std::span<const Merge> merges);

  bool usable() const { return !parts_.empty(); }

  // Appends the ids of a piece of at least one byte; false, with nothing appended, where that takes too many steps.
  bool encode(const uint8_t* piece, size_t size, Scratch& scratch, IdBuffer& out) const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Part {  // of a token: what was merged last, its bytes, and the longest token that is a proper prefix
    uint32_t left, right, length, shorter;
  };
  struct Slot {
    uint32_t left = kNone, right = kNone, number = kNone;
  };

  static constexpr unsigned kFitsBits = 15;

  template <bool kLimited, class Failed>
  bool chain(const uint8_t* piece, size_t size, Failed failed, uint64_t* fits, IdBuffer& out) const;
  // `fit` without a limit, through the cache: the pair's numbers, then the answer in the lowest bit.
  bool fit_cached(uint32_t left, uint32_t right, uint64_t* fits) const {
    const uint64_t pair = uint64_t{left} << 33 | uint64_t{right} << 1;
    uint64_t& kept = fits[(pair * 0x9E3779B97F4A7C15u) >> (64 - kFitsBits)];
    if ((kept & ~uint64_t{1}) != pair) kept = pair | static_cast<uint64_t>(fit(left, right, kNone));
    return kept & 1;
  }
  void insert(uint32_t left, uint32_t right, uint32_t number);

  static uint64_t hash(uint32_t left, uint32_t right) {
    return (uint64_t{left} << 32 | right) * 0x9E3779B97F4A7C15u;
  }
  // The number of the merge of two tokens; most pairs have none, which a small bitmap tells.
  uint32_t find(uint32_t left, uint32_t right) const {
    const uint64_t hashed = hash(left, right);
    const uint64_t bit = hashed >> bitmap_shift_;
    if (!(bitmap_[bit >> 6] >> (bit & 63) & 1)) return kNone;
    for (size_t at = hashed >> 20 & mask_;; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.left == left && slot.right == right) return slot.number;
      if (slot.number == kNone) return kNone;
    }
  }
  // Whether no merge numbered below `limit` crosses the border of two tokens.
  bool fit(uint32_t left, uint32_t right, uint32_t limit) const {
    for (;;) {
      if (find(left, right) < limit) return false;
      if (left > right) {
        if (left < 256) return true;
        limit = left;
        left = parts_[left].right;
      } else {
        if (right < 256) return true;
        limit = right + 1;  // of equal merges the left one comes first
        right = parts_[right].left;
      }
    }
  }
  bool joinable(uint8_t left, uint8_t right) const {
    const size_t pair = size_t{left} << 8 | right;
    return joinable_[pair >> 6] >> (pair & 63) & 1;
  }

  std::vector<Part> parts_;    // by number
  std::vector<uint32_t> ids_;  // by number
  TokenTrie trie_;
  std::vector<Slot> slots_;  // (left, right) -> number, open addressing, at most half full
  size_t mask_ = 0;
  std::vector<uint64_t> bitmap_;  // a bit for each pair's hash, sixteen times as many as merges
  unsigned bitmap_shift_ = 0;
  std::array<uint64_t, 1024> joinable_{};  // bit [left byte << 8 | right byte]: some merge joins these neighbours
};

}  // namespace bpe
