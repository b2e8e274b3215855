// PreTokenTable: pre-token -> number of occurrences, made for many lookups and little memory.
//
// Idea: open addressing in slots of 24 bytes. A pre-token of at most 15 bytes is stored in its slot (see hash.hpp's Key); a
// longer one is its 64-bit hash and a position in the arena, compared byte by byte when the hashes agree. A slot's home
// is its hash scaled to the capacity, so slots are nearly in the order of their hashes, the table grows in place from
// the last slot on, and ordered output sorts only within clusters. Pre-tokens come in batches: count the hot ones (see
// hot_pre_tokens.hpp) unless few were lately, hash and prefetch the others, then probe.
// Slot: low, high, count, 64 bits each. The top byte of `high` is 0 for an empty slot, 1..15 the length of an inline
// pre-token, 255 for a long one, whose `low` is the hash and whose `high` holds the arena position in 56 bits. Counts have
// all their 64 bits; adding past 2^63 - 1 throws.
// Invariants: a slot is at its home or after it with no empty slot between (wrapping at the end); never full. Hot
// pre-tokens point to their slots: before slots move, or counts are read, they are settled.
// Cost: 24 bytes at a load of 1/3 to 1/2 in small tables and 1/2 to 3/4 in large ones, plus the bytes of long pre-tokens
// and 4 each; 224 KiB for hot pre-tokens and batches. While growing, the peak is the new table alone; tables of less than
// 2 MiB are copied.
#pragma once
#include "count/columns.hpp"
#include "count/hash.hpp"
#include "count/hot_pre_tokens.hpp"
#include "count/pages.hpp"

namespace bpe {

class PreTokenTable {
 public:
  static constexpr size_t kBatch = HotPreTokens::kBatch;

  PreTokenTable() { reserve(0); }

  // Counts pre-tokens that follow one another in `text`: the first starts at `start`, pre-token i ends at ends[i]. At most
  // kBatch of them; 16 bytes must be readable after the last.
  void add_batch(const uint8_t* text, size_t start, const uint32_t* ends, size_t pre_tokens);
  // Adds to one pre-token's count. Throws std::overflow_error beyond kMaxCount.
  void add(const uint8_t* pre_token, size_t size, uint64_t count);
  void add_all(PreTokenTable& other);

  size_t size() const { return size_; }
  size_t bytes() const;
  // Bytes at the most while `more` pre-tokens of `pre_token_bytes` bytes together are added, all of them new.
  size_t bytes_with(size_t more, size_t pre_token_bytes) const;
  // Bytes of the arena, where long pre-tokens are.
  size_t arena_bytes() const { return arena_bytes_; }
  // The bytes of the long pre-tokens together: the same however they were added.
  size_t long_bytes() const { return long_bytes_; }
  void clear();

  // The pre-tokens whose hash is in [first, last], in order of hash, then of bytes.
  Columns extract(uint64_t first = 0, uint64_t last = ~uint64_t{0});

 private:
  static constexpr unsigned kBlockBits = 20;
  static constexpr size_t kArenaBlock = size_t{1} << kBlockBits;

  struct Slot {
    uint64_t low, high, count;
  };

  Slot* slots() const { return slots_.data(); }
  uint64_t home(uint64_t hash) const { return scale_hash(hash, capacity_); }
  static bool is_long(const Slot& slot) { return slot.high >> 56 == 255; }
  static uint64_t slot_hash(const Slot& slot) { return is_long(slot) ? slot.low : hash_key({slot.low, slot.high}); }
  const uint8_t* entry(const Slot& slot) const;
  void prefetch_entry(const Slot& slot) const;
  // A short pre-token is in `copy`.
  std::string_view pre_token_of(const Slot& slot, uint8_t (&copy)[16]) const;

  void settle();  // adds the counts of hot pre-tokens to their slots
  void add_missed(const uint8_t* text, size_t start, const uint32_t* ends, size_t misses);
  size_t grown_for(size_t more) const;  // slots
  void reserve(size_t more);
  Slot& find_inline(uint64_t home, Key key);
  Slot& find_long(uint64_t home, uint64_t hash, const uint8_t* pre_token, size_t size);
  uint64_t store(const uint8_t* pre_token, size_t size);
  template <class Visit>
  void visit_range(uint64_t first, uint64_t last, Visit visit) const;

  Array<Slot> slots_;
  size_t capacity_ = 0, size_ = 0, limit_ = 0;
  std::vector<std::unique_ptr<uint8_t[]>> arena_;  // a position is block number << 20 | offset in the block
  size_t arena_used_ = kArenaBlock, arena_bytes_ = 0, long_bytes_ = 0;
  std::unique_ptr<HotCounts> hot_;
  bool hot_in_use_ = false;
  size_t batches_without_ = 0;          // that will still skip hot_
  std::unique_ptr<uint32_t[]> missed_;  // which pre-tokens of a batch were not in hot_
  std::unique_ptr<MissedPreToken[]> pending_;
  size_t short_misses_ = 0;
};

}  // namespace bpe
