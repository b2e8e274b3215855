// HotPieces: counts the most frequent short pieces, so that most pieces never reach the large table.
//
// Idea: text repeats few pieces very often, most of them short. A direct-mapped cache of 8,192 pieces of at most 7
// bytes stays in the processor's fast caches, needs no good hash, and finds a hit without a branch, so nothing is
// mispredicted; with AVX-512 eight pieces are looked up at once. An entry counts its piece since it was put in;
// `totals_` says where in the large table that is added when it is pushed out.
// Invariants: an empty entry's total is `nothing_`; totals do not move until `settle`, which empties the cache.
// Cost: 192 KiB, of which 128 are used at every piece.
#pragma once
#include "count/hash.hpp"

namespace bpe {

class HotPieces {
 public:
  static constexpr size_t kBatch = 1024, kSpare = 8;

  HotPieces() { totals_.fill(&nothing_); }
  HotPieces(const HotPieces&) = delete;
  HotPieces& operator=(const HotPieces&) = delete;

  // Counts the pieces of a batch that are here: at most kBatch, which follow one another in `text` from `start` and end
  // at `ends`. Writes the numbers of the others to `missed`, where kSpare more are overwritten, and returns how many.
  size_t count(const uint8_t* text, size_t start, const uint32_t* ends, size_t pieces, uint32_t* missed);

  // A piece of at most kHotBytes asks for a slot; later its count will be added to `total`. One that was met often
  // since it was last asked keeps its place.
  void put(uint64_t word, uint64_t& total) {
    const size_t slot = hot_slot(word);
    *totals_[slot] += counts_[slot];
    const bool keeps = counts_[slot] > kFew;
    words_[slot] = keeps ? words_[slot] : word;
    totals_[slot] = keeps ? totals_[slot] : &total;
    counts_[slot] = 0;
  }

  // Adds all counts to their totals and forgets the pieces.
  void settle() {
    for (size_t slot = 0; slot < words_.size(); ++slot) *totals_[slot] += counts_[slot];
    words_.fill(0);
    counts_.fill(0);
    totals_.fill(&nothing_);
  }

 private:
  static constexpr uint64_t kFew = 2;

  size_t count_by_eights(const uint8_t* text, size_t start, const uint32_t* ends, size_t pieces, uint32_t* missed);

  alignas(64) std::array<uint64_t, kHotSlots> words_{};
  std::array<uint64_t, kHotSlots> counts_{};
  std::array<uint64_t*, kHotSlots> totals_;
  uint64_t nothing_ = 0;  // the total of an empty entry
};

}  // namespace bpe
