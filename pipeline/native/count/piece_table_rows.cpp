// A PieceTable's pieces in order: of their hashes, then of their bytes.

#include "count/piece_table.hpp"

namespace bpe {

static constexpr size_t kAhead = 24;  // slots that a prefetch runs ahead

void PieceTable::add_all(PieceTable& other) {
  other.settle();
  other.visit_range(0, ~uint64_t{0}, [&](const Slot& slot, uint64_t) {
    uint8_t copy[16];
    const std::string_view piece = other.piece_of(slot, copy);
    add(reinterpret_cast<const uint8_t*>(piece.data()), piece.size(), slot.count);
  });
}

// Calls visit(slot, hash) for each slot whose hash is in [first, last], in order of hash, then of bytes.
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
    return piece_of(*a.slot, a_copy) < piece_of(*b.slot, b_copy);
  };
  const auto flush = [&] {
    if (cluster.size() > 1) std::sort(cluster.begin(), cluster.end(), by_hash_then_bytes);
    for (const Entry& entry : cluster) visit(*entry.slot, entry.hash);
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
    // Long pieces are stored in the order in which they came: fetch the one that will be read in a while.
    if (at + kAhead < capacity_ && is_long(slots()[at + kAhead])) prefetch_entry(slots()[at + kAhead]);
    const uint64_t hash = slot_hash(slot);
    const bool from_the_end = home(hash) > (round ? at - capacity_ : at);
    if (from_the_end == round && hash >= first && hash <= last) cluster.push_back({hash, &slot});
  }
}

Columns PieceTable::extract(uint64_t first, uint64_t last) {
  settle();
  std::vector<const Slot*> order;
  size_t data_bytes = 0;
  visit_range(first, last, [&](const Slot& slot, uint64_t) {
    uint8_t copy[16];
    data_bytes += piece_of(slot, copy).size();
    order.push_back(&slot);
  });
  Columns columns(order.size(), data_bytes);
  for (size_t row = 0; row < order.size(); ++row) {
    if (row + kAhead < order.size() && is_long(*order[row + kAhead])) prefetch_entry(*order[row + kAhead]);
    append(columns, *order[row]);
  }
  return columns;
}

void PieceTable::append_to(Columns& columns) {
  settle();
  visit_range(0, ~uint64_t{0}, [&](const Slot& slot, uint64_t) { append(columns, slot); });
}

void PieceTable::append(Columns& columns, const Slot& slot) const {
  uint8_t copy[16];
  const std::string_view piece = piece_of(slot, copy);
  columns.append(reinterpret_cast<const uint8_t*>(piece.data()), piece.size(), slot.count);
}

}  // namespace bpe
