// TokenState: what the rules about tokens know of one. The merge engine joins the states of two tokens and asks whether their
// merge is allowed.
//
// Contract of a rule, with any tokens that it allows:
//   1. joined(of(a), of(b)) is forbidden exactly if of(a + b) is.
//   2. It is monotone (no token that breaks it is part of one that keeps it), or frees() names the merges after which it is
//      not: the engine bounds the counts that a merge can make by those of the pairs it takes apart, unless these were
//      forbidden (merge/batch.hpp).
// token_state.cpp asserts both for each rule of `kTokenRules`: a new rule is a field of MergeRules, its name in kTokenRules,
// what it must know in TokenState, and a line there.
//
// whole_characters (Land and Arnett, 'BPE stays on SCRIPT', 2025): characters of UTF-8 are built from the left. A token is
// complete (one character or more), the beginning of one character, one continuation byte, or loose (all else). Two complete
// tokens may be joined, and a beginning with the byte that continues it, if these are well-formed (The Unicode Standard,
// table 3-7). So no token holds a part of a character together with anything else.
// max_words, no_colon (SuperBPE: Liu et al., 2025): words are the parts between spaces (U+0020 alone).
#pragma once
#include "text/merge_rules.hpp"
#include "text/utf8.hpp"

namespace bpe {

inline constexpr auto kTokenRules = obeyed("max_token_bytes", "whole_characters", "max_words", "no_colon");

class TokenState {
 public:
  constexpr TokenState() = default;  // of no bytes
  static constexpr TokenState of(std::string_view bytes) {
    TokenState token, character;
    for (const char byte : bytes) {
      character = joined(character, TokenState(byte));
      if (character.character_ == kComplete) token = joined(token, std::exchange(character, {}));
    }
    return joined(token, character);
  }
  static constexpr TokenState joined(const TokenState& left, const TokenState& right) {
    if (left.size_ == 0 || right.size_ == 0) return left.size_ == 0 ? right : left;
    TokenState both;
    both.size_ = left.size_ + right.size_;
    both.character_ = joined_character(left.character_, right.character_);
    both.words_ = left.words_ + right.words_ - (left.last_ != ' ' && right.first_ != ' ');
    both.has_colon_ = left.has_colon_ || right.has_colon_ || (left.last_ == ':' && right.first_ == ' ');
    both.first_ = left.first_;
    both.last_ = right.last_;
    return both;
  }
  constexpr uint64_t size() const { return size_; }  // in bytes

  // Whether any token is forbidden.
  static constexpr bool forbid_any(const MergeRules& rules) {
    return rules.max_token_bytes != MergeRules::kAnyLength || rules.whole_characters || rules.max_words != 0 ||
           rules.no_colon;
  }
  // Whether no merge may make such a token.
  constexpr bool forbidden(const MergeRules& rules) const {
    return size_ > rules.max_token_bytes || (rules.whole_characters && character_ == kLoose) ||
           (rules.max_words != 0 && words_ > rules.max_words) || (rules.no_colon && has_colon_);
  }
  // Whether what a merge with this token on the left makes may be merged with tokens that its parts could not be merged with.
  constexpr bool frees(const MergeRules& rules) const { return rules.whole_characters && character_ != kComplete; }

 private:
  static constexpr uint32_t kLoose = 0, kComplete = 1;

  constexpr explicit TokenState(char byte) : size_(1), words_(byte != ' '), first_(byte), last_(byte) {
    const auto value = static_cast<uint8_t>(byte);
    character_ = value < 0x80 ? kComplete : never_in_utf8(value) ? kLoose : value;
  }
  static constexpr uint32_t joined_character(uint32_t left, uint32_t right) {
    if (left == kComplete && right == kComplete) return kComplete;
    const bool continued = left >= 0xC2 && right >= 0x80 && right < 0xC0;
    if (!continued) return kLoose;
    const uint32_t value = left << 8 | right;
    const size_t size = left < 0x100 ? 2 : left < 0x10000 ? 3 : 4;
    std::array<uint8_t, 4> text{};
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<uint8_t>(value >> (8 * (size - 1 - i)));
    if (character_size(text.data(), size) == size) return kComplete;
    const auto [ill_formed, unfinished] = ill_formed_at(text.data(), size);
    return unfinished && ill_formed == size ? value : kLoose;
  }

  uint64_t size_ = 0;
  uint32_t character_ = kLoose;  // or kComplete, or the bytes of a beginning or a continuation, the last one lowest
  uint32_t words_ = 0;
  char first_ = 0, last_ = 0;
  bool has_colon_ = false;  // followed by a space
};

}  // namespace bpe
