// HotPieces: the most frequent short pieces, so that most pieces never reach a large table. HotCounts counts them.
//
// Idea: text repeats few pieces very often, most of them short. A direct-mapped cache of 8,192 pieces of at most 7
// bytes stays in the processor's fast caches, needs no good hash, and finds a hit without a branch, so nothing is
// mispredicted; with AVX-512 eight pieces are looked up at once. Encoding has a table of its own (hot_ids.hpp).
// Counting: an entry counts its piece since it was put in; `totals_` says where in the large table that is added when
// it is pushed out.
// Invariants: an empty entry's total is `nothing_`; totals do not move until `settle`, which empties the cache.
// Cost: 64 KiB that are used at every piece, and as much for counts; 64 KiB more for the totals.
#pragma once
#include "count/hash.hpp"

namespace bpe {

class HotPieces {
 public:
  static constexpr size_t kBatch = 1024, kSpare = 8;

  // Looks up a batch: at most kBatch pieces, which follow one another in `text` from `start` and end at `ends`; 8 bytes
  // must be readable where each starts. Writes the slots of those that are here to `found`, and the numbers of the
  // others to `missed`, where kSpare more are overwritten. Returns how many are missed.
  size_t find(const uint8_t* text, size_t start, const uint32_t* ends, size_t pieces, uint32_t* found,
              uint32_t* missed) const;

 protected:
  alignas(64) std::array<uint64_t, kHotSlots> words_{};

 private:
  size_t find_by_eights(const uint8_t* text, size_t start, const uint32_t* ends, size_t pieces, uint32_t* found,
                        uint32_t* missed) const;
};

class HotCounts : public HotPieces {
 public:
  HotCounts() { totals_.fill(&nothing_); }
  HotCounts(const HotCounts&) = delete;
  HotCounts& operator=(const HotCounts&) = delete;

  // Counts the pieces of a batch that are here; of the others as `find`.
  size_t count(const uint8_t* text, size_t start, const uint32_t* ends, size_t pieces, uint32_t* missed) {
    std::array<uint32_t, kBatch + kSpare> found;
    const size_t misses = find(text, start, ends, pieces, found.data(), missed);
    for (size_t n = 0; n < pieces - misses; ++n) ++counts_[found[n]];
    return misses;
  }

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

  std::array<uint64_t, kHotSlots> counts_{};
  std::array<uint64_t*, kHotSlots> totals_;
  uint64_t nothing_ = 0;  // the total of an empty entry
};

// A piece of a batch that was missed, and where a large table has it: a long one's key is its hash and kLongTag.
struct MissedPiece {
  Key key;
  uint64_t home;
};
inline constexpr uint64_t kLongTag = uint64_t{255} << 56;

// Where piece `number` of a batch starts.
inline size_t start_of(size_t start, const uint32_t* ends, size_t number) { return number ? ends[number - 1] : start; }

// Writes the keys of the missed pieces of a batch, and the homes that `home_of` says for a hash; it also fetches them
// ahead. Returns how many pieces are long. 16 bytes must be readable where each starts.
template <class HomeOf>
size_t key_missed(const uint8_t* text, size_t start, const uint32_t* ends, const uint32_t* missed, size_t misses,
                  MissedPiece* pieces, HomeOf&& home_of) {
  size_t longs = 0;
  for (size_t n = 0; n < misses; ++n) {
    const size_t at = start_of(start, ends, missed[n]), size = ends[missed[n]] - at;
    MissedPiece& next = pieces[n];
    uint64_t hash;
    if (size <= kInlineBytes) [[likely]] {
      next.key = key_of_padded(text + at, size);
      hash = hash_key(next.key);
    } else {
      hash = hash_long(text + at, size);
      next.key = {hash, kLongTag};
      ++longs;
    }
    next.home = home_of(hash);
  }
  return longs;
}

}  // namespace bpe
