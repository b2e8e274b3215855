// Automaton: cuts text into pre-tokens; any compiled pattern, one kernel.
//
// Idea. The tables come from Python (pipeline/bpe_pipeline/pattern), over classes of characters. The folded table cuts without ever
// reading a character twice: a step may write a boundary before the previous character (BACK) and before this one
// (HERE), after taking some earlier ones back (RETRACT); SLOW leaves one pre-token to the plain table, which scans to the
// last match and rewinds. Two neighbouring ASCII characters make one step in the pair table, which is composed from the
// folded one. Where the machine has vector instructions, most boundaries of ASCII text are read from windows of five
// characters, many at once (see windows.hpp), and steps are taken only where a window does not decide.
//
// Invariants. An Automaton never changes: threads share it. Text is valid UTF-8; on anything else the pre-tokens are
// unspecified, but nothing outside the text is read. A state's tentative boundaries are the last ones written.
//
// Cost. One dependent load a step; one step for two ASCII characters, otherwise one for each character.
#pragma once
#include "text/ahead.hpp"
#include "text/automaton_pairs.hpp"
#include "text/simd.hpp"

namespace bpe {

inline constexpr size_t npos = static_cast<size_t>(-1);
inline constexpr uint32_t kCodePoints = 0x110000;

// What Python passes. Class `classes - 1` is the end of the document.
struct AutomatonTables {
  std::span<const uint32_t> class_starts;  // ascending, the first is 0: where a run of one class starts
  std::span<const uint8_t> class_ids;      // the class of each run
  uint32_t classes = 0;
  std::span<const uint16_t> plain;     // [state][class] next << 1 | matched; state 0 dead, state 1 starts a pre-token
  std::span<const uint32_t> folded;    // [state][class] next << 16 | flags; state 0 starts a text
  std::span<const uint8_t> tentative;  // [state] boundaries written that may be taken back
  std::span<const uint8_t> provable;   // [class][class] 1 where a pre-token ends between two characters in any text
  std::span<const uint8_t> ahead, variants;  // of Ahead
};

class Automaton {
 public:
  // Copies the tables; std::invalid_argument if they do not fit together.
  explicit Automaton(const AutomatonTables& tables);

  // Cuts text[begin, size) into pre-tokens and writes the end of each to `ends` (at most `max_ends` >= 1; *n_ends says how
  // many). `at_end`: the document ends at `size`; otherwise more of it follows, and cutting stops before the first
  // pre-token that this could change. Returns where the first pre-token not written starts: call again from there. `ahead` is
  // kept from one call to the next while the text stays the same, so that a long stretch of digits is not read again.
  size_t cut(const uint8_t* text, size_t begin, size_t size, bool at_end, uint32_t* ends, size_t max_ends,
             size_t* n_ends, AheadStretch& ahead) const;

  // The first offset in [from, to) at which a pre-token ends whatever comes before and after the two characters next to it,
  // and at which the document may be cut in two without a change on either side. Both must be valid UTF-8; the text
  // elsewhere need not be. npos if there is none.
  size_t find_provable_cut(const uint8_t* text, size_t size, size_t from, size_t to) const;

  size_t memory_bytes() const;

 private:
  struct Character {
    uint32_t cls;
    uint32_t length;  // 0: more text is needed: the text ends inside of it, or look-ahead is undecided
  };

  struct Cursor {
    uint32_t state;
    size_t at;
    size_t previous;  // where the character before `at` starts
    size_t count;     // of ends written, tentative ones included
  };

  uint32_t class_at(uint32_t code) const { return blocks_[block_of_[code >> 6] + (code & 63)]; }
  Character character(const uint8_t* text, size_t at, size_t size) const;
  Character character_ahead(const uint8_t* text, size_t at, size_t size, AheadStretch& ahead) const;
  Character open_character(Character next, const uint8_t* text, size_t at, size_t size, AheadStretch& ahead) const;
  Cursor run_windows(Cursor now, const uint8_t* text, size_t size, uint32_t* ends, size_t limit,
                     AheadStretch& ahead) const;
  bool pass_undecided(Cursor& now, size_t base, uint64_t undecided, const uint8_t* text, size_t size, uint32_t* ends,
                      size_t limit, AheadStretch& ahead) const;
  bool finish(Cursor& now, size_t begin, size_t size, uint32_t* ends) const;
  bool run_one(Cursor& now, const uint8_t* text, size_t begin, size_t size, uint32_t* ends, AheadStretch& ahead) const;
  bool run(Cursor& out, const uint8_t* text, size_t begin, size_t size, uint32_t* ends, size_t limit,
           AheadStretch& ahead) const;
  size_t plain_pre_token(const uint8_t* text, size_t begin, size_t size, AheadStretch& ahead) const;
  size_t plain_match(const uint8_t* text, size_t begin, size_t size, AheadStretch& ahead) const;
  void make_class_table(const AutomatonTables& tables);

  Ahead ahead_;
  uint32_t classes_ = 0;
  uint32_t states_ = 0;
  uint32_t state_shift_ = 0;  // steps_ is [class << state_shift_ | state]
  std::vector<Step> steps_;   // the folded table
  PairTable pairs_;           // the same for two ASCII characters at once
  Simd simd_;
  std::shared_ptr<const WindowRules> windows_;  // what windows of ASCII characters decide
  std::array<uint8_t, 2048> low_;               // classes of the characters of one and two bytes
  std::vector<uint16_t> block_of_;              // [code point / 64] where its block starts in blocks_
  std::vector<uint8_t> blocks_;                 // classes, 64 a block, equal blocks stored once
  std::vector<uint16_t> plain_;
  std::vector<uint8_t> tentative_;
  std::vector<uint8_t> provable_;
};

}  // namespace bpe
