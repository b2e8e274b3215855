// PairTable: two ASCII characters make one step, sixteen of them one group without a branch.
//
// Idea: for each pair of classes and each state the folded table's two steps are composed into where they lead and
// which boundaries they write (a mark of three bits: before the character that came before, before the first, before
// the second). The marks of a group are added into one number, in which the bit of a boundary stands for its place,
// and tables turn eight such bits into as many ends. Pairs that need more than a mark (SLOW, RETRACT) lead to a trap
// state that is never left: a group that ends there is not taken, and its characters are left to single steps.
// Invariant: no boundary is written twice, so that the last mark of a pair and the first of the next do not collide.
// Cost: one dependent load and about eight instructions a pair; 4 bytes for each pair of classes and state.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "text/automaton_step.hpp"

namespace bpe {

class PairTable {
 public:
  static constexpr size_t kGroup = 16;   // bytes
  static constexpr size_t kMargin = 32;  // a group may write that many ends, whether they exist or not

  struct Cursor {
    uint32_t state;
    size_t at, count;
  };

  PairTable() = default;
  // `classes`: of the ASCII characters. Composes steps[class << state_shift | state]; empty where it would be large.
  PairTable(std::span<const uint8_t> classes, std::span<const Step> steps, uint32_t state_shift, uint32_t states);
  PairTable(PairTable&&) = default;
  PairTable& operator=(PairTable&&) = default;

  bool empty() const { return steps_.empty(); }
  size_t bytes() const { return steps_.size() * sizeof(Step); }

  // Takes groups from text[from.at, size) as long as they are ASCII and ordinary and count <= limit. The character
  // before the first has one byte.
  Cursor run(Cursor from, const uint8_t* text, size_t size, uint32_t* ends, size_t limit) const;

 private:
  std::vector<Step> steps_;  // [pair][state], flags are the marks; empty when it would be too large
  uint32_t trap_ = 0;
  std::array<const Step*, 128> first_{};  // where the pairs with this first character begin in steps_
  std::array<uint32_t, 128> second_{};    // bytes to be added for the second
};

}  // namespace bpe
