// HotPreTokens: the most frequent short pre-tokens, so that most pre-tokens never reach a large table. HotCounts counts them.
//
// Idea: text repeats few pre-tokens very often, most of them short. A direct-mapped cache of 8,192 pre-tokens of at most 7
// bytes stays in the processor's fast caches, needs no good hash, and finds a hit without a branch, so nothing is
// mispredicted; with AVX-512 eight pre-tokens are looked up at once. Encoding has a table of its own (hot_ids.hpp).
// Counting: an entry counts its pre-token since it was put in; `totals_` says where in the large table that is added when
// it is pushed out.
// Invariants: an empty entry's total is `nothing_`; totals do not move until `settle`, which empties the cache.
// Cost: 64 KiB that are used at every pre-token, and as much for counts; 64 KiB more for the totals.
#pragma once
#include "count/hash.hpp"

namespace bpe {

class HotPreTokens {
 public:
  static constexpr size_t kBatch = 1024, kSpare = 8;

  // Looks up a batch: at most kBatch pre-tokens, which follow one another in `text` from `start` and end at `ends`; 8 bytes
  // must be readable where each starts. Writes the slots of those that are here to `found`, and the numbers of the
  // others to `missed`, where kSpare more are overwritten. Returns how many are missed.
  size_t find(const uint8_t* text, size_t start, const uint32_t* ends, size_t pre_tokens, uint32_t* found,
              uint32_t* missed) const;

 protected:
  alignas(64) std::array<uint64_t, kHotSlots> words_{};

 private:
  size_t find_by_eights(const uint8_t* text, size_t start, const uint32_t* ends, size_t pre_tokens, uint32_t* found,
                        uint32_t* missed) const;
};

class HotCounts : public HotPreTokens {
 public:
  HotCounts() { totals_.fill(&nothing_); }
  HotCounts(const HotCounts&) = delete;
  HotCounts& operator=(const HotCounts&) = delete;

  // Counts the pre-tokens of a batch that are here; of the others as `find`.
  size_t count(const uint8_t* text, size_t start, const uint32_t* ends, size_t pre_tokens, uint32_t* missed) {
    std::array<uint32_t, kBatch + kSpare> found;
    const size_t misses = find(text, start, ends, pre_tokens, found.data(), missed);
    for (size_t n = 0; n < pre_tokens - misses; ++n) ++counts_[found[n]];
    return misses;
  }

  // A pre-token of at most kHotBytes asks for a slot; later its count will be added to `total`. One that was met often
  // since it was last asked keeps its place.
  void put(uint64_t word, uint64_t& total) {
    const size_t slot = hot_slot(word);
    *totals_[slot] += counts_[slot];
    const bool keeps = counts_[slot] > kFew;
    words_[slot] = keeps ? words_[slot] : word;
    totals_[slot] = keeps ? totals_[slot] : &total;
    counts_[slot] = 0;
  }

  // Adds all counts to their totals and forgets the pre-tokens.
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

// A pre-token of a batch that was missed, and where a large table has it: a long one's key is its hash and kLongTag.
struct MissedPreToken {
  Key key;
  uint64_t home;
};
inline constexpr uint64_t kLongTag = uint64_t{255} << 56;

// Where pre-token `number` of a batch starts.
inline size_t start_of(size_t start, const uint32_t* ends, size_t number) { return number ? ends[number - 1] : start; }

// Writes the keys of the missed pre-tokens of a batch, and the homes that `home_of` says for a hash; it also fetches them
// ahead. Returns how many pre-tokens are long. 16 bytes must be readable where each starts.
template <class HomeOf>
size_t key_missed(const uint8_t* text, size_t start, const uint32_t* ends, const uint32_t* missed, size_t misses,
                  MissedPreToken* pre_tokens, HomeOf&& home_of) {
  size_t longs = 0;
  for (size_t n = 0; n < misses; ++n) {
    const size_t at = start_of(start, ends, missed[n]), size = ends[missed[n]] - at;
    MissedPreToken& next = pre_tokens[n];
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
