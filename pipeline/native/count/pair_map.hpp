// PairHashTable: a pair of numbers, mostly two tokens -> a value. PairMap: the same for a number, which may be missing.
//
// Idea: open addressing by the low bits of a multiplicative hash, whose halves are folded, since the lower one knows nothing
// of the first number (Knuth 1973, 6.4). Low bits, since what one table lists in its order, another one may be filled with
// while it grows. A table is kept sparse while it is small, so that nearly every lookup ends at the first slot it looks at:
// there a mispredicted branch costs more than the cache lines saved.
// Invariant: a key is at its place or after it, with no free slot between.
// Cost: 8 bytes and the value for each slot, two or four slots a pair.
#pragma once
#include <algorithm>

#include "text/base.hpp"

namespace bpe {

template <class Value>
class PairHashTable {
 public:
  static constexpr size_t kLeastSlots = 64;
  struct Slot {
    uint32_t second = UINT32_MAX, first = UINT32_MAX;
    Value value{};

    uint64_t key() const { return uint64_t{first} << 32 | second; }
    bool is_free() const { return key() == kFree; }
  };

  PairHashTable() : PairHashTable(kLeastSlots) {}
  explicit PairHashTable(size_t slots) : slots_(slots) {}  // a power of two of them
  size_t used() const { return used_; }
  size_t slots() const { return slots_.size(); }
  static uint64_t hash(uint64_t key) {
    const uint64_t product = key * 0x9E3779B97F4A7C15u;
    return product ^ product >> 32;
  }
  size_t place_of(uint64_t key) const { return hash(key) & (slots_.size() - 1); }
  void prefetch(size_t place) const { __builtin_prefetch(&slots_[place], 1); }

  // Its value, a new one where it has none: the table must have a free slot.
  Value& at(uint64_t key, size_t place) {
    Slot* const slots = slots_.data();
    while (slots[place].key() != key) {
      if (slots[place].is_free()) {
        slots[place].first = static_cast<uint32_t>(key >> 32);
        slots[place].second = static_cast<uint32_t>(key);
        ++used_;
        break;
      }
      place = (place + 1) & (slots_.size() - 1);
    }
    return slots[place].value;
  }
  Value& at(uint64_t key) { return at(key, place_of(key)); }
  Value& operator[](uint64_t key) {
    reserve(1);
    return at(key);
  }
  // A copy of its value, or of a new one.
  Value get(uint64_t key) const { return slots_[look(key, place_of(key))].value; }
  const Value* find(uint64_t key) const {
    const Slot& slot = slots_[look(key, place_of(key))];
    return slot.is_free() ? nullptr : &slot.value;
  }
  template <class Use>
  void each(Use&& use) const {
    for (const Slot& slot : slots_)
      if (!slot.is_free()) use(slot);
  }
  // Makes space for `more` pairs; slots and places change.
  void reserve(size_t more) {
    const size_t pairs = used_ + more, wanted = std::max(std::min(4 * pairs, kSparseSlots), 2 * pairs);
    if (wanted > slots_.size()) rehash(std::bit_ceil(wanted));
  }

 private:
  static constexpr uint64_t kFree = UINT64_MAX;
  static constexpr size_t kSparseSlots = size_t{1} << 15;
  void rehash(size_t slots) {
    PairHashTable other(slots);
    each([&](const Slot& slot) { other.at(slot.key()) = slot.value; });
    *this = std::move(other);
  }
  // Where a pair is, or the free slot where it belongs.
  size_t look(uint64_t key, size_t place) const {
    const Slot* const slots = slots_.data();
    while (slots[place].key() != key && !slots[place].is_free()) place = (place + 1) & (slots_.size() - 1);
    return place;
  }

  std::vector<Slot> slots_;
  size_t used_ = 0;
};

// Where most pairs that are looked up have no number (`kFiltered`), a bitmap of eight bits a slot is asked first.
template <bool kFiltered>
class PairMap {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit PairMap(size_t expected_pairs = 0) { reserve(expected_pairs); }
  // False where the pair has a number already, which stays.
  bool insert(uint32_t left, uint32_t right, uint32_t number) {
    reserve(1);
    auto& found = table_.at(key_of(left, right)).number;
    if (found != kNone) return false;
    found = number;
    mark(key_of(left, right));
    return true;
  }
  uint32_t find(uint32_t left, uint32_t right) const {
    const auto key = key_of(left, right);
    if (kFiltered && !(bitmap_[bit_of(key) >> 6] >> (bit_of(key) & 63) & 1)) return kNone;
    return table_.get(key).number;
  }
  void prefetch(uint32_t left, uint32_t right) const { table_.prefetch(table_.place_of(key_of(left, right))); }

 private:
  struct Number {
    uint32_t number = kNone;
  };
  static uint64_t key_of(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }
  size_t bit_of(uint64_t key) const { return PairHashTable<Number>::hash(key) & (8 * table_.slots() - 1); }
  void mark(uint64_t key) {
    if (kFiltered) bitmap_[bit_of(key) >> 6] |= uint64_t{1} << (bit_of(key) & 63);
  }
  void reserve(size_t more) {
    table_.reserve(more);
    if (!kFiltered || bitmap_.size() == table_.slots() / 8) return;
    bitmap_.assign(table_.slots() / 8, 0);
    table_.each([this](const auto& slot) { mark(slot.key()); });
  }

  PairHashTable<Number> table_;
  std::vector<uint64_t> bitmap_;
};

}  // namespace bpe
