#include "text/automaton_pairs.hpp"

namespace bpe {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;
// The marks of a pair. A group's marks are added with a factor of 4 from one pair to the next, so the boundary before
// byte `at - 1 + k` is bit 16 - k. Bit 0 is the same position as bit 16 of the next group, and waits for that one.
constexpr uint16_t kBeforePrevious = 4, kBeforeFirst = 2, kBeforeSecond = 1;

// Keeps the compiler from adding the state to a row's offset before the row's address, and from adding it just once for
// two loads: the state is known last, and each addition would be on the one chain of dependent instructions that the
// scan's speed hangs on.
#if defined(__GNUC__)
#define KEEP_IN_REGISTER(pointer) __asm__("" : "+r"(pointer))
#else
#define KEEP_IN_REGISTER(pointer) static_cast<void>(pointer)
#endif

// The positions of the bits of a byte, the highest bit first, and how many they are.
struct Places {
  std::array<std::array<uint16_t, 8>, 256> of{};
  std::array<uint8_t, 256> count{};
};

constexpr Places kPlaces = [] {
  Places places;
  for (size_t byte = 0; byte < 256; ++byte) {
    for (uint8_t place = 0; place < 8; ++place) {
      if (byte >> (7 - place) & 1) places.of[byte][places.count[byte]++] = place;
    }
  }
  return places;
}();

// Writes the ends of a byte of marks, from `base` on; always eight, so that nothing is to be predicted.
inline size_t write_ends(uint32_t* to, uint32_t marks, uint32_t base) {
  const auto places = kPlaces.of[marks];  // a copy, which `to` cannot overlap
  uint32_t found[8];
  for (size_t index = 0; index < 8; ++index) found[index] = base + places[index];
  std::memcpy(to, found, sizeof found);
  return kPlaces.count[marks];
}

}  // namespace

PairTable::PairTable(std::span<const uint8_t> classes, std::span<const Step> steps, uint32_t state_shift,
                     uint32_t states)
    : trap_(states) {
  const uint32_t kinds = *std::max_element(classes.begin(), classes.end()) + 1u;
  const size_t row = size_t{states} + 1;
  const size_t size = kinds * kinds * row;
  if (size * sizeof(Step) > kMostBytes || trap_ > UINT16_MAX) return;
  const Step trap{static_cast<uint16_t>(trap_), 0};
  steps_.assign(size, trap);
  for (uint32_t code = 0; code < 128; ++code) {
    first_[code] = steps_.data() + classes[code] * kinds * row;
    second_[code] = static_cast<uint32_t>(classes[code] * row * sizeof(Step));
  }
  for (uint32_t a = 0; a < kinds; ++a) {
    for (uint32_t b = 0; b < kinds; ++b) {
      for (uint32_t state = 0; state < states; ++state) {
        const Step one = steps[size_t{a} << state_shift | state];
        const Step two = steps[size_t{b} << state_shift | one.next];
        if ((one.flags | two.flags) > (kBack | kHere)) continue;
        // BACK of the second is the same position as HERE of the first.
        uint16_t marks = one.flags & kBack ? kBeforePrevious : 0;
        if (one.flags & kHere || two.flags & kBack) marks |= kBeforeFirst;
        if (two.flags & kHere) marks |= kBeforeSecond;
        steps_[(size_t{a} * kinds + b) * row + state] = {two.next, marks};
      }
    }
  }
}

PairTable::Cursor PairTable::run(Cursor from, const uint8_t* text, size_t size, uint32_t* ends, size_t limit) const {
  uint32_t state = from.state;
  uint32_t marks = 0;
  size_t at = from.at;
  size_t count = from.count;
  for (; size - at >= kGroup && count <= limit; at += kGroup) {
    const uint8_t* const group = text + at;
    uint64_t words[2];
    std::memcpy(words, group, kGroup);
    if ((words[0] | words[1]) & 0x8080808080808080u) break;
    uint32_t following = state;
    uint32_t sum = marks & 1;
    for (size_t index = 0; index < kGroup; index += 2) {
      const char* begin = reinterpret_cast<const char*>(first_[group[index]]) + second_[group[index + 1]];
      const Step* row = reinterpret_cast<const Step*>(begin);
      KEEP_IN_REGISTER(row);
      const Step* same = row;
      KEEP_IN_REGISTER(same);
      sum = sum * 4 + same[following].flags;
      following = row[following].next;
    }
    if (following == trap_) break;
    state = following;
    marks = sum;
    const uint32_t base = static_cast<uint32_t>(at) - 1;
    count += write_ends(ends + count, sum >> 9, base);
    count += write_ends(ends + count, sum >> 1 & 0xFF, base + 8);
  }
  if (marks & 1) ends[count++] = static_cast<uint32_t>(at - 1);
  return {state, at, count};
}

}  // namespace bpe
