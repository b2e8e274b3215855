// MergeRules: which merges are right, whatever way they are found. A plain value: the merge engine lists the rules that it
// obeys; those about tokens are in token_state.hpp.
#pragma once
#include <tuple>

#include "text/base.hpp"

namespace bpe {

enum class TieBreak : uint8_t {
  kLowestIds,        // the smaller (left id, right id): the choice of Hugging Face's BpeTrainer
  kGreatestBytes,    // the greater (left bytes, right bytes), compared as a tuple: the choice of Stanford's CS336
  kGreatestLetters,  // the same, in letters of GPT-2's alphabet: the choice of ParityBpeTrainer
};

struct MergeRules {
  static constexpr uint64_t kAnyLength = std::numeric_limits<uint64_t>::max();

  uint64_t min_frequency = 1;                 // pairs that occur less often are not merged
  uint64_t min_pre_token_count = 1;           // pre-tokens counted less often are ignored
  uint64_t max_token_bytes = kAnyLength;      // longer pairs are never merged
  bool whole_characters = false;              // tokens are characters of UTF-8, or the beginning of one
  TieBreak tie_break = TieBreak::kLowestIds;  // among equal counts
  // For merges after those that are known:
  uint64_t max_words = 0;  // parts between spaces in a token; 0: any number
  bool no_colon = false;   // no token has a colon and a space after it
};

template <class Value>
struct RuleField {
  const char* name;  // in Python
  Value MergeRules::* value;
};
inline constexpr std::tuple kRuleFields{
    RuleField{"min_frequency", &MergeRules::min_frequency},
    RuleField{"min_pre_token_count", &MergeRules::min_pre_token_count},
    RuleField{"max_token_bytes", &MergeRules::max_token_bytes},
    RuleField{"whole_characters", &MergeRules::whole_characters},
    RuleField{"tie_break", &MergeRules::tie_break},
    RuleField{"max_words", &MergeRules::max_words},
    RuleField{"no_colon", &MergeRules::no_colon},
};

using RuleName = std::string_view;

// The rules that the engine obeys, by name; each is a field. Python refuses to load a core that misses one.
template <class... Names>
consteval auto obeyed(Names... names) {
  const auto is_field = [](RuleName name) {
    return std::apply([&](const auto&... fields) { return ((name == fields.name) || ...); }, kRuleFields);
  };
  if (!(is_field(names) && ...)) throw std::invalid_argument("no field of MergeRules");
  return std::array{RuleName(names)...};
}

}  // namespace bpe
