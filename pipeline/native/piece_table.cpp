#include "piece_table.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace bpe {
namespace {

constexpr unsigned kBlockBits = 20;
constexpr size_t kArenaBlock = size_t{1} << kBlockBits, kLengthBytes = sizeof(uint32_t);
constexpr uint64_t kLongTag = uint64_t{255} << 56, kPlaceMask = (uint64_t{1} << 56) - 1;
constexpr size_t kLeastCapacity = 4096;

void check_piece(size_t size) {
  if (size == 0) throw std::invalid_argument("a piece is empty");
  if (size > kMaxPieceBytes)
    throw std::length_error("a piece of " + std::to_string(size) + " bytes is longer than the limit of 1 GiB");
}

int compare(const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size) {
  const int order = std::memcmp(a, b, std::min(a_size, b_size));
  return order ? order : a_size < b_size ? -1 : a_size > b_size;
}

}  // namespace

PieceTable::PieceTable(unsigned known_bits, size_t expected_pieces)
    : known_bits_(known_bits), arena_used_(kArenaBlock) {
  reserve(expected_pieces);
}

const uint8_t* PieceTable::long_piece(const Slot& slot, size_t& size) const {
  const uint64_t place = slot.high & kPlaceMask;
  const uint8_t* entry = arena_[place >> kBlockBits].get() + (place & (kArenaBlock - 1));
  uint32_t length;
  std::memcpy(&length, entry, kLengthBytes);
  size = length;
  return entry + kLengthBytes;
}

const uint8_t* PieceTable::piece_of(const Slot& slot, uint8_t (&copy)[16], size_t& size) const {
  if (is_long(slot)) return long_piece(slot, size);
  store64(copy, slot.low);
  store64(copy + 8, slot.high);
  size = slot.high >> 56;
  return copy;
}

bool PieceTable::same_piece(const Slot& slot, uint64_t hash, const uint8_t* piece, size_t size) const {
  if (slot.low != hash || !is_long(slot)) return false;
  size_t stored_size;
  const uint8_t* stored = long_piece(slot, stored_size);
  return stored_size == size && std::memcmp(stored, piece, size) == 0;
}

uint64_t PieceTable::store(const uint8_t* piece, size_t size) {
  const size_t wanted = kLengthBytes + size;
  if (arena_used_ + wanted > kArenaBlock) {
    // A piece longer than a block gets a block of its own, which is then full.
    const size_t bytes = std::max(wanted, kArenaBlock);
    arena_.push_back(std::make_unique_for_overwrite<uint8_t[]>(bytes));
    arena_bytes_ += bytes;
    arena_used_ = 0;
  }
  uint8_t* entry = arena_.back().get() + arena_used_;
  const uint64_t place = uint64_t{arena_.size() - 1} << kBlockBits | arena_used_;
  const auto length = static_cast<uint32_t>(size);
  std::memcpy(entry, &length, kLengthBytes);
  std::memcpy(entry + kLengthBytes, piece, size);
  arena_used_ += wanted;
  return place;
}

void PieceTable::reserve(size_t more) {
  if (capacity_ && size_ + more <= limit_) return;
  size_t capacity = std::max(kLeastCapacity, capacity_);
  while (size_ + more > capacity / 4 * 3) capacity += capacity / 2;
  Pages old = std::move(slots_);
  const size_t old_capacity = capacity_;
  slots_ = Pages(capacity * sizeof(Slot));
  capacity_ = capacity;
  limit_ = capacity / 4 * 3;
  const Slot* from = static_cast<const Slot*>(old.data());
  for (size_t i = 0; i < old_capacity; ++i) {
    if (i % 4096 == 0) old.release_front(i * sizeof(Slot));
    if (from[i].high == 0) continue;
    size_t at = home(slot_hash(from[i]));
    while (slots()[at].high != 0) at = at + 1 == capacity ? 0 : at + 1;
    slots()[at] = from[i];
  }
}

void PieceTable::clear() {
  if (size_) std::memset(slots_.data(), 0, capacity_ * sizeof(Slot));
  arena_.clear();
  arena_used_ = kArenaBlock;
  arena_bytes_ = size_ = 0;
}

