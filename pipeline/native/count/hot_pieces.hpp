// HotPieces: counts the short pieces that come again and again, so that most pieces never reach the large table.
//
// Idea: text repeats few pieces very often, most of them short. A direct-mapped cache of 8,192 pieces of at most 7
// bytes stays in the processor's fast caches, needs no good hash, and tells a hit without a branch, so nothing is
// mispredicted. An entry counts what it has met since it was put in; `totals_` knows where in the large table that is
// added when it goes.
// Invariants: an entry without a total is empty, and its count means nothing; totals stay where they are until
// `settle`, which empties the cache.
// Cost: 192 KiB, of which 128 are used at every piece.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "count/hash.hpp"

namespace bpe {

class HotPieces {
 public:
  static constexpr size_t kMaxBytes = 7;

  // The bytes and the length of a piece in one word; of a longer one, anything.
  static uint64_t word_of(const uint8_t* piece, size_t size) {
    const unsigned bits = 8 * size & 63;
    return (load64(piece) & ((uint64_t{1} << bits) - 1)) | uint64_t{size} << 56;
  }
  static uint64_t word_of(Key key) { return key.low | key.high; }

  // 1 if the piece is here, and is counted so; otherwise 0.
  size_t count(const uint8_t* piece, size_t size) {
    const uint64_t word = word_of(piece, size);
    Entry& entry = entries_[place_of(word)];
    const size_t hit = static_cast<size_t>(entry.word == word) & static_cast<size_t>(size <= kMaxBytes);
    entry.count += hit;
    return hit;
  }

  // A piece of at most kMaxBytes asks for a place, where its count will be added to `total`. One that was met often
  // since it was last asked keeps its place.
  void put(uint64_t word, uint64_t& total) {
    const size_t place = place_of(word);
    Entry& entry = entries_[place];
    if (totals_[place]) *totals_[place] += entry.count;
    if (!totals_[place] || entry.count <= kFew) {
      entry.word = word;
      totals_[place] = &total;
    }
    entry.count = 0;
  }

  // Adds all counts to their totals and forgets the pieces.
  void settle() {
    for (size_t place = 0; place < entries_.size(); ++place)
      if (totals_[place]) *totals_[place] += entries_[place].count;
    entries_.fill({});
    totals_.fill(nullptr);
  }

 private:
  static constexpr unsigned kBits = 13;
  static constexpr uint64_t kFew = 2;
  struct Entry {
    uint64_t word = 0;
    uint64_t count = 0;
  };

  static size_t place_of(uint64_t word) { return (word * 0x9e6c63d0876a9a47) >> (64 - kBits); }

  std::array<Entry, size_t{1} << kBits> entries_;
  std::array<uint64_t*, size_t{1} << kBits> totals_{};
};

}  // namespace bpe
