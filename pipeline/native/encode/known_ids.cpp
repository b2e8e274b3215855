#include "encode/known_ids.hpp"

namespace bpe {
namespace {

constexpr size_t kLeastBytes = 64 << 10, kFirstSlots = 4096;
constexpr size_t kBlockWords = 16 << 10;  // of records, taken by a reader at once

constexpr size_t words_of(size_t bytes) { return (bytes + 3) / 4; }

}  // namespace

void KnownIds::Table::prefetch_record(const MissedPreToken& pre_token) const {
  for (const uint64_t* slot = slot_of(pre_token.home);; ++slot) {
    const uint64_t entry = load(slot);
    if ((entry & kTag) != pre_token.home && entry != 0) continue;
    __builtin_prefetch(record_of(entry));
    return;
  }
}

KnownIds::Ids KnownIds::Table::find(const MissedPreToken& pre_token, const uint8_t* bytes, size_t size) const {
  for (const uint64_t* slot = slot_of(pre_token.home);; ++slot) {
    const uint64_t entry = load(slot);
    if (entry == 0) return {nullptr, 0};
    if ((entry & kTag) != pre_token.home) continue;
    const uint32_t* const record = record_of(entry);
    if (record[0] >> 8 != size) continue;
    const auto* const kept = reinterpret_cast<const uint8_t*>(record + 1);
    if (size > kInlineBytes) {
      if (std::memcmp(kept, bytes, size) != 0) continue;
    } else {
      const Key key = key_of_padded(kept, size);
      if (((key.low ^ pre_token.key.low) | (key.high ^ pre_token.key.high)) != 0) continue;
    }
    return {record + 1 + words_of(size), record[0] & 255};
  }
}

// Nothing where no slot is left.
void KnownIds::Table::enter(uint64_t entry) {
  uint64_t* const last = slots_.data() + capacity_ + kOverhang - 1;
  for (uint64_t* slot = slots_.data() + scale_hash(entry & kTag, capacity_); slot != last; ++slot) {
    uint64_t empty = 0;
    if (__atomic_compare_exchange_n(slot, &empty, entry, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
      entries_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
  }
}

KnownIds::KnownIds(size_t bytes, size_t readers)
    : arena_words_(std::min<size_t>(bytes / 8 * 5 / sizeof(uint32_t), UINT32_MAX)),
      most_slots_(bytes / 4 / sizeof(uint64_t)),
      pins_(readers) {
  if (bytes < kLeastBytes) return;
  owned_ = std::make_unique<Table>(std::min(kFirstSlots, most_slots_), new_arena());
  current_.store(owned_.get(), std::memory_order_relaxed);
}

void KnownIds::close(Reader& reader) {
  if (!reader.table) return;
  reader.table = nullptr;
  pins_[reader.pin].table.store(nullptr, std::memory_order_release);
}

const KnownIds::Table* KnownIds::table(Reader& reader) {
  if (reader.pin == SIZE_MAX || reader.forks != forks.load(std::memory_order_relaxed)) return nullptr;
  Table* seen = current_.load(std::memory_order_acquire);
  if (seen != reader.table) {
    Pin& pin = pins_[reader.pin];
    pin.forks.store(reader.forks, std::memory_order_relaxed);
    do {
      reader.table = seen;
      pin.table.store(seen);
      seen = current_.load();
    } while (seen != reader.table);
  }
  if (retiring_.load(std::memory_order_relaxed) && lock()) {
    free_retired();
    unlock();
  }
  return seen;
}

void KnownIds::enter(Reader& reader, const MissedPreToken& pre_token, const uint8_t* bytes, size_t size,
                     const uint32_t* ids, size_t count) {
  Table& table = *reader.table;
  if (current_.load(std::memory_order_relaxed) != &table) return;  // in the next batch
  if (table.entries_.load(std::memory_order_relaxed) >= table.capacity_ / 8 * 5) return replace(table, false);
  Arena& arena = *table.arena_;
  const size_t needed = 1 + words_of(size) + std::max(count, kFewIds);
  if (reader.arena != arena.number || reader.left < needed) {
    if (retiring_.load(std::memory_order_relaxed)) return;
    const size_t block = std::min(kBlockWords, arena.words / 8), next = arena.used.fetch_add(block);
    if (next + block > arena.words) return replace(table, true);
    reader.arena = arena.number;
    reader.next = next;
    reader.left = block;
  }
  uint32_t* const record = arena.records.data() + reader.next;
  record[0] = static_cast<uint32_t>(size << 8 | count);
  std::memcpy(record + 1, bytes, size);
  std::memcpy(record + 1 + words_of(size), ids, count * sizeof *ids);
  table.enter(pre_token.home | reader.next);
  reader.next += needed;
  reader.left -= needed;
}

bool KnownIds::lock() {
  uintptr_t free = 0;
  return lock_.compare_exchange_strong(free, 2 * uintptr_t{forks.load(std::memory_order_relaxed)} + 1,
                                       std::memory_order_acquire);
}

void KnownIds::free_retired() {
  const uint32_t now = forks.load(std::memory_order_relaxed);
  std::erase_if(retired_, [&](const std::unique_ptr<Table>& table) {
    return std::ranges::none_of(pins_, [&](const Pin& pin) {
      return pin.table.load() == table.get() && pin.forks.load(std::memory_order_relaxed) == now;
    });
  });
  retiring_.store(!retired_.empty(), std::memory_order_relaxed);
}

// Puts a larger table in the place of a full one, or an empty one where there is no room for that.
void KnownIds::replace(const Table& full, bool forget) {
  if (!lock()) return;
  const std::unique_ptr<KnownIds, void (*)(KnownIds*)> until(this, [](KnownIds* self) { self->unlock(); });
  free_retired();
  if (owned_.get() != &full || !retired_.empty()) return;
  const size_t doubled = std::min(2 * full.capacity_, most_slots_);
  forget |= doubled < full.capacity_ / 4 * 5;
  const size_t first = std::min(kFirstSlots, most_slots_);
  auto made = std::make_unique<Table>(forget ? first : doubled, forget ? new_arena() : full.arena_);
  for (size_t at = 0; !forget && at < full.capacity_ + Table::kOverhang; ++at)
    if (const uint64_t entry = Table::load(full.slots_.data() + at)) made->enter(entry);
  current_.store(made.get());
  std::swap(owned_, made);
  retired_.push_back(std::move(made));
  retiring_.store(true, std::memory_order_relaxed);
}

}  // namespace bpe
