// RankMerger: byte-pair encoding of one piece by the ranks of a merge list; bytes in, token ids out.
//
// Contract: starting from single bytes, the adjacent pair of lowest rank is joined, the leftmost among equals, until no
// adjacent pair is in the merge list. Every list is taken as it is: several merges may make the same token, and a merge
// may come before those that make its parts.
//
// Ideas, by the list:
// - Where every merge comes after those that make its parts (all trained lists), the chain of tokens is found from left
//   to right (chain_merge.hpp). Cost: O(n), whatever the length.
// - Under any other list, and where that chain takes too many steps, a piece is first cut where its two neighbouring
//   bytes are never joined by any merge; each stretch uses a heap of (rank, position). Cost: O(n log n).
// - The heap takes some 32 bytes for each byte. Where the chain is usable, a stretch above kWindow is therefore encoded
//   in windows that overlap, joined where both have a border and the tokens next to it fit: a row in which all
//   neighbours fit is the encoding (chain_merge.hpp). Where they share none, tokens are very long: windows are doubled.
#pragma once
#include "encode/chain_merge.hpp"

namespace bpe {

class RankMerger {
 public:
  // Working memory of one thread, kept between calls.
  struct Scratch {
    std::vector<uint32_t> ids, ranks, next, previous;
    std::vector<uint64_t> heap;
    ChainMerger::Scratch chain;
  };
  static constexpr size_t kMaxPieceBytes = size_t{1} << 30;

  // `merges` in order of rank. Without `chain`, only the first and the last byte of each token matter.
  // std::invalid_argument where a byte has no token, or a merge names no token.
  RankMerger(std::span<const Token> tokens, std::span<const Merge> merges, bool chain = true);

  // Appends the ids of `piece`. std::runtime_error for a piece above kMaxPieceBytes.
  void encode(std::string_view piece, Scratch& scratch, IdBuffer& out) const;

  // The two ids that the last merge joins where a token's bytes become this token; nothing where they do not, or where
  // it is a byte.
  std::optional<std::pair<uint32_t, uint32_t>> parts(const Token& token) const;

 private:
  static constexpr size_t kWindow = size_t{1} << 20;  // bytes

  void encode_stretch(const uint8_t* bytes, size_t size, Scratch& scratch, IdBuffer& out) const;
  // Appends the ids of a stretch of more than one window; false, with some appended, where windows share no border.
  bool encode_windows(const uint8_t* bytes, size_t size, size_t window, Scratch& scratch, IdBuffer& out) const;

  std::array<uint32_t, 256> byte_ids_;
  std::vector<uint32_t> results_;  // by rank
  PairMap<true> ranks_;            // of two ids
  JoinableBytes joinable_;
  ChainMerger chain_;
};

}  // namespace bpe
