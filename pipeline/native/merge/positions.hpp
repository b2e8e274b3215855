// Lists of positions: where the pairs of a phase occur, ascending, one list per pair and shard.
//
// Idea: a list holds the distances between positions, in digits of 15 bits, the highest first; all but the last of a
// number have the top bit. Most distances are one digit: pairs that matter occur often, and words that start alike are
// neighbours. It is a chain of chunks of growing size in its shard's arena; all lists grow while words are scanned in
// order. The arena only grows: it is emptied as a whole between phases, and a phase ends when it has grown too far.
// Invariant: handle 0 is the empty list.
// Cost: 2 bytes a digit and 8 a chunk, plus the unused end of each list's last chunk.
#pragma once
#include <cstring>

#include "count/pages.hpp"
#include "count/pair_map.hpp"
#include "merge/words.hpp"

namespace bpe::merge {

using ListHandle = uint32_t;

class PositionArena {
 public:
  // Words are two digits each.
  uint16_t* at(ListHandle handle) { return blocks_[handle >> kBlockBits].data() + 2 * (handle & (kBlockWords - 1)); }

  // Contiguous words, at most kBlockWords.
  ListHandle allocate(uint32_t words) {
    if (used_ + words > kBlockWords) next_block();
    const auto handle = static_cast<ListHandle>(((in_use_ - 1) << kBlockBits) + used_);
    used_ += words;
    return handle;
  }
  uint64_t words() const { return static_cast<uint64_t>(in_use_) << kBlockBits; }
  // Forgets all lists and keeps the memory for the next ones: new pages would cost more.
  void clear() {
    in_use_ = 0;
    used_ = kBlockWords;
  }

  static constexpr unsigned kBlockBits = 19;
  static constexpr uint32_t kBlockWords = uint32_t{1} << kBlockBits;

 private:
  void next_block() {
    if (in_use_ >> (32 - kBlockBits) != 0) throw std::length_error("too many positions in one phase");
    if (in_use_ == blocks_.size()) blocks_.emplace_back(2 * kBlockWords);
    used_ = in_use_ == 0 ? 1 : 0;  // no chunk has handle 0
    ++in_use_;
  }
  std::vector<Array<uint16_t>> blocks_;
  size_t in_use_ = 0;
  uint32_t used_ = kBlockWords;  // of the last block in use
};

// A chunk: link, number of digits, the digits. While its list grows a chunk links to the one before it, and the last one
// holds its own handle in place of the number.
struct Chunk {
  static constexpr uint32_t kHeaderWords = 2, kMostDigits = 8188;
  static uint32_t get(const uint16_t* chunk, size_t word) {
    uint32_t value;
    std::memcpy(&value, chunk + 2 * word, sizeof value);
    return value;
  }
  static void set(uint16_t* chunk, size_t word, uint32_t value) { std::memcpy(chunk + 2 * word, &value, sizeof value); }
  static ListHandle link(const uint16_t* chunk) { return get(chunk, 0); }
  static std::span<const uint16_t> digits(const uint16_t* chunk) { return {chunk + 2 * kHeaderWords, get(chunk, 1)}; }
};

inline constexpr unsigned kDigitBits = 15;
inline constexpr uint32_t kMore = uint32_t{1} << kDigitBits;

// A list that is being written. A writer needs to know where the next digit goes only; finish() turns the links.
class ListWriter {
 public:
  // Positions are ascending.
  void append(PositionArena& arena, Position position) {
    const Position distance = position - std::exchange(last_, position);
    if (distance >= kMore) [[unlikely]]
      append_high(arena, distance);
    append_digit(arena, distance & (kMore - 1));
  }
  struct List {
    ListHandle handle = 0;
    uint64_t positions = 0;  // at most
  };
  // Ends the list; nothing may be appended after.
  List finish(PositionArena& arena) const {
    if (capacity_ == 0) return {};
    ListHandle chunk = end_chunk(), after = 0;
    uint64_t digits = 0;
    while (chunk != 0) {
      uint16_t* const words = arena.at(chunk);
      digits += Chunk::get(words, 1);
      const ListHandle before = Chunk::link(words);
      Chunk::set(words, 0, after);
      after = std::exchange(chunk, before);
    }
    return {after, digits};
  }
  void prefetch() const { __builtin_prefetch(next_, 1); }

