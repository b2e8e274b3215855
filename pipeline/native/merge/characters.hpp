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
      byte.value_ = text[i] < 0x80 ? kComplete : never_in_utf8(text[i]) ? kLoose : text[i];
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
    const uint32_t value = left.value_ << 8 | right.value_;
    const size_t size = left.value_ < 0x100 ? 2 : left.value_ < 0x10000 ? 3 : 4;
    std::array<uint8_t, 4> text;
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<uint8_t>(value >> (8 * (size - 1 - i)));
    if (character_size(text.data(), size) == size)
      both.value_ = kComplete;
    else if (const auto found = ill_formed_at(text.data(), size); found.unfinished && found.size == size)
      both.value_ = value;
    return both;
  }

 private:
  static constexpr uint32_t kLoose = 0, kComplete = 1;
  bool is_continuation() const { return value_ >= 0x80 && value_ < 0xC0; }
  bool is_beginning() const { return value_ >= 0xC2; }

  uint32_t value_ = kLoose;  // otherwise kComplete, or the bytes of a beginning or a continuation, the last one lowest
};

}  // namespace bpe::merge
