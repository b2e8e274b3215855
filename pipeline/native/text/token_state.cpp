// The contract of each rule about tokens, asserted while the core is compiled.
#include "text/token_state.hpp"

namespace bpe {
namespace {

// The bytes that the rules tell apart: a space, a colon, a letter, and both bytes of a character.
constexpr std::string_view kBytes = " :a\xC3\xA9";
constexpr size_t kSingle = kBytes.size(), kTokens = kSingle + kSingle * kSingle;

// Text number `i` of those of one byte, then of two.
constexpr std::string text_of(size_t i) {
  if (i < kSingle) return {kBytes[i]};
  return {kBytes[(i - kSingle) / kSingle], kBytes[(i - kSingle) % kSingle]};
}

constexpr bool keeps_contract(const MergeRules& rules) {
  std::array<TokenState, kTokens> tokens;
  for (size_t i = 0; i < kTokens; ++i) tokens[i] = TokenState::of(text_of(i));
  const auto exists = [&](size_t i) { return i < kSingle || !tokens[i].forbidden(rules); };
  const auto forbids = [&](const TokenState& left, const TokenState& right) {
    return TokenState::joined(left, right).forbidden(rules);
  };
  for (size_t left = 0; left < kTokens; ++left)
    for (size_t right = 0; right < kTokens; ++right) {
      if (!exists(left) || !exists(right)) continue;
      const TokenState made = TokenState::joined(tokens[left], tokens[right]);
      if (made.forbidden(rules) != TokenState::of(text_of(left) + text_of(right)).forbidden(rules)) return false;
      if (made.forbidden(rules) || tokens[left].frees(rules)) continue;
      for (size_t other = 0; other < kSingle; ++other)
        if ((forbids(tokens[right], tokens[other]) && !forbids(made, tokens[other])) ||
            (forbids(tokens[other], tokens[left]) && !forbids(tokens[other], made)))
          return false;
    }
  return true;
}

static_assert(keeps_contract({.max_token_bytes = 2}));
static_assert(keeps_contract({.whole_characters = true}));
static_assert(keeps_contract({.max_words = 1}));
static_assert(keeps_contract({.no_colon = true}));
static_assert(kTokenRules.size() == 4, "assert the contract of a new rule, too");

}  // namespace
}  // namespace bpe
