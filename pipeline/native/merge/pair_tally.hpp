// What one shard's walk finds: a hash table of pairs, each with its count and the list that is being written.
//
// Idea: open addressing over the product that the sketch is addressed with, by its top bits. The table is kept sparse
// while it is small, so that nearly every lookup ends at the first slot it looks at: there a mispredicted branch costs
// more than the cache lines saved.
#pragma once
#include "merge/positions.hpp"
#include "merge/sketch.hpp"

namespace bpe::merge {

class PairTally {
 public:
  struct Slot {
    PairKey key = kFree;
    uint64_t count = 0;
    ListWriter list;
  };
  static constexpr PairKey kFree = ~PairKey{0};

  PairTally() : slots_(kFirstSlots) { set_shift(); }
  size_t place_of(PairKey key) const { return Sketch::product(key) >> shift_; }
  void prefetch(size_t place) const { __builtin_prefetch(&slots_[place], 1); }
  // The pair's slot, looked for from its place on; it is made where there is none.
  Slot& at(PairKey key, size_t place) {
    Slot* const slots = slots_.data();
    while (slots[place].key != key) {
      if (slots[place].key == kFree) {
        slots[place].key = key;
        ++used_;
        break;
      }
      place = (place + 1) & (slots_.size() - 1);
    }
    return slots[place];
  }
  void add(PairKey key, uint64_t weight) {
    reserve(1);
    at(key, place_of(key)).count += weight;
  }
  // Adds the counts of another one.
  void add(const PairTally& other) {
    other.each([this](const Slot& slot) { add(slot.key, slot.count); });
  }
  // Calls use(slot) for each pair.
  template <class Use>
  void each(Use&& use) const {
    for (const auto& slot : slots_)
      if (slot.key != kFree) use(slot);
  }
  const Slot* find(PairKey key) const {
    for (size_t place = place_of(key);; place = (place + 1) & (slots_.size() - 1)) {
      if (slots_[place].key == key) return &slots_[place];
      if (slots_[place].key == kFree) return nullptr;
    }
  }
  // Makes space for `more` pairs; slots and places change.
  void reserve(size_t more) {
    const size_t spare = slots_.size() < kSparseSlots ? 4 : 2;
    if (spare * (used_ + more) <= slots_.size()) return;
    std::vector<Slot> old(std::bit_ceil(spare * (used_ + more) + 1));
    old.swap(slots_);
    set_shift();
    used_ = 0;
    for (const auto& slot : old)
      if (slot.key != kFree) at(slot.key, place_of(slot.key)) = slot;
  }
  size_t used() const { return used_; }

 private:
  static constexpr size_t kFirstSlots = size_t{1} << 12, kSparseSlots = size_t{1} << 15;
  void set_shift() { shift_ = 64u - static_cast<unsigned>(std::countr_zero(slots_.size())); }
  std::vector<Slot> slots_;
  unsigned shift_ = 0;
  size_t used_ = 0;
};

}  // namespace bpe::merge
