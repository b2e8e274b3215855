// PairTable: two ASCII characters make one step, sixteen of them one group without a branch.
//
// Idea: for each pair of classes and each state the folded table's two steps are composed into where they lead and
// which boundaries they write (a mark of three bits: before the character that came before, before the first, before
// the second). The marks of a group are added into one number, in which each bit is the position of a boundary, and
// tables turn eight such bits into as many ends. Pairs that need more than a mark (SLOW, RETRACT) lead to a trap state
// that is never left: a group that ends there is not taken, and its characters are left to single steps.
// Invariant: no boundary is written twice, so that the last mark of a pair and the first of the next do not collide.
// Cost: one dependent load and about eight instructions a pair; 4 bytes for each pair of classes and state.
#pragma once
#include "text/base.hpp"

namespace bpe {

inline constexpr uint32_t kBack = 1;          // a boundary before the previous character
inline constexpr uint32_t kHere = 2;          // a boundary before this one
inline constexpr uint32_t kRetractShift = 2;  // that many boundaries are taken back first
inline constexpr uint32_t kRetractMask = 7;
inline constexpr uint32_t kSlow = 32;  // the plain table decides

// One step of an automaton's folded table, and its flags.
struct Step {
  uint16_t next;
  uint16_t flags;
};

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
  std::array<const Step*, 128> first_{};  // where the pairs with this first character start in steps_
  std::array<uint32_t, 128> second_{};    // bytes to be added for the second
};

}  // namespace bpe
