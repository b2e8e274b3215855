// NumberTable: numbers by a key of two numbers, 16 bytes each, one or two times as many slots as three quarters of them
// fill; a key is next to the place that its hash says.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace bpe {

class NumberTable {
 public:
  struct Slot {
    uint32_t first = kFree, second = 0;
    uint64_t number = 0;
  };
  static constexpr uint32_t kFree = std::numeric_limits<uint32_t>::max();

  explicit NumberTable(size_t slots) : slots_(slots) {}
  bool full() const { return used_ >= most(); }
  size_t most() const { return slots_.size() / 4 * 3; }
  size_t used() const { return used_; }
  size_t bytes() const { return slots_.size() * sizeof(Slot); }
  const Slot* find(uint32_t first, uint32_t second) const {
    const Slot& slot = slots_[place_of(first, second)];
    return slot.first == kFree ? nullptr : &slot;
  }
  // Its number, 0 where it is new. The table must not be full.
  uint64_t& at(uint32_t first, uint32_t second) {
    Slot& slot = slots_[place_of(first, second)];
    if (slot.first == kFree) {
      slot = {first, second, 0};
      ++used_;
    }
    return slot.number;
  }
  template <class Each>
  void each(Each&& each) const {
    for (const Slot& slot : slots_)
      if (slot.first != kFree) each(slot);
  }
  void grow() {
    NumberTable larger(2 * slots_.size());
    each([&](const Slot& slot) { larger.at(slot.first, slot.second) = slot.number; });
    *this = std::move(larger);
  }
  // Erases in place what keep(slot) is false for: what follows moves up (Knuth 1973, 6.4, algorithm R).
  template <class Keep>
  void keep_if(Keep&& keep) {
    for (size_t at = 0; at < slots_.size();)
      if (slots_[at].first == kFree || keep(slots_[at]))
        ++at;
      else
        erase(at);
  }
  // All of it in order, without another table; this one is empty then.
  std::vector<Slot> take_sorted() {
    std::vector<Slot> sorted = std::move(slots_);
    std::erase_if(sorted, [](const Slot& slot) { return slot.first == kFree; });
    std::sort(sorted.begin(), sorted.end(), [](const Slot& a, const Slot& b) {
      return std::pair(a.first, a.second) < std::pair(b.first, b.second);
    });
    slots_.assign(kLeastSlots, {});
    used_ = 0;
    return sorted;
  }
  static constexpr size_t kLeastSlots = 64;
  static uint64_t hash(uint32_t first, uint32_t second) {
    const uint64_t mixed = (uint64_t{first} << 32 | second) * 0x9e3779b97f4a7c15u;
    return mixed ^ mixed >> 32;
  }

 private:
  size_t place_of(uint32_t first, uint32_t second) const {
    size_t place = hash(first, second) & (slots_.size() - 1);
    while (slots_[place].first != kFree && (slots_[place].first != first || slots_[place].second != second))
      place = (place + 1) & (slots_.size() - 1);
    return place;
  }
  void erase(size_t hole) {
    const size_t mask = slots_.size() - 1;
    for (size_t at = (hole + 1) & mask; slots_[at].first != kFree; at = (at + 1) & mask)
      if (const size_t moved = at - hash(slots_[at].first, slots_[at].second); (moved & mask) >= ((at - hole) & mask))
        slots_[std::exchange(hole, at)] = slots_[at];
    slots_[hole] = {};
    --used_;
  }
  std::vector<Slot> slots_;
  size_t used_ = 0;
};

}  // namespace bpe
