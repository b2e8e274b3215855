// Lists of positions: where the pairs of a phase stand, ascending, one list per pair and shard.
//
// A list is a chain of chunks of growing size in its shard's arena; lists grow side by side while words are
// scanned in order. The arena only grows: it is emptied as a whole between phases, and its size is what ends
// a phase when memory would run out. Handle 0 is the empty list.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "merge_memory.hpp"
#include "merge_words.hpp"

namespace bpe::merge {

using ListHandle = std::uint32_t;

class PositionArena {
 public:
  std::uint32_t* at(ListHandle handle) { return blocks_[handle >> kBlockBits].data() + (handle & (kBlockWords - 1)); }

  // Contiguous words, at most kBlockWords.
  ListHandle allocate(std::uint32_t words) {
    if (used_ + words > kBlockWords) next_block();
    const auto handle = static_cast<ListHandle>(((in_use_ - 1) << kBlockBits) + used_);
    used_ += words;
    return handle;
  }
  std::uint64_t words() const { return static_cast<std::uint64_t>(in_use_) << kBlockBits; }
  // Forgets all lists and keeps the memory for the next ones: touching it anew would cost more.
  void clear() {
    in_use_ = 0;
    used_ = kBlockWords;
  }

  static constexpr unsigned kBlockBits = 19;
  static constexpr std::uint32_t kBlockWords = std::uint32_t{1} << kBlockBits;

 private:
  void next_block() {
    if (in_use_ >> (32 - kBlockBits) != 0) throw std::length_error("too many positions in one phase");
    if (in_use_ == blocks_.size()) blocks_.emplace_back(kBlockWords);
    used_ = in_use_ == 0 ? 1 : 0;  // no chunk lies at handle 0
    ++in_use_;
  }
  std::vector<Buffer<std::uint32_t>> blocks_;
  std::size_t in_use_ = 0;
  std::uint32_t used_ = kBlockWords;  // of the last block in use
};

// A list that is being written. Chunk: handle of the next, number of positions, the positions.
class ListWriter {
 public:
  void append(PositionArena& arena, Position position, std::uint32_t first_capacity) {
    if (used_ == capacity_) grow(arena, first_capacity);
    arena.at(tail_)[2 + used_++] = position;
  }
  ListHandle finish(PositionArena& arena) const {
    if (tail_ != 0) seal(arena, 0);
    return head_;
  }
  void prefetch(PositionArena& arena) const {
    if (tail_ != 0) __builtin_prefetch(arena.at(tail_) + 2 + used_, 1);
  }

 private:
  static constexpr std::uint32_t kMaxCapacity = 4094;
  void seal(PositionArena& arena, ListHandle next) const {
    arena.at(tail_)[0] = next;
    arena.at(tail_)[1] = used_;
  }
  void grow(PositionArena& arena, std::uint32_t first_capacity) {
    const std::uint32_t capacity =
        std::min(kMaxCapacity, capacity_ == 0 ? first_capacity : 2 * std::uint32_t{capacity_} + 2);
    const ListHandle chunk = arena.allocate(capacity + 2);
    if (tail_ != 0)
      seal(arena, chunk);
    else
      head_ = chunk;
    tail_ = chunk;
    used_ = 0;
    capacity_ = static_cast<std::uint16_t>(capacity);
  }
  ListHandle head_ = 0, tail_ = 0;
  std::uint16_t used_ = 0, capacity_ = 0;
};

// Appends a finished list to `out`.
inline void read_list(PositionArena& arena, ListHandle list, std::vector<Position>& out) {
  while (list != 0) {
    const std::uint32_t* chunk = arena.at(list);
    list = chunk[0];
    if (list != 0) __builtin_prefetch(arena.at(list));
    out.insert(out.end(), chunk + 2, chunk + 2 + chunk[1]);
  }
}

}  // namespace bpe::merge
