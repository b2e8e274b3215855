// PieceCache: a bounded cache of the ids of short pieces, up to 15 bytes in, up to 4 ids out, 32 bytes an entry.
//
// Idea: two entries fill a cache line, two lines are a bucket. The hash names a line; nearly every piece is found in
// it, without a branch between its entries, and a caller with many pieces fetches their lines ahead. A new entry takes
// a free slot of its line, then one of the other line, and otherwise pushes out the older entry of its own. The table
// starts small and doubles when it is half full, until the next size would not fit into the limit together with it;
// then it stays. One thread at a time.
#pragma once
#include "count/hash.hpp"
#include "count/pages.hpp"

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
    size_t lines = kFirstLines;
    while (lines > 2 && lines * sizeof(Line) > bytes) lines /= 2;
    assign(lines);
  }

  // The key of a piece of any size, of which `readable` bytes may be read; of a longer one, a key that is never found.
  static Key key_of_any(const uint8_t* piece, size_t size, size_t readable) {
    size = std::min(size, kMaxBytes + 1);
    return readable >= 16 ? key_of_padded(piece, size) : key_of(piece, size);
  }
  static uint64_t hash(const Key& key) { return detail::fold(key.low ^ detail::kSeed1, key.high ^ detail::kSeed2); }
  void prefetch(uint64_t hash) const { __builtin_prefetch(&lines_[hash & mask_]); }

  // The piece's entry in the line that its hash names.
  const Entry* find(const Key& key, uint64_t hash) const { return find_in(lines_[hash & mask_], key); }
  // Its entry in the other line.
  const Entry* find_aside(const Key& key, uint64_t hash) const { return find_in(lines_[(hash & mask_) ^ 1], key); }

  // A piece that is not here. `count` in 1..kMaxIds.
  void insert(const Key& key, uint64_t hash, const uint32_t* ids, size_t count) {
    if (entries_ > mask_ && 3 * sizeof(Line) * (mask_ + 1) <= limit_) grow();
    Entry entry{{key.low, key.high | uint64_t{count} << 60}, {}};
    std::memcpy(entry.ids, ids, count * sizeof(uint32_t));
    put(entry, hash);
  }

 private:
  static constexpr uint64_t kWithoutCount = UINT64_MAX >> 4;
  static constexpr size_t kFirstLines = 1024;
  struct Line {
    Entry entries[2];  // the newer first
  };
  static const Entry* find_in(const Line& line, const Key& key) {
    const auto is = [&key](const Entry& entry) {
      return ((entry.key.low ^ key.low) | ((entry.key.high & kWithoutCount) ^ key.high)) == 0;
    };
    const bool second = is(line.entries[1]);
    if (!(second | is(line.entries[0]))) return nullptr;
    return line.entries + static_cast<size_t>(second);
  }
  void put(const Entry& entry, uint64_t hash) {
    Line& line = lines_[hash & mask_];
    Line& other = lines_[(hash & mask_) ^ 1];
    const bool full = line.entries[1].count() != 0;
    if (full && other.entries[1].count() == 0) {
      other.entries[1] = entry;
    } else {
      line.entries[1] = line.entries[0];
      line.entries[0] = entry;
    }
    ++entries_;
  }
  void assign(size_t lines) {
    pages_ = Pages((lines + 1) * sizeof(Line));
    const auto address = reinterpret_cast<uintptr_t>(pages_.data());
    lines_ = reinterpret_cast<Line*>((address + sizeof(Line) - 1) & ~uintptr_t{sizeof(Line) - 1});
    mask_ = lines - 1;
    entries_ = 0;
  }
  void grow() {
    const Pages old = std::move(pages_);
    const Line* const from = lines_;
    const size_t lines = mask_ + 1;
    assign(2 * lines);
    for (size_t i = 0; i < lines; ++i) {
      for (size_t side : {1, 0}) {  // the older one first
        const Entry& entry = from[i].entries[side];
        if (entry.count() != 0) put(entry, hash({entry.key.low, entry.key.high & kWithoutCount}));
      }
    }
  }

  Pages pages_;
  Line* lines_ = nullptr;
  size_t mask_ = 0;
  size_t entries_ = 0;  // put into a table of this size
  size_t limit_;
};

}  // namespace bpe
