// LongPieceCache: a bounded cache of the ids of longer pieces, and of short ones with many ids.
//
// Idea: records (ids, then the piece's bytes) follow one another in a ring; a new one overwrites the oldest. An index
// of buckets of four slots finds them by a 64-bit hash, and the bytes are compared in full: a hash alone proves
// nothing. Positions never wrap, so a slot whose record was overwritten is known by its position. Pieces above
// kMaxBytes are not kept. The index doubles as records come, up to its part of the limit. A caller with many pieces
// fetches first all buckets, then all records. One thread at a time.
#pragma once
#include "count/pages.hpp"

namespace bpe {

class LongPieceCache {
 public:
  static constexpr size_t kMaxBytes = 255;  // hence at most as many ids

  // `bytes`: upper limit of the memory used; below 64 KiB nothing is kept.
  explicit LongPieceCache(size_t bytes)
      : most_buckets_(std::bit_floor(bytes / 4 / sizeof(Bucket) + 1)),
        ring_words_(bytes < kLeast ? 0 : bytes / 8 * 5 / 4) {}

  void prefetch(uint64_t hash) const {
    if (!index_.empty()) __builtin_prefetch(&index_[hash & mask_]);
  }

  // Fetches the record of a piece whose bucket was fetched.
  void prefetch_record(uint64_t hash) const {
    if (index_.empty()) return;
    for (const Slot& slot : index_[hash & mask_].slots) {
      if (slot.hash != hash || !alive(slot)) continue;
      const auto* const record = reinterpret_cast<const char*>(record_of(slot));
      __builtin_prefetch(record);
      __builtin_prefetch(record + kLineBytes);
    }
  }

  // The ids of a piece; empty if they are not here.
  std::span<const uint32_t> find(const uint8_t* piece, size_t size, uint64_t hash) const {
    if (index_.empty()) return {};
    for (const Slot& slot : index_[hash & mask_].slots) {
      if (slot.hash != hash || slot.bytes() != size || !alive(slot)) continue;
      const uint32_t* const record = record_of(slot);
      if (std::memcmp(record + slot.ids(), piece, size) == 0) return {record, slot.ids()};
    }
    return {};
  }

  // `size` and `count` in 1..kMaxBytes.
  void insert(const uint8_t* piece, size_t size, uint64_t hash, const uint32_t* ids, size_t count) {
    if (ring_words_ == 0) return;
    if (index_.empty() || (records_ > 2 * index_.size() && index_.size() < most_buckets_)) grow();
    const size_t words = count + (size + 3) / 4;
    if (lap_ + ring_words_ - head_ < words) head_ = lap_ += ring_words_;  // a record is in one part
    uint32_t* const record = ring() + (head_ - lap_);
    Bucket& bucket = index_[hash & mask_];
    Slot* oldest = &bucket.slots[0];
    for (Slot& slot : bucket.slots) {
      if (slot.place < oldest->place) oldest = &slot;  // an empty one before all others
    }
    *oldest = {hash, head_ << 16 | size << 8 | count};
    std::memcpy(record, ids, count * sizeof(uint32_t));
    std::memcpy(record + count, piece, size);
    head_ += words;
    ++records_;
  }

 private:
  static constexpr size_t kLeast = 64 << 10;
  static constexpr size_t kFirstBuckets = 64, kLineBytes = 64;

  struct Slot {
    uint64_t hash = 0;
    uint64_t place = 0;  // position of the record's first word << 16 | bytes << 8 | ids; 0: empty
    uint64_t position() const { return place >> 16; }
    size_t bytes() const { return place >> 8 & 255; }
    size_t ids() const { return place & 255; }
  };
  struct alignas(kLineBytes) Bucket {
    Slot slots[4];
  };

  bool alive(const Slot& slot) const { return slot.place != 0 && head_ - slot.position() <= ring_words_; }
  uint32_t* ring() const { return static_cast<uint32_t*>(ring_.data()); }
  // Of a slot that is alive.
  const uint32_t* record_of(const Slot& slot) const {
    return ring() + (slot.position() - lap_ + (slot.position() < lap_ ? ring_words_ : 0));
  }

  void grow() {
    if (!ring_.data()) ring_ = Pages(ring_words_ * sizeof(uint32_t));
    std::vector<Bucket> wider(index_.empty() ? std::min(kFirstBuckets, most_buckets_) : 2 * index_.size());
    const size_t mask = wider.size() - 1;
    for (const Bucket& bucket : index_) {
      for (const Slot& slot : bucket.slots) {
        if (!alive(slot)) continue;
        for (Slot& place : wider[slot.hash & mask].slots) {
          if (place.place != 0) continue;
          place = slot;
          break;
        }
      }
    }
    index_ = std::move(wider);
    mask_ = mask;
  }

  size_t most_buckets_;  // with the index from which it grows, three eighths of the limit
  size_t ring_words_;    // five eighths
  std::vector<Bucket> index_;
  size_t mask_ = 0;
  Pages ring_;
  uint64_t head_ = 0;    // the next record's position
  uint64_t lap_ = 0;     // the position of the ring's first word, since it was written last
  size_t records_ = 0;   // ever made
};

}  // namespace bpe
