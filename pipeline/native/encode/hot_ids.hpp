// HotIds: the ids of the pieces that occur most often, up to 7 bytes in, one or two ids out, found without a branch.
//
// Idea: text repeats few pieces very often, most of them short and one token each. A direct-mapped table of 8,192
// entries stays in the processor's fast caches and is asked for a whole block of pieces before anything else is done.
// Every fourth piece that is offered is entered, so that rare pieces seldom push out frequent ones.
// Cost: 128 KiB for each thread. One thread at a time.
#pragma once
#include "count/hash.hpp"

namespace bpe {

class HotIds {
 public:
  static constexpr uint32_t kNoId = UINT32_MAX;

  struct Ids {
    uint32_t first = kNoId, second = kNoId;
    size_t has_second() const { return static_cast<size_t>(second != kNoId); }
  };

  // Writes the ids that the piece (see hot_word) may have; 1 if it has them.
  size_t find(uint64_t word, size_t size, Ids& ids) const {
    const Entry& entry = entries_[hot_slot(word)];
    ids = entry.ids;
    return static_cast<size_t>(entry.word == word) & static_cast<size_t>(size <= kHotBytes);
  }

  // Enters one of four pieces that have at most kHotBytes and one or two ids.
  void offer(const Key& key, size_t size, const uint32_t* ids, size_t count) {
    if ((++offers_ & 3) != 0 || size > kHotBytes || count > 2) return;
    const uint64_t word = hot_word(key.low, size);
    entries_[hot_slot(word)] = {word, {ids[0], count > 1 ? ids[1] : kNoId}};
  }

 private:
  struct Entry {
    uint64_t word = 0;  // of no piece
    Ids ids;
  };
  std::array<Entry, kHotSlots> entries_;
  uint32_t offers_ = 0;
};

}  // namespace bpe
