// Lists of positions: where the pairs of a phase occur, ascending, one list per pair and shard.
//
// Idea: a list is a chain of chunks of growing size in its shard's arena; all lists grow while words are scanned in
// order. The arena only grows: it is emptied as a whole between phases, and a phase ends when it has grown too far.
// Invariant: handle 0 is the empty list.
// Cost: 4 bytes a position and 8 a chunk, plus the unused end of each list's last chunk.
#pragma once
#include "count/pages.hpp"
#include "merge/words.hpp"

namespace bpe::merge {

using ListHandle = uint32_t;

class PositionArena {
 public:
  uint32_t* at(ListHandle handle) { return blocks_[handle >> kBlockBits].data() + (handle & (kBlockWords - 1)); }

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
    if (in_use_ == blocks_.size()) blocks_.emplace_back(kBlockWords);
    used_ = in_use_ == 0 ? 1 : 0;  // no chunk has handle 0
    ++in_use_;
  }
  std::vector<Array<uint32_t>> blocks_;
  size_t in_use_ = 0;
  uint32_t used_ = kBlockWords;  // of the last block in use
};

// A list that is being written. Chunk: link, number of positions, the positions. While the list grows a chunk links to
// the one before it, so that a writer needs to know its last chunk only; finish() turns the links.
class ListWriter {
 public:
  void append(PositionArena& arena, Position position) {
    if (budget_ == 0) grow(arena);
    --budget_;
    *next_++ = position;
  }
  struct List {
    ListHandle handle = 0;
    uint64_t positions = 0;
  };
  // Ends the list; nothing may be appended after.
  List finish(PositionArena& arena) const {
    if (tail_ == 0) return {};
    arena.at(tail_)[1] = static_cast<uint32_t>(capacity_ - budget_);
    ListHandle after = 0;
    uint64_t positions = 0;
    for (ListHandle chunk = tail_; chunk != 0;) {
      positions += arena.at(chunk)[1];
      const ListHandle before = std::exchange(arena.at(chunk)[0], after);
      after = std::exchange(chunk, before);
    }
    return {after, positions};
  }
  void prefetch() const { __builtin_prefetch(next_, 1); }

 private:
  static constexpr uint32_t kFirstCapacity = 6, kMaxCapacity = 4094;
  void grow(PositionArena& arena) {
    const uint32_t capacity = capacity_ == 0 ? kFirstCapacity : std::min(kMaxCapacity, 2 * uint32_t{capacity_} + 2);
    const ListHandle chunk = arena.allocate(capacity + 2);
    uint32_t* const words = arena.at(chunk);
    words[0] = tail_;
    words[1] = capacity;
    next_ = words + 2;
    tail_ = chunk;
    budget_ = capacity_ = static_cast<uint16_t>(capacity);
  }
  Position* next_ = nullptr;
  ListHandle tail_ = 0;
  uint16_t budget_ = 0, capacity_ = 0;
};

// Appends a finished list to `out`.
inline void read_list(PositionArena& arena, ListHandle list, std::vector<Position>& out) {
  while (list != 0) {
    const uint32_t* chunk = arena.at(list);
    list = chunk[0];
    if (list != 0) __builtin_prefetch(arena.at(list));
    out.insert(out.end(), chunk + 2, chunk + 2 + chunk[1]);
  }
}

}  // namespace bpe::merge
