// HotIds: the ids of the pieces that occur most often, up to 7 bytes in, one or two ids out, found without a branch.
//
// Idea: HotPieces, as counting uses them, with ids in place of counts. Every fourth piece that is offered is entered, so
// that rare pieces seldom push out frequent ones.
// Cost: 128 KiB for each thread. One thread at a time.
#pragma once
#include "count/hot_pieces.hpp"

namespace bpe {

class HotIds : public HotPieces {
 public:
  // Writes the ids of the pieces in `found` slots end to end, with room for one more, and to `ends` where those of each
  // end; returns how many there are.
  size_t write(const uint32_t* found, size_t hits, uint32_t* ids, uint32_t* ends) const {
    size_t written = 0;
    for (size_t n = 0; n < hits; ++n) {
      const Ids& known = ids_[found[n]];
      std::memcpy(ids + written, &known, sizeof known);
      written += 1 + static_cast<size_t>(known.second != kNoId);
      ends[n] = static_cast<uint32_t>(written);
    }
    return written;
  }

  // Enters one of four pieces of at most kHotBytes that have one or two ids.
  void offer(const Key& key, const uint32_t* ids, size_t count) {
    if ((++offers_ & 3) != 0 || count > 2) return;
    const uint64_t word = key.low | key.high;
    words_[hot_slot(word)] = word;
    ids_[hot_slot(word)] = {ids[0], count > 1 ? ids[1] : kNoId};
  }

 private:
  static constexpr uint32_t kNoId = UINT32_MAX;
  struct Ids {
    uint32_t first = kNoId, second = kNoId;
  };
  std::array<Ids, kHotSlots> ids_;
  uint32_t offers_ = 0;
};

}  // namespace bpe
