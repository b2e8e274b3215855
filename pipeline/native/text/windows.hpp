// WindowRules: what three characters before a position and two from it on prove about a boundary there, in a form that
// vector instructions evaluate at many positions at once.
//
// Idea: ASCII characters are sorted into at most 15 kinds; kind 0 is everything else, and whatever precedes the text.
// For each window of five kinds the folded table is run from every state it can be in. If every path writes the boundary,
// or no path does, and none can take it back, the window is certain. The certain boundaries, and the windows that decide
// nothing, are covered with boxes: a set of kinds for each of the five characters. Eight boxes are one plane: a byte for
// each offset and kind, with a bit for each box that the kind belongs to; the five bytes of a window, combined with AND,
// are not zero exactly if one of the boxes holds it.
// Invariants: a certain boundary does not depend on anything outside its window. What has no box left counts as
// undecided; there are no rules where undecided windows need more boxes than there are, nor for an automaton with SLOW
// steps: those look back at text that states do not hold.
#pragma once
#include "text/automaton_pairs.hpp"

namespace bpe {

struct WindowRules {
  static constexpr size_t kOffsets = 5;  // the characters at -3, -2, -1, 0 and 1
  static constexpr size_t kKinds = 16, kBoxes = 8;
  static constexpr size_t kBoundaryPlanes = 3, kPlanes = 7;  // the others are for undecided windows

  alignas(64) std::array<uint8_t, 128> kinds{};
  alignas(64) std::array<std::array<std::array<uint8_t, kKinds>, kOffsets>, kPlanes> planes{};
  bool small = false;  // two planes of each sort are in use
};

// `low`: the classes of the ASCII characters; `classes`: all that occur in steps[class << shift | state], without the end
// of the document; a character of another class (which only look-ahead decides) is of kind 0.
// nullptr where nothing can be derived, or the automaton is large.
std::unique_ptr<const WindowRules> derive_windows(std::span<const uint8_t> low, std::span<const uint32_t> classes,
                                                  std::span<const Step> steps, uint32_t state_shift,
                                                  std::span<const uint8_t> tentative);

}  // namespace bpe
