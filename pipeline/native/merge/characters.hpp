// CharacterState: which tokens may be joined where each is to be whole characters of UTF-8 or the beginning of one.
//
// Idea (Land and Arnett, 'BPE stays on SCRIPT', 2025): characters are built from the left. A token is complete (one
// character or more), the beginning of one character, one continuation byte, or loose (all else). Two complete tokens may
// be joined, and a beginning with the byte that continues it, if these are well-formed (The Unicode Standard, table 3-7).
// So no token holds a part of a character together with anything else.
#pragma once
#include <cstdint>
#include <string_view>

#include "text/utf8.hpp"

namespace bpe::merge {

class CharacterState {
 public:
  CharacterState() = default;  // loose
  explicit CharacterState(std::string_view bytes) {
    const auto* const text = reinterpret_cast<const uint8_t*>(bytes.data());
    if (!bytes.empty() && valid_utf8_prefix(text, bytes.size()) == bytes.size()) {
      value_ = kComplete;
      return;
    }
    for (size_t i = 0; i < bytes.size(); ++i) {
      CharacterState byte;
      byte.value_ = text[i] < 0x80 ? kComplete : text[i] > 0xF4 || text[i] == 0xC0 || text[i] == 0xC1 ? kLoose : text[i];
      *this = i == 0 ? byte : joined(*this, byte);
    }
  }
  bool is_complete() const { return value_ == kComplete; }
  bool is_loose() const { return value_ == kLoose; }

  // What the two make together; loose where they may not be joined.
  static CharacterState joined(CharacterState left, CharacterState right) {
    CharacterState both;
    if (left.is_complete() && right.is_complete()) return left;
    if (!left.is_beginning() || !right.is_continuation()) return both;
    const auto first = left.value_, next = right.value_;
    const uint32_t bytes = first < 0x100 ? 1 : first < 0x10000 ? 2 : 3, lead = first >> (8 * (bytes - 1));
    const bool too_long = (first == 0xE0 && next < 0xA0) || (first == 0xF0 && next < 0x90);
    const bool no_character = (first == 0xED && next > 0x9F) || (first == 0xF4 && next > 0x8F);
    if (too_long || no_character) return both;
    both.value_ = bytes + 1 == (lead < 0xE0 ? 2u : lead < 0xF0 ? 3u : 4u) ? kComplete : first << 8 | next;
    return both;
  }

 private:
  static constexpr uint32_t kLoose = 0, kComplete = 1;
  bool is_continuation() const { return value_ >= 0x80 && value_ < 0xC0; }
  bool is_beginning() const { return value_ >= 0xC2; }

  uint32_t value_ = kLoose;  // otherwise kComplete, or the bytes of a beginning or a continuation, the last one lowest
};

}  // namespace bpe::merge
