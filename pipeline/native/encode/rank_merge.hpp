// RankMerger: byte-pair encoding of one pre-token by the ranks of a merge list; bytes in, token ids out.
//
// Contract: starting from single bytes, the adjacent pair of lowest rank is joined, the leftmost among equals, until no
// adjacent pair is in the merge list. Any merge list is accepted: several merges may produce one
// token, and a merge may precede those that produce its parts.
//
// Ideas, by the list:
// - Where every merge comes after those that make its parts (all trained lists), the chain of tokens is found from left
//   to right (chain_merge.hpp). Cost: O(n), whatever the length.
// - Under any other list, and where that chain takes too many steps, a pre-token is first cut where its two neighbouring
//   bytes are never joined by any merge; each stretch uses a heap of (rank, position). Cost: O(n log n).
// - The heap takes some 32 bytes for each byte. Where the chain is usable, a stretch above kWindow is therefore encoded
//   in windows that overlap, joined where both have a border and the tokens next to it fit: a row in which all
//   neighbours fit is the encoding (chain_merge.hpp). Where they share none, tokens are very long: windows are doubled.
#pragma once
#include "encode/borders.hpp"
#include "encode/chain_merge.hpp"

namespace bpe {

// Working memory of join_by_rank: by the place where a unit starts, the rank of the pair that starts there, and where its
// neighbours start (`size` and kNoRank at the ends).
struct RankQueue {
  std::vector<uint32_t> ranks, next, previous;
  std::vector<uint64_t> heap;
};
inline constexpr uint32_t kNoRank = PairMap<true>::kNone;

// Joins in a row of `size` units the neighbours of lowest rank, the leftmost among equals, until none has a rank.
// rank_of(left, right, end): where two units start, and where they end. joined(rank, left, right): they are one now.
template <class RankOf, class Joined>
void join_by_rank(size_t size, RankQueue& s, const RankOf& rank_of, const Joined& joined) {
  for (auto* row : {&s.ranks, &s.next, &s.previous}) row->resize(size);
  for (size_t i = 0; i < size; ++i) {
    s.next[i] = static_cast<uint32_t>(i + 1);
    s.previous[i] = static_cast<uint32_t>(i) - 1;
  }
  const auto rate = [&](size_t at) {
    const size_t right = s.next[at];
    s.ranks[at] = right < size ? rank_of(at, right, s.next[right]) : kNoRank;
    if (s.ranks[at] != kNoRank) s.heap.push_back(uint64_t{s.ranks[at]} << 32 | at);
    return s.ranks[at] != kNoRank;
  };
  const std::greater<> least_first;
  s.heap.clear();
  for (size_t i = 0; i < size; ++i) rate(i);
  std::make_heap(s.heap.begin(), s.heap.end(), least_first);
  while (!s.heap.empty()) {
    std::pop_heap(s.heap.begin(), s.heap.end(), least_first);
    const auto rank = static_cast<uint32_t>(s.heap.back() >> 32);
    const auto at = static_cast<uint32_t>(s.heap.back());
    s.heap.pop_back();
    if (s.ranks[at] != rank) continue;  // that pair is gone
    const uint32_t gone = s.next[at];
    joined(rank, at, gone);
    s.ranks[gone] = kNoRank;
    s.next[at] = s.next[gone];
    if (s.next[at] < size) s.previous[s.next[at]] = at;
    for (const uint32_t changed : {at, s.previous[at]}) {
      if (changed != kNoRank && rate(changed)) std::push_heap(s.heap.begin(), s.heap.end(), least_first);
    }
  }
}

class RankMerger {
 public:
  // Working memory of one thread, kept between calls.
  struct Scratch {
    std::vector<uint32_t> ids;  // by the place of a token's first byte
    RankQueue queue;
    ChainMerger::Scratch chain;
  };
  struct Step {
    uint32_t rank, at;  // of the merge, and where the new token starts
  };
  static constexpr size_t kMaxPieceBytes = size_t{1} << 30;

  // `merges` in order of rank. Without `chain`, only the first and the last byte of each token matter.
  // std::invalid_argument where a byte has no token, or a merge names no token.
  RankMerger(std::span<const Token> tokens, std::span<const Merge> merges, bool chain = true);

  // Appends the ids of `pre_token`. std::runtime_error for a pre-token above kMaxPieceBytes.
  void encode(std::string_view pre_token, Scratch& scratch, IdBuffer& out) const;

  const Borders& borders() const { return borders_; }

  // The merges of a pre-token in their order, by the queue.
  std::vector<Step> steps(std::string_view pre_token, Scratch& scratch) const;
  // The rank of the last merge where a token's bytes become this token; nothing where they do not, or where it is a byte.
  std::optional<uint32_t> last_merge(const Token& token, Scratch& scratch) const;

 private:
  static constexpr size_t kWindow = size_t{1} << 20;  // bytes

  template <class Joined>
  void join_stretch(const uint8_t* bytes, size_t size, Scratch& scratch, const Joined& joined) const;
  void encode_stretch(const uint8_t* bytes, size_t size, Scratch& scratch, IdBuffer& out) const;
  // Appends the ids of a stretch of more than one window; false, with some appended, where windows share no border.
  bool encode_windows(const uint8_t* bytes, size_t size, size_t window, Scratch& scratch, IdBuffer& out) const;

  std::array<uint32_t, 256> byte_ids_;
  std::vector<uint32_t> results_;  // by rank
  PairMap<true> ranks_;            // of two ids
  JoinableBytes joinable_;
  Borders borders_;
  ChainMerger chain_;
};

}  // namespace bpe
