// A bounded memory of how short pieces were encoded: up to 15 bytes in, up to 4 ids out, 32 bytes an entry.
//
// Two entries share a cache line and form a bucket; a new entry pushes out the older one of its bucket, so nothing
// ever grows, is rehashed or is swept. Pages that no piece falls on are never touched. One thread at a time.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace bpe {

class PieceCache {
 public:
  static constexpr size_t kMaxBytes = 15;
  static constexpr size_t kMaxIds = 4;

  // The piece, its length in the low half of the last byte; the number of ids in the high half of an entry's.
  struct Key {
    uint64_t low, high;
  };
  struct Entry {
    Key key;
    uint32_t ids[kMaxIds];
    size_t count() const { return key.high >> 60; }
  };

  // `bytes`: upper limit of the memory used; at least one bucket is kept.
  explicit PieceCache(size_t bytes) {
    const size_t buckets = std::bit_floor(bytes / sizeof(Bucket) > 1 ? bytes / sizeof(Bucket) : 1);
    mask_ = buckets - 1;
    memory_.reset(std::calloc(buckets + 1, sizeof(Bucket)));
    if (!memory_) throw std::bad_alloc();
    const auto address = reinterpret_cast<uintptr_t>(memory_.get());
    buckets_ = reinterpret_cast<Bucket*>((address + alignof(Bucket) - 1) & ~uintptr_t{alignof(Bucket) - 1});
  }

  // `size` in 1..kMaxBytes.
  static Key key(const uint8_t* piece, size_t size) {
    uint8_t raw[16] = {};
    std::memcpy(raw, piece, size);
    return sealed(raw, size);
  }
  // The same where 16 bytes may be read from `piece`.
  static Key key_with_room(const uint8_t* piece, size_t size) {
    alignas(16) static constexpr uint8_t kMask[32] = {255, 255, 255, 255, 255, 255, 255, 255,
                                                      255, 255, 255, 255, 255, 255, 255, 255};
    uint64_t raw[2], mask[2];
    std::memcpy(raw, piece, 16);
    std::memcpy(mask, kMask + 16 - size, 16);
    raw[0] &= mask[0];
    raw[1] &= mask[1];
    return sealed(reinterpret_cast<uint8_t*>(raw), size);
  }

  size_t place(const Key& key) const {
    uint64_t mixed = (key.low ^ 0x9E3779B97F4A7C15u) * 0xD6E8FEB86659FD93u;
    mixed ^= std::rotl(key.high, 29) * 0xA0761D6478BD642Fu;
    mixed ^= mixed >> 32;
    mixed *= 0xE7037ED1A0B428DBu;
    return (mixed ^ mixed >> 29) & mask_;
  }
  void prefetch(size_t place) const { __builtin_prefetch(&buckets_[place]); }

  const Entry* find(const Key& key, size_t place) const {
    for (const Entry& entry : buckets_[place].entries) {
      if (entry.key.low == key.low && (entry.key.high & kWithoutCount) == key.high) return &entry;
    }
    return nullptr;
  }
  // `count` in 1..kMaxIds.
  void insert(const Key& key, size_t place, const uint32_t* ids, size_t count) {
    Bucket& bucket = buckets_[place];
    bucket.entries[1] = bucket.entries[0];
    bucket.entries[0].key = {key.low, key.high | uint64_t{count} << 60};
    std::memcpy(bucket.entries[0].ids, ids, count * sizeof(uint32_t));
  }

 private:
  static_assert(std::endian::native == std::endian::little);
  static constexpr uint64_t kWithoutCount = UINT64_MAX >> 4;

  static Key sealed(uint8_t* raw, size_t size) {
    raw[15] = static_cast<uint8_t>(size);
    Key key;
    std::memcpy(&key, raw, 16);
    return key;
  }

  struct alignas(64) Bucket {
    Entry entries[2];
  };
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  Bucket* buckets_ = nullptr;
  size_t mask_ = 0;
};

}  // namespace bpe
