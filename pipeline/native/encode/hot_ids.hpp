// HotIds: the ids of the pre-tokens that occur most often, up to 15 bytes in, three ids out, found without a branch.
//
// Idea: a direct-mapped cache as HotPreTokens is, with the ids next to the pre-token in one line of memory. Entries are fetched
// for a whole batch before one is read. Pre-tokens of 8 to 15 bytes, a tenth of English, rarely need a larger table.
// Cost: 512 KiB for each thread. One thread at a time.
#pragma once
#include "count/hot_pre_tokens.hpp"
#include "text/targets.hpp"

namespace bpe {

class HotIds {
 public:
  static constexpr size_t kMost = 3;
  // Of a pre-token with more than kMost ids, which are elsewhere, first[0] says where.
  struct Ids {
    std::array<uint32_t, kMost> first;
    uint32_t count;
  };

  // Writes the ids of a batch's pre-tokens: anything for those that are not here. The numbers of these go to `missed`,
  // where one more is overwritten; returns how many they are. As HotPreTokens::find, but 16 bytes must be readable.
  size_t find(const uint8_t* text, size_t start, const uint32_t* ends, size_t pre_tokens, Ids* ids,
              uint32_t* missed) const {
    return run_vectorized<find_in>(entries_.data(), text, start, ends, pre_tokens, ids, missed);
  }

  void enter(const Key& key, const Ids& ids) { entries_[slot_of(key)] = {key, ids}; }

 private:
  static constexpr unsigned kBits = 14;
  struct alignas(32) Entry {
    Key key;
    Ids ids;
  };

  static BPE_EVERYWHERE size_t slot_of(const Key& key) {
    return (key.low * kHotFactor + key.high * detail::kSeed1) >> (64 - kBits);
  }
  static BPE_EVERYWHERE size_t find_in(const Entry* entries, const uint8_t* text, size_t start, const uint32_t* ends,
                                       size_t pre_tokens, Ids* ids, uint32_t* missed) {
    std::array<uint32_t, HotPreTokens::kBatch> sizes;
    sizes[0] = ends[0] - static_cast<uint32_t>(start);
    for (size_t i = 1; i < pre_tokens; ++i) sizes[i] = ends[i] - ends[i - 1];
    for (size_t i = 0; i < pre_tokens; ++i) sizes[i] = std::min<uint32_t>(sizes[i], kInlineBytes + 1);
    std::array<Key, HotPreTokens::kBatch> keys;
    std::array<uint32_t, HotPreTokens::kBatch> slots;
    for (size_t i = 0, at = start; i < pre_tokens; ++i) {
      keys[i] = key_of_padded(text + at, sizes[i]);
      slots[i] = static_cast<uint32_t>(slot_of(keys[i]));
      __builtin_prefetch(entries + slots[i]);
      at = ends[i];
    }
    size_t misses = 0;
    for (size_t i = 0; i < pre_tokens; ++i) {
      const Entry& found = entries[slots[i]];
      ids[i] = found.ids;
      missed[misses] = static_cast<uint32_t>(i);
      misses += ((found.key.low ^ keys[i].low) | (found.key.high ^ keys[i].high)) != 0;
    }
    return misses;
  }

  std::array<Entry, size_t{1} << kBits> entries_{};
};

}  // namespace bpe
