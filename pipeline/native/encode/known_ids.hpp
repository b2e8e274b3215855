// KnownIds: the ids of pre-tokens of at most 255 bytes that were met, for all threads of an encoder together.
//
// Idea: open addressing in slots of 8 bytes: 32 bits of the pre-token's hash, and where its record is: its bytes, which are
// compared in full, since a hash alone proves nothing, and its ids. What one thread enters the others find without a
// lock: the record is written first, then the slot, if it is still empty, by one comparison and exchange.
// Growth: a full table is copied into one of twice the size, while others read and enter on in the old one. What they
// enter meanwhile may be lost, and is then learned again. At the limit everything is forgotten, and learned again.
// Old tables: a reader names the table it reads in its pin, which is a hazard pointer (M. M. Michael, 2004); a table that
// no pin names is freed. Nothing waits for another thread: where a replaced table is still read, none is made.
// Forks: what threads of the parent had pinned counts for nothing in the child. If one of them was replacing a table, the
// child's stays as large as it is.
// Memory: at most `bytes`: five eighths for records, a quarter for the table, an eighth for the one it was copied from.
// While a replaced table waits for its readers, which is a block long, no memory is taken for further records.
// Cost: two lines of memory a pre-token, which callers with many pre-tokens fetch ahead: all slots first, then all records.
#pragma once
#include <atomic>

#include "count/hot_pre_tokens.hpp"
#include "count/pages.hpp"
#include "text/forks.hpp"

namespace bpe {

class KnownIds {
  // Records: a word with the size and the number of ids, the bytes up to a whole word, the ids, at least kFewIds of them.
  struct Arena {
    Arena(size_t words, uint64_t number) : records(words), words(words), number(number) {}
    Array<uint32_t> records;
    size_t words;
    uint64_t number;
    std::atomic<size_t> used{1};
  };

 public:
  static constexpr size_t kMaxBytes = 255, kFewIds = 4;

  struct Ids {
    const uint32_t* first;  // null: none are known; kFewIds may be read, so that few are copied without a branch
    size_t count;
  };

  class Table {
   public:
    Table(size_t capacity, std::shared_ptr<Arena> arena)
        : slots_(capacity + kOverhang), capacity_(capacity), arena_(std::move(arena)) {}

    // What a pre-token is found by, of its hash; its slot is fetched.
    uint64_t home(uint64_t hash) const {
      __builtin_prefetch(slots_.data() + scale_hash(hash & kTag, capacity_));
      return hash & kTag;
    }
    // Fetches the record of a pre-token whose slot was fetched.
    void prefetch_record(const MissedPreToken& pre_token) const;
    Ids find(const MissedPreToken& pre_token, const uint8_t* bytes, size_t size) const;

   private:
    friend class KnownIds;
    static constexpr size_t kOverhang = 64;  // slots behind the last home; the last one stays empty
    static constexpr uint64_t kTag = ~uint64_t{0} << 32;

    const uint64_t* slot_of(uint64_t tag) const { return slots_.data() + scale_hash(tag, capacity_); }
    const uint32_t* record_of(uint64_t slot) const { return arena_->records.data() + static_cast<uint32_t>(slot); }
    static uint64_t load(const uint64_t* slot) { return __atomic_load_n(slot, __ATOMIC_ACQUIRE); }
    void enter(uint64_t entry);

    Array<uint64_t> slots_;
    size_t capacity_;
    std::atomic<size_t> entries_{0};
    std::shared_ptr<Arena> arena_;
  };

  // What a thread reads with, kept from call to call.
  class Reader {
    friend class KnownIds;
    size_t pin = SIZE_MAX;
    uint32_t forks = 0;  // of the process that it was opened in: a child has none of its own
    Table* table = nullptr;
    uint64_t arena = 0;  // the number of the one in which `left` words from `next` on are its own
    size_t next = 0, left = 0;
  };

  // Below 64 KiB nothing is kept. That many readers at a time.
  KnownIds(size_t bytes, size_t readers);

  // A reader starts to read, under a number that no other has meanwhile; it ends with `close`.
  void open(Reader& reader, size_t number) {
    reader.pin = current_.load(std::memory_order_relaxed) ? number : SIZE_MAX;
    reader.forks = forks.load(std::memory_order_relaxed);
  }
  void close(Reader& reader);
  // The table that is read until the next call; null: nothing is kept.
  const Table* table(Reader& reader);
  // Enters a pre-token that is not in the table that the reader reads. `size`, `count`: 1..kMaxBytes.
  void enter(Reader& reader, const MissedPreToken& pre_token, const uint8_t* bytes, size_t size, const uint32_t* ids,
             size_t count);

 private:
  struct Pin {
    std::atomic<uint32_t> forks{0};
    std::atomic<const Table*> table{nullptr};
  };

  bool lock();
  void unlock() { lock_.store(0, std::memory_order_release); }
  void free_retired();
  void replace(const Table& full, bool forget);
  std::shared_ptr<Arena> new_arena() { return std::make_shared<Arena>(arena_words_, ++arenas_); }

  size_t arena_words_, most_slots_;
  uint64_t arenas_ = 0;
  std::vector<Pin> pins_;
  std::atomic<Table*> current_{nullptr};
  std::unique_ptr<Table> owned_;
  std::atomic<uintptr_t> lock_{0};  // of the thread that replaces a table: 0, or an odd mark of its process
  std::vector<std::unique_ptr<Table>> retired_;
  std::atomic<bool> retiring_{false};
};

}  // namespace bpe
