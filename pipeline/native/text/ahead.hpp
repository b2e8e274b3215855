// Look-ahead: which variant of its class an open character has (see pipeline/bpe_pipeline/pattern/ahead.py).
//
// Idea. The look-aheads of a pattern are one small automaton that is run from a position on until it is decided. A stretch
// of text in which some run is always undecided is read once forward, to find where it ends, and once backward: for each
// character and each state of the automaton, the verdict that the text from there on leads to.
// Invariant. A stretch holds for the text that it was read from, until that is changed or moved: its owner is a loop of
// calls on one text.
// Cost. A few loads for each state and character of a stretch, whose classes take a byte for each byte of text.
#pragma once
#include "text/base.hpp"

namespace bpe {

struct AheadStretch {
  const uint8_t *from = nullptr, *to = nullptr;  // of the text
  const uint8_t* seen = nullptr;                 // the end of the text when this was read
  bool at_end = false;                           // the document ends with the text
  std::vector<uint8_t> classes;                  // of the characters that start in [from, to)
};

class Ahead {
 public:
  static constexpr uint8_t kDecided = 128;    // entries from here on are verdicts
  static constexpr uint8_t kUnknown = 255;    // more text decides
  static constexpr uint8_t kContinued = 254;  // a byte in which no character starts

  Ahead() = default;
  // `table`: [state][class] the next state or kDecided + verdict, class `classes` is the end of the document;
  // `variants`: [class][verdict] the class that stands for both. Nothing looks ahead where they are empty.
  // std::invalid_argument if they do not fit together; a variant is below `limit`.
  Ahead(std::span<const uint8_t> table, std::span<const uint8_t> variants, uint32_t classes, uint32_t limit);

  bool open(uint32_t cls) const { return cls < open_.size() && open_[cls]; }

  // Reads the stretch that starts at text[at]. `character(at)`: the class and length of one, length 0 for an incomplete
  // one at the end of the text.
  template <class CharacterAt>
  void read(const uint8_t* text, size_t at, size_t size, const CharacterAt& character, AheadStretch& stretch) const {
    uint64_t live = 0;
    size_t stop = at;
    stretch.classes.clear();
    do {
      const auto next = stop < size ? character(stop) : decltype(character(stop)){0, 0};
      if (next.length == 0) break;
      uint64_t after = 0;
      for (uint64_t left = live | 1; left; left &= left - 1) {
        const uint8_t entry = table_[static_cast<size_t>(std::countr_zero(left)) * width_ + next.cls];
        if (entry < kDecided) after |= uint64_t{1} << entry;
      }
      live = after;
      stretch.classes.push_back(static_cast<uint8_t>(next.cls));
      stretch.classes.insert(stretch.classes.end(), next.length - 1, kContinued);
      stop += next.length;
    } while (live);
    stretch.from = text + at;
    stretch.to = text + stop;
    stretch.seen = text + size;
    decide(stretch.classes, stretch.at_end && stop >= size);
  }

 private:
  void decide(std::vector<uint8_t>& classes, bool at_end) const;

  size_t width_ = 0, states_ = 0, verdicts_ = 0;
  std::vector<uint8_t> table_, variants_;
  std::vector<bool> open_;
};

}  // namespace bpe