 private:
  static constexpr uint32_t kFirstCapacity = 6, kMaxCapacity = Chunk::kMostDigits / 2;  // words
  void append_digit(PositionArena& arena, uint32_t digit) {
    if (budget_ == 0) grow(arena);
    --budget_;
    *next_++ = static_cast<uint16_t>(digit);
  }
  [[gnu::noinline]] void append_high(PositionArena& arena, Position distance) {
    if (distance >> kDigitBits >= kMore) append_digit(arena, kMore | distance >> (2 * kDigitBits));
    append_digit(arena, kMore | distance >> kDigitBits);
  }
  // Writes the number of digits into the last chunk; returns its handle.
  ListHandle end_chunk() const {
    const uint32_t digits = uint32_t{capacity_} - budget_;
    uint16_t* const chunk = next_ - digits - 2 * Chunk::kHeaderWords;
    const ListHandle handle = Chunk::get(chunk, 1);
    Chunk::set(chunk, 1, digits);
    return handle;
  }
  void grow(PositionArena& arena) {
    const uint32_t words = capacity_ == 0 ? kFirstCapacity : std::min(kMaxCapacity, uint32_t{capacity_} + 2);
    const ListHandle before = capacity_ == 0 ? 0 : end_chunk(), handle = arena.allocate(words + Chunk::kHeaderWords);
    uint16_t* const chunk = arena.at(handle);
    Chunk::set(chunk, 0, before);
    Chunk::set(chunk, 1, handle);
    next_ = chunk + 2 * Chunk::kHeaderWords;
    budget_ = capacity_ = static_cast<uint16_t>(2 * words);
  }
  uint16_t* next_ = nullptr;
  Position last_ = 0;
  uint16_t budget_ = 0, capacity_ = 0;  // digits
};

// The positions of a list, chunk by chunk.
class ListReader {
 public:
  // Writes the positions of the next chunk, at most as many as it has digits; returns how many they are.
  size_t read(std::span<const uint16_t> digits, Position* positions) {
    Position* to = positions;
    Position last = last_;
    uint32_t high = high_;
    for (const uint32_t digit : digits) {
      const uint32_t distance = high << kDigitBits | (digit & (kMore - 1));
      const bool whole = digit < kMore;
      last += whole ? distance : 0;
      high = whole ? 0 : distance;
      *to = last;
      to += whole;
    }
    last_ = last;
    high_ = high;
    return static_cast<size_t>(to - positions);
  }

 private:
  Position last_ = 0;
  uint32_t high_ = 0;  // what has been read of a distance
};

// Calls use(positions) with those of a finished list, some thousands at a time, which are in `buffer`.
template <class Use>
void read_list(PositionArena& arena, ListHandle list, std::vector<Position>& buffer, Use&& use) {
  buffer.resize(size_t{2} * Chunk::kMostDigits);
  ListReader reader;
  for (size_t n = 0; list != 0;) {
    const uint16_t* const chunk = arena.at(list);
    list = Chunk::link(chunk);
    if (list != 0) __builtin_prefetch(arena.at(list));
    n += reader.read(Chunk::digits(chunk), buffer.data() + n);
    if (list != 0 && n <= Chunk::kMostDigits) continue;
    use(std::span(buffer.data(), n));
    n = 0;
  }
}

// What one walk finds of a pair: its count, and the list that is being written.
struct Tallied {
  uint64_t count = 0;
  ListWriter list;
};
using PairTally = PairHashTable<Tallied>;

// Adds the counts of one tally to another.
inline void add_to(PairTally& sum, const PairTally& other) {
  sum.reserve(other.used());
  other.each([&](const PairTally::Slot& slot) { sum[slot.key()].count += slot.value.count; });
}

}  // namespace bpe::merge
