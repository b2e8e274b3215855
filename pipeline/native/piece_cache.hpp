// A bounded memory of how short pieces were encoded: up to 15 bytes in, up to 4 ids out, 32 bytes an entry.
//
// Two entries share a cache line and form a bucket; a new entry pushes out the older one of its bucket. The table
// begins small, so that it is dense, and doubles when as many pieces came as it has entries, until the next size would
// not fit beside it in the limit; from then on nothing grows. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "hash.hpp"
#include "pages.hpp"

namespace bpe {

class PieceCache {
 public:
  static constexpr size_t kMaxBytes = kInlineBytes;
  static constexpr size_t kMaxIds = 4;

  struct Entry {
    Key key;  // the piece, its length in the low half of the last byte; the number of ids in the high half
    uint32_t ids[kMaxIds];
    size_t count() const { return key.high >> 60; }
  };

  // `bytes`: upper limit of the memory used; at least one bucket is kept.
  explicit PieceCache(size_t bytes) : limit_(bytes) {
    size_t buckets = kFirstBuckets;
    while (buckets > 1 && buckets * sizeof(Bucket) > bytes) buckets /= 2;
    assign(buckets);
  }

  size_t hash(const Key& key) const { return hash_key(key); }
  void prefetch(uint64_t hash) const { __builtin_prefetch(&buckets_[hash & mask_]); }

  const Entry* find(const Key& key, uint64_t hash) const {
    for (const Entry& entry : buckets_[hash & mask_].entries) {
      if (entry.key.low == key.low && (entry.key.high & kWithoutCount) == key.high) return &entry;
    }
    return nullptr;
  }
  // `count` in 1..kMaxIds.
  void insert(const Key& key, uint64_t hash, const uint32_t* ids, size_t count) {
    if (inserted_++ == 2 * mask_ + 2 && 3 * sizeof(Bucket) * (mask_ + 1) <= limit_) grow();
    Entry& entry = make_room(buckets_[hash & mask_]);
    entry.key = {key.low, key.high | uint64_t{count} << 60};
    std::memcpy(entry.ids, ids, count * sizeof(uint32_t));
  }

 private:
  static constexpr uint64_t kWithoutCount = UINT64_MAX >> 4;
  static constexpr size_t kFirstBuckets = 1024;

  struct Bucket {
    Entry entries[2];
  };
  static Entry& make_room(Bucket& bucket) {
    bucket.entries[1] = bucket.entries[0];
    return bucket.entries[0];
  }
  void assign(size_t buckets) {
    pages_ = Pages((buckets + 1) * sizeof(Bucket));
    const auto address = reinterpret_cast<uintptr_t>(pages_.data());
    buckets_ = reinterpret_cast<Bucket*>((address + sizeof(Bucket) - 1) & ~uintptr_t{sizeof(Bucket) - 1});
    mask_ = buckets - 1;
    inserted_ = 0;
  }
  void grow() {
    const Pages old = std::move(pages_);
    const Bucket* const from = buckets_;
    const size_t buckets = mask_ + 1;
    assign(2 * buckets);
    for (size_t i = 0; i < buckets; ++i) {
      for (size_t side : {1, 0}) {  // the older one first
        const Entry& entry = from[i].entries[side];
        if (entry.count() == 0) continue;
        const Key key{entry.key.low, entry.key.high & kWithoutCount};
        make_room(buckets_[hash(key) & mask_]) = entry;
      }
    }
  }

  Pages pages_;
  Bucket* buckets_ = nullptr;
  size_t mask_ = 0;
  size_t inserted_ = 0;  // since the table has this size
  size_t limit_;
};

}  // namespace bpe
