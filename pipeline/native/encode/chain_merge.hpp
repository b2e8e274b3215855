// ChainMerger: byte-pair encoding of one pre-token in time that grows with its length, by the chain of tokens in which all
// neighbours fit.
//
// Contract: the ids that joining by rank makes (rank_merge.hpp), for lists in which every merge comes after those that
// make its parts; any other list is not `usable`, nor one whose tokens are very long together.
//
// Idea. Two tokens fit if their joint bytes, merged by rank, are these two again. A row of tokens is the encoding of
// its bytes exactly if every two neighbours fit: the first merge across a border of the row would also be the first
// across that border in the bytes of the two tokens next to it. So the longest token that starts at a position is
// tried, then each shorter one; where none fits its left neighbour, that neighbour is given up. Each prefix of a pre-token
// has one encoding, so a position given up once is never tried again. (After the encoder in GitHub's `bpe` crate.) Two
// tokens fit if undoing their merges, the latest first, never shows two tokens at the border that have a merge which
// comes before the one undone.
// Numbers: a byte is its value, any other token 256 + the rank of the merge that makes it of its own bytes, so that
// numbers compare as merges follow one another. A token that its own bytes do not make has none: it never appears.
//
// Cost: a walk through the trie and some five lookups a token. That is at worst the length times that of the longest
// token, where a text keeps starting long tokens that it does not end; a long pre-token is given up after kMaxSteps a byte.
#pragma once
#include "count/pair_map.hpp"
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

// Which two neighbouring bytes some merge joins.
class JoinableBytes {
 public:
  void add(const Token& left, const Token& right) {
    const size_t pair = pair_of(static_cast<uint8_t>(left.bytes.back()), static_cast<uint8_t>(right.bytes.front()));
    bits_[pair >> 6] |= uint64_t{1} << (pair & 63);
  }
  bool has(uint8_t left, uint8_t right) const {
    const size_t pair = pair_of(left, right);
    return bits_[pair >> 6] >> (pair & 63) & 1;
  }

 private:
  static size_t pair_of(uint8_t left, uint8_t right) { return size_t{left} << 8 | right; }
  std::array<uint64_t, 1024> bits_{};
};

class ChainMerger {
 public:
  // Working memory of one thread: which positions of a long pre-token were given up, and whether two tokens fit, for as
  // many pairs as a small cache holds.
  struct Scratch {
    std::vector<uint64_t> failed;
    std::vector<uint64_t> fits;
  };
  static constexpr size_t kMaxTokenBytes = size_t{16} << 20;  // of all tokens together
  static constexpr size_t kMaxSteps = 64;                     // for each byte of a long pre-token

  ChainMerger() = default;
  // `by_id`: the token of each id, or null. The merges must name tokens.
  ChainMerger(std::span<const Token* const> by_id, std::span<const Merge> merges);

  bool usable() const { return !parts_.empty(); }

  // Appends the ids of a pre-token of at least one byte; false, with nothing appended, where that takes too many steps.
  bool encode(const uint8_t* pre_token, size_t size, Scratch& scratch, IdBuffer& out) const;

  // Of tokens that pre-tokens are encoded to: their bytes, and whether two are the encoding of their bytes together.
  size_t length(uint32_t id) const { return parts_[by_id_[id]].length; }
  bool fits(uint32_t left, uint32_t right) const { return fit(by_id_[left], by_id_[right], kNone); }

 private:
  static constexpr uint32_t kNone = PairMap<true>::kNone;
  struct Part {  // of a token: what was merged last, its bytes, and the longest token that is a proper prefix
    uint32_t left, right, length, shorter;
  };

  static constexpr unsigned kFitsBits = 15;

  template <bool kLimited, class Failed>
  bool chain(const uint8_t* pre_token, size_t size, Failed failed, uint64_t* fits, IdBuffer& out) const;
  // `fit` without a limit, through the cache: the pair's numbers, then the answer in the lowest bit.
  bool fit_cached(uint32_t left, uint32_t right, uint64_t* fits) const {
    const uint64_t pair = uint64_t{left} << 33 | uint64_t{right} << 1;
    uint64_t& kept = fits[(pair * 0x9E3779B97F4A7C15u) >> (64 - kFitsBits)];
    if ((kept & ~uint64_t{1}) != pair) kept = pair | static_cast<uint64_t>(fit(left, right, kNone));
    return kept & 1;
  }
  // Whether no merge numbered below `limit` crosses the border of two tokens.
  bool fit(uint32_t left, uint32_t right, uint32_t limit) const {
    for (;;) {
      if (numbers_.find(left, right) < limit) return false;
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

  std::vector<Part> parts_;      // by number
  std::vector<uint32_t> ids_;    // by number
  std::vector<uint32_t> by_id_;  // the numbers
  TokenTrie trie_;
  PairMap<true> numbers_;  // of the merges of two numbers
  JoinableBytes joinable_;
};

}  // namespace bpe
