// Flags of a step of an automaton's folded table, for the files that read or compose it.
#pragma once
#include <cstdint>

namespace bpe {

inline constexpr uint32_t kBack = 1;          // a boundary before the previous character
inline constexpr uint32_t kHere = 2;          // a boundary before this one
inline constexpr uint32_t kRetractShift = 2;  // so many boundaries are taken back first
inline constexpr uint32_t kRetractMask = 7;
inline constexpr uint32_t kSlow = 32;         // the plain table decides

struct Step {
  uint16_t next;
  uint16_t flags;
};

}  // namespace bpe