// Both return the piece's slot, made with a count of 0 where the piece is new.
PieceTable::Slot& PieceTable::find_inline(uint64_t home, Key key) {
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

PieceTable::Slot& PieceTable::find_long(uint64_t home, uint64_t hash, const uint8_t* piece, size_t size) {
  Slot* const begin = slots();
  Slot* slot = begin + home;
  while (slot->high != 0) {
    if (same_piece(*slot, hash, piece, size)) return *slot;
    if (++slot == begin + capacity_) slot = begin;
  }
  check_piece(size);
  const uint64_t place = store(piece, size);
  ++size_;
  *slot = {hash, kLongTag | place, 0};
  return *slot;
}

void PieceTable::add_batch(const uint8_t* text, size_t start, const uint32_t* ends, size_t pieces) {
  if (!pending_) pending_ = std::make_unique_for_overwrite<Pending[]>(kBatch);
  reserve(pieces);
  Pending* const pending = pending_.get();
  size_t at = start;
  for (size_t i = 0; i < pieces; at = ends[i++]) {
    const size_t size = ends[i] - at;
    uint64_t hash;
    if (size <= kInlineBytes) [[likely]] {
      const Key key = key_of_padded(text + at, size);
      hash = hash_key(key);
      pending[i].slot = {key.low, key.high, 0};
    } else {
      hash = hash_long(text + at, size);
      pending[i].slot = {hash, kLongTag, 0};
    }
    pending[i].home = home(hash);
    __builtin_prefetch(slots() + pending[i].home, 1);
  }
  at = start;
  for (size_t i = 0; i < pieces; at = ends[i++]) {
    const Pending& want = pending[i];
    Slot& slot = want.slot.high != kLongTag
                     ? find_inline(want.home, {want.slot.low, want.slot.high})
                     : find_long(want.home, want.slot.low, text + at, ends[i] - at);
    ++slot.count;
  }
}

void PieceTable::add(const uint8_t* piece, size_t size, uint64_t count) {
  add_hashed(hash64(piece, size), piece, size, count);
}

void PieceTable::add_hashed(uint64_t hash, const uint8_t* piece, size_t size, uint64_t count) {
  check_piece(size);
  reserve(1);
  Slot& slot = size <= kInlineBytes ? find_inline(home(hash), key_of(piece, size))
                                    : find_long(home(hash), hash, piece, size);
  if (count > kMaxCount || slot.count > kMaxCount - count)
    throw std::overflow_error("the count of a piece is beyond 2^63 - 1");
  slot.count += count;
}

void PieceTable::add_all(const PieceTable& other) {
  other.visit_range(0, ~uint64_t{0}, [&](const Slot& slot, uint64_t) {
    uint8_t copy[16];
    size_t size;
    const uint8_t* piece = other.piece_of(slot, copy, size);
    add(piece, size, slot.count);
  });
}

// Calls visit(slot, hash) for each slot whose hash lies in [first, last], in order of hash, then of bytes.
template <class Visit>
void PieceTable::visit_range(uint64_t first, uint64_t last, Visit visit) const {
  struct Entry {
    uint64_t hash;
    const Slot* slot;
  };
  std::vector<Entry> cluster;
  const auto by_hash_then_bytes = [this](const Entry& a, const Entry& b) {
    if (a.hash != b.hash) return a.hash < b.hash;
    uint8_t a_copy[16], b_copy[16];
    size_t a_size, b_size;
    const uint8_t* a_piece = piece_of(*a.slot, a_copy, a_size);
    const uint8_t* b_piece = piece_of(*b.slot, b_copy, b_size);
    return compare(a_piece, a_size, b_piece, b_size) < 0;
  };
  const auto flush = [&] {
    if (cluster.size() > 1) std::sort(cluster.begin(), cluster.end(), by_hash_then_bytes);
    for (const Entry& entry : cluster) visit(*entry.slot, entry.hash);
    cluster.clear();
  };
  // A slot lies at its home or behind it in the same cluster; the last cluster may go round to the front, where the
  // slots that belong to the end are told by their home. Homes rise with hashes, so clusters come out in order.
  const size_t begin = home(first), end = home(last);
  for (size_t at = begin;; ++at) {
    const bool round = at >= capacity_;
    const Slot& slot = slots()[round ? at - capacity_ : at];
    if (slot.high == 0) {
      flush();
      if (at >= end) break;
      continue;
    }
    const uint64_t hash = slot_hash(slot);
    const bool from_the_end = home(hash) > (round ? at - capacity_ : at);
    if (from_the_end == round && hash >= first && hash <= last) cluster.push_back({hash, &slot});
  }
}

Columns PieceTable::extract(uint64_t first, uint64_t last) const {
  std::vector<const Slot*> order;
  size_t data_bytes = 0;
  visit_range(first, last, [&](const Slot& slot, uint64_t) {
    size_t size = slot.high >> 56;
    if (is_long(slot)) long_piece(slot, size);
    data_bytes += size;
    order.push_back(&slot);
  });
  Columns columns(order.size(), data_bytes);
  for (const Slot* slot : order) append(columns, *slot);
  return columns;
}

void PieceTable::append_to(Columns& columns) const {
  visit_range(0, ~uint64_t{0}, [&](const Slot& slot, uint64_t) { append(columns, slot); });
}

void PieceTable::append(Columns& columns, const Slot& slot) const {
  uint8_t copy[16];
  size_t size;
  const uint8_t* piece = piece_of(slot, copy, size);
  columns.append(piece, size, slot.count);
}

}  // namespace bpe
