// HotPieces: counts the most frequent short pieces, so that most pieces never reach the large table.
//
// Idea: text repeats few pieces very often, most of them short. A direct-mapped cache of 8,192 pieces of at most 7
// bytes stays in the processor's fast caches, needs no good hash, and finds a hit without a branch, so nothing is
// mispredicted; with AVX-512 eight pieces are looked up at once. An entry counts its piece since it was put in;
// `totals_` says where in the large table that is added when it is pushed out.
// Invariants: an entry without a total is empty, and its count means nothing; totals do not move until `settle`, which
// empties the cache.
// Cost: 192 KiB, of which 128 are used at every piece.
#pragma once
#include "count/hash.hpp"

namespace bpe {

class HotPieces {
 public:
  static constexpr size_t kBatch = 1024, kSpare = 8;

  // Counts the pieces of a batch that are here: at most kBatch, which follow one another in `text` from `start` and end
  // at `ends`. Writes the numbers of the others to `missed`, where kSpare more are overwritten, and returns how many.
  size_t count(const uint8_t* text, size_t start, const uint32_t* ends, size_t pieces, uint32_t* missed);

  // A piece of at most kHotBytes asks for a slot; later its count will be added to `total`. One that was met often
  // since it was last asked keeps its place.
  void put(uint64_t word, uint64_t& total) {
    const size_t slot = hot_slot(word);
    Entry& entry = entries_[slot];
    if (totals_[slot]) *totals_[slot] += entry.count;
    if (!totals_[slot] || entry.count <= kFew) {
      entry.word = word;
      totals_[slot] = &total;
    }
    entry.count = 0;
  }

  // Adds all counts to their totals and forgets the pieces.
  void settle() {
    for (size_t slot = 0; slot < entries_.size(); ++slot)
      if (totals_[slot]) *totals_[slot] += entries_[slot].count;
    entries_.fill({});
    totals_.fill(nullptr);
  }

 private:
  static constexpr uint64_t kFew = 2;
  struct Entry {
    uint64_t word = 0;
    uint64_t count = 0;
  };

  size_t count_by_eights(const uint8_t* text, size_t start, const uint32_t* ends, size_t pieces, uint32_t* missed);

  std::array<Entry, kHotSlots> entries_;
  std::array<uint64_t*, kHotSlots> totals_{};
};

}  // namespace bpe
