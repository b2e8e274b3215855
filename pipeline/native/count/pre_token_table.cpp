#include "count/pre_token_table.hpp"

#include <numeric>
#include <utility>

namespace bpe {
namespace {

constexpr size_t kLengthBytes = sizeof(uint32_t);
constexpr uint64_t kPlaceMask = (uint64_t{1} << 56) - 1;
constexpr size_t kFewLongs = 16;        // of a batch
constexpr size_t kSampled = 4;          // one of that many misses becomes hot
constexpr size_t kBatchesWithout = 24;  // that skip the hot pre-tokens after a batch with few
constexpr size_t kTellingBatch = 64;    // pre-tokens of a batch that is a sample of the text
constexpr size_t kAhead = 24;           // slots that a prefetch runs ahead
constexpr size_t kLeastCapacity = 4096, kSmallCapacity = size_t{1} << 20;
constexpr size_t kHugeCapacity = Pages::kHuge / 24;  // slots of a huge page

// The most pre-tokens in `capacity` slots: small tables can afford the speed of a low load. Two huge pages follow one.
constexpr size_t most_pre_tokens(size_t capacity) {
  if (capacity == kHugeCapacity) return capacity / 5 * 3;
  return capacity <= kSmallCapacity ? capacity / 2 : capacity / 4 * 3;
}

void check_pre_token(size_t size) {
  if (size == 0) throw std::invalid_argument("a pre-token is empty");
  if (size > kMaxPieceBytes)
    throw std::length_error("a pre-token of " + std::to_string(size) + " bytes is longer than the limit of 1 GiB");
}

}  // namespace

// Where a long pre-token is stored: its length, then its bytes.
const uint8_t* PreTokenTable::entry(const Slot& slot) const {
  const uint64_t place = slot.high & kPlaceMask;
  return arena_[place >> kBlockBits].get() + (place & (kArenaBlock - 1));
}

void PreTokenTable::prefetch_entry(const Slot& slot) const {
  const uint8_t* const place = entry(slot);
  __builtin_prefetch(place);
  __builtin_prefetch(place + 64);
}

std::string_view PreTokenTable::pre_token_of(const Slot& slot, uint8_t (&copy)[16]) const {
  if (is_long(slot)) {
    uint32_t length;
    std::memcpy(&length, entry(slot), kLengthBytes);
    return {reinterpret_cast<const char*>(entry(slot)) + kLengthBytes, length};
  }
  store64(copy, slot.low);
  store64(copy + 8, slot.high);
  return {reinterpret_cast<const char*>(copy), slot.high >> 56};
}

uint64_t PreTokenTable::store(const uint8_t* pre_token, size_t size) {
  const size_t wanted = kLengthBytes + size;
  if (arena_used_ + wanted > kArenaBlock) {
    // A pre-token longer than a block has a block of its own, which is then full.
    const size_t bytes = std::max(wanted, kArenaBlock);
    arena_.push_back(std::make_unique_for_overwrite<uint8_t[]>(bytes));
    arena_bytes_ += bytes;
    arena_used_ = 0;
  }
  uint8_t* const stored = arena_.back().get() + arena_used_;
  const uint64_t place = uint64_t{arena_.size() - 1} << kBlockBits | arena_used_;
  const auto length = static_cast<uint32_t>(size);
  std::memcpy(stored, &length, kLengthBytes);
  std::memcpy(stored + kLengthBytes, pre_token, size);
  arena_used_ += wanted;
  long_bytes_ += size;
  return place;
}

size_t PreTokenTable::bytes() const {
  const size_t batch = hot_ ? sizeof *hot_ + kBatch * (sizeof(MissedPreToken) + sizeof(uint32_t)) : 0;
  return capacity_ * sizeof(Slot) + arena_bytes_ + batch;
}

size_t PreTokenTable::bytes_with(size_t more, size_t pre_token_bytes) const {
  size_t total = bytes();
  if (size_ + more > limit_) {
    // Copied where it is small or the system cannot move it.
    total += (grown_for(more) - capacity_) * sizeof(Slot) + std::min(capacity_ * sizeof(Slot), Pages::kReleaseStep);
  }
  const size_t stored = pre_token_bytes + more * kLengthBytes;
  if (arena_used_ + stored > kArenaBlock) total += std::max(stored, kArenaBlock) + kArenaBlock;
  return total;
}

// How many slots `more` further pre-tokens need. Larger tables fill huge pages, which a small page in them would prevent.
size_t PreTokenTable::grown_for(size_t more) const {
  static_assert(kHugeCapacity == Pages::kHuge / sizeof(Slot));
  size_t capacity = std::max(kLeastCapacity, capacity_);
  while (size_ + more > most_pre_tokens(capacity)) {
    const size_t least = capacity;
    capacity += capacity / 2;
    const size_t huge = (capacity * sizeof(Slot) + Pages::kHuge / 64) / Pages::kHuge;
    if (huge != 0) capacity = huge * kHugeCapacity;
    if (capacity <= least) capacity += kHugeCapacity;
  }
  return capacity;
}

void PreTokenTable::reserve(size_t more) {
  if (capacity_ && size_ + more <= limit_) return;
  settle();
  const size_t old_capacity = capacity_, capacity = grown_for(more);
  slots_.grow(capacity);
  capacity_ = capacity;
  limit_ = most_pre_tokens(capacity);
  // From the last one on, each slot moves to its new home or behind it, among those that are already moved. A few homes
  // at the front are before their slots: these wait. Slots are listed first, a group at a time, without a branch.
  Slot* const all = slots();
  std::vector<Slot> waiting;
  std::array<size_t, 256> full, homes;
  for (size_t end = old_capacity; end > 0;) {
    const size_t begin = end - std::min(end, full.size());
    size_t count = 0;
    for (size_t i = end; i-- > begin;) {
      full[count] = i;
      count += all[i].high != 0;
    }
    for (size_t n = 0; n < count; ++n) homes[n] = home(slot_hash(all[full[n]]));
    for (size_t n = 0; n < count; ++n) {
      const Slot slot = std::exchange(all[full[n]], Slot{});
      size_t at = homes[n] < full[n] ? capacity : homes[n];
      while (at < capacity && all[at].high != 0) ++at;
      if (at < capacity)
        all[at] = slot;
      else
        waiting.push_back(slot);
    }
    end = begin;
  }
  for (const Slot& slot : waiting) {
    size_t at = home(slot_hash(slot));
    while (all[at].high != 0) at = at + 1 == capacity ? 0 : at + 1;
    all[at] = slot;
  }
}

void PreTokenTable::clear() {
  settle();
  if (size_) std::memset(slots_.data(), 0, capacity_ * sizeof(Slot));
  arena_.clear();
  arena_used_ = kArenaBlock;
  arena_bytes_ = long_bytes_ = size_ = 0;
}

// Both return the pre-token's slot, made with a count of 0 where the pre-token is new.
PreTokenTable::Slot& PreTokenTable::find_inline(uint64_t home, Key key) {
  Slot* const begin = slots();
  Slot* slot = begin + home;
  while (true) {
    if (slot->low == key.low && slot->high == key.high) return *slot;
    if (slot->high == 0) break;
    if (++slot == begin + capacity_) slot = begin;
  }
  ++size_;
  *slot = {key.low, key.high, 0};
  return *slot;
}

PreTokenTable::Slot& PreTokenTable::find_long(uint64_t home, uint64_t hash, const uint8_t* pre_token, size_t size) {
  Slot* const begin = slots();
  Slot* slot = begin + home;
  const std::string_view wanted(reinterpret_cast<const char*>(pre_token), size);
  uint8_t unused[16];
  while (slot->high != 0) {
    if (slot->low == hash && is_long(*slot) && pre_token_of(*slot, unused) == wanted) return *slot;
    if (++slot == begin + capacity_) slot = begin;
  }
  check_pre_token(size);
  const uint64_t place = store(pre_token, size);
  ++size_;
  *slot = {hash, kLongTag | place, 0};
  return *slot;
}

void PreTokenTable::add_batch(const uint8_t* text, size_t start, const uint32_t* ends, size_t pre_tokens) {
  if (!hot_) {
    hot_ = std::make_unique<HotCounts>();
    pending_ = std::make_unique_for_overwrite<MissedPreToken[]>(kBatch);
    missed_ = std::make_unique_for_overwrite<uint32_t[]>(kBatch + HotPreTokens::kSpare);
  }
  if (batches_without_ != 0) {
    --batches_without_;
    std::iota(missed_.get(), missed_.get() + pre_tokens, 0u);
    reserve(pre_tokens);
    add_missed(text, start, ends, pre_tokens);
    return;
  }
  const size_t misses = hot_->count(text, start, ends, pre_tokens, missed_.get());
  if (pre_tokens >= kTellingBatch && 8 * misses > 5 * pre_tokens) batches_without_ = kBatchesWithout;
  reserve(misses);
  hot_in_use_ = true;
  add_missed(text, start, ends, misses);
}

// Counts the pre-tokens missed_[0, misses) of a batch in the large table.
void PreTokenTable::add_missed(const uint8_t* text, size_t start, const uint32_t* ends, size_t misses) {
  MissedPreToken* const pending = pending_.get();
  const uint32_t* const missed = missed_.get();
  const size_t longs = key_missed(text, start, ends, missed, misses, pending, [this](uint64_t hash) {
    const uint64_t at = home(hash);
    __builtin_prefetch(slots() + at, 1);
    return at;
  });
  // Where many pre-tokens are long, what they will be compared with is worth fetching, too.
  for (size_t n = 0; longs > kFewLongs && n < misses; ++n) {
    if (pending[n].key.high != kLongTag) continue;
    const Slot& slot = slots()[pending[n].home];
    if (slot.low == pending[n].key.low && is_long(slot)) prefetch_entry(slot);
  }
  for (size_t n = 0; n < misses; ++n) {
    const MissedPreToken& next = pending[n];
    if (next.key.high == kLongTag) [[unlikely]] {
      const size_t at = start_of(start, ends, missed[n]);
      ++find_long(next.home, next.key.low, text + at, ends[missed[n]] - at).count;
    } else if (next.key.high != 0) [[likely]] {  // not an empty pre-token
      Slot& slot = find_inline(next.home, next.key);
      ++slot.count;
      if (next.key.high >> 56 <= kHotBytes && ++short_misses_ % kSampled == 0 && hot_in_use_)
        hot_->put(next.key.low | next.key.high, slot.count);
    }
  }
}

void PreTokenTable::settle() {
  if (hot_in_use_) hot_->settle();
  hot_in_use_ = false;
}

void PreTokenTable::add(const uint8_t* pre_token, size_t size, uint64_t count) {
  check_pre_token(size);
  const uint64_t hash = hash64(pre_token, size);
  settle();
  reserve(1);
  Slot& slot = size <= kInlineBytes ? find_inline(home(hash), key_of(pre_token, size))
                                    : find_long(home(hash), hash, pre_token, size);
  if (count > kMaxCount || slot.count > kMaxCount - count)
    throw std::overflow_error("the count of a pre-token is beyond 2^63 - 1");
  slot.count += count;
}

void PreTokenTable::add_all(PreTokenTable& other) {
  other.settle();
  other.visit_range(0, ~uint64_t{0}, [&](const Slot& slot) {
    uint8_t copy[16];
    const std::string_view pre_token = other.pre_token_of(slot, copy);
    add(reinterpret_cast<const uint8_t*>(pre_token.data()), pre_token.size(), slot.count);
  });
}

// Calls visit(slot) for each slot whose hash is in [first, last], in order of hash, then of bytes.
template <class Visit>
void PreTokenTable::visit_range(uint64_t first, uint64_t last, Visit visit) const {
  struct Entry {
    uint64_t hash;
    const Slot* slot;
  };
  std::vector<Entry> cluster;
  const auto by_hash_then_bytes = [this](const Entry& a, const Entry& b) {
    if (a.hash != b.hash) return a.hash < b.hash;
    uint8_t a_copy[16], b_copy[16];
    return pre_token_of(*a.slot, a_copy) < pre_token_of(*b.slot, b_copy);
  };
  const auto flush = [&] {
    if (cluster.size() > 1) std::sort(cluster.begin(), cluster.end(), by_hash_then_bytes);
    for (const Entry& entry : cluster) visit(*entry.slot);
    cluster.clear();
  };
  // A slot is at its home or after it in the same cluster; the last cluster may wrap to the front, where the slots that
  // belong to the end are known by their home. Homes rise with hashes, so clusters come out in order.
  const size_t begin = home(first), end = home(last);
  for (size_t at = begin;; ++at) {
    const bool round = at >= capacity_;
    const Slot& slot = slots()[round ? at - capacity_ : at];
    if (slot.high == 0) {
      flush();
      if (at >= end) break;
      continue;
    }
    // Long pre-tokens are stored in the order in which they came: fetch the one that will be read in a while.
    if (at + kAhead < capacity_ && is_long(slots()[at + kAhead])) prefetch_entry(slots()[at + kAhead]);
    const uint64_t hash = slot_hash(slot);
    const bool from_the_end = home(hash) > (round ? at - capacity_ : at);
    if (from_the_end == round && hash >= first && hash <= last) cluster.push_back({hash, &slot});
  }
}

Columns PreTokenTable::extract(uint64_t first, uint64_t last) {
  settle();
  std::vector<const Slot*> order;
  size_t data_bytes = 0;
  uint8_t copy[16];
  visit_range(first, last, [&](const Slot& slot) {
    data_bytes += pre_token_of(slot, copy).size();
    order.push_back(&slot);
  });
  Columns columns(order.size(), data_bytes);
  for (size_t row = 0; row < order.size(); ++row) {
    if (row + kAhead < order.size() && is_long(*order[row + kAhead])) prefetch_entry(*order[row + kAhead]);
    const std::string_view pre_token = pre_token_of(*order[row], copy);
    columns.append(reinterpret_cast<const uint8_t*>(pre_token.data()), pre_token.size(), order[row]->count);
  }
  return columns;
}

}  // namespace bpe
