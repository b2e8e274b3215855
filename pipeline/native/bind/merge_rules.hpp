// How MergeRules crosses from Python, by the names of its fields, and the names that a side of the core obeys.
#pragma once
#include "bind/casters.hpp"
#include "text/token_state.hpp"

namespace bpe {

template <>
inline constexpr std::array<std::string_view, 2> names_of<TieBreak>{"lowest-ids", "greatest-bytes"};

// The rules that the engine obeys, with those about tokens.
template <size_t N>
std::vector<std::string> names_of_rules(const std::array<RuleName, N>& rules) {
  std::vector<std::string> names(rules.begin(), rules.end());
  names.insert(names.end(), kTokenRules.begin(), kTokenRules.end());
  return names;
}

}  // namespace bpe

namespace nanobind::detail {

template <>
struct type_caster<bpe::TieBreak> : named_caster<bpe::TieBreak> {};

template <>
struct type_caster<bpe::MergeRules> {
  NB_TYPE_CASTER(bpe::MergeRules, const_name("MergeRules"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    const auto read = [&](const auto& rule) {  // None: as it is by default
      const object given = getattr(source, rule.name, handle());
      return given.is_none() || (given.is_valid() && try_cast(given, value.*rule.value, false));
    };
    return std::apply([&](const auto&... rules) { return (read(rules) && ...); }, bpe::kRuleFields);
  }
};

}  // namespace nanobind::detail
