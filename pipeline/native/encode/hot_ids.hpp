// The pieces that come again and again: up to 7 bytes in, one or two ids out, told hit from miss without a branch.
//
// Idea: text repeats few pieces very often, most of them short and one token each. A direct-mapped table of 8,192
// entries stays in the processor's fast caches and is asked for a whole block of pieces before anything else is done.
// Every fourth piece that asks for a place gets it, so that rare pieces seldom push out frequent ones.
// Cost: 128 KiB for each thread. One thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "count/hash.hpp"

namespace bpe {

class HotIds {
 public:
  static constexpr size_t kMaxBytes = 7;
  static constexpr uint32_t kNoId = UINT32_MAX;

  struct Ids {
    uint32_t first = kNoId, second = kNoId;
    size_t has_second() const { return static_cast<size_t>(second != kNoId); }
  };

  // The bytes and the length of a piece in one word, of the 8 bytes at its beginning; of a longer one, anything.
  static uint64_t word_of(uint64_t beginning, size_t size) {
    return (beginning & kMasks[size % kMasks.size()]) | uint64_t{size} << 56;
  }

  // Writes the ids that the piece may have; 1 if it has them.
  size_t find(uint64_t word, size_t size, Ids& ids) const {
    const Entry& entry = entries_[place(word)];
    ids = entry.ids;
    return static_cast<size_t>(entry.word == word) & static_cast<size_t>(size <= kMaxBytes);
  }

  // A piece asks for a place, which it may have with at most kMaxBytes and one or two ids.
  void offer(const Key& key, size_t size, const uint32_t* ids, size_t count) {
    if ((++offers_ & 3) != 0 || size > kMaxBytes || count > 2) return;
    const uint64_t word = key.low | uint64_t{size} << 56;
    entries_[place(word)] = {word, {ids[0], count > 1 ? ids[1] : kNoId}};
  }

 private:
  static constexpr unsigned kBits = 13;
  static constexpr std::array<uint64_t, kMaxBytes + 1> kMasks = [] {
    std::array<uint64_t, kMaxBytes + 1> masks{};
    for (size_t size = 0; size < masks.size(); ++size) masks[size] = (uint64_t{1} << 8 * size) - 1;
    return masks;
  }();
  struct Entry {
    uint64_t word = 0;  // of no piece
    Ids ids;
  };
  static size_t place(uint64_t word) { return (word * 0x9e6c63d0876a9a47) >> (64 - kBits); }

  std::array<Entry, size_t{1} << kBits> entries_;
  uint32_t offers_ = 0;
};

}  // namespace bpe
