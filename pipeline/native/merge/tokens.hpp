// Symbols and the tokens they mean.
//
// Inside the merge engine a symbol is a byte's id (0..255), the boundary between words, or 257 + rank for the token a
// merge made. The boundary is below the merges so that it fits symbols of every width; the order of symbols is the
// order of token ids.
//
// Idea: Tokens keeps how each token was made, not its bytes: a chain of merges over one long pre-token would need bytes
// quadratic in its length. Its first 16 bytes decide nearly every comparison; the rest walks down the two derivations
// and skips what they share.
#pragma once
#include "merge/start.hpp"
#include "text/token_state.hpp"

namespace bpe::merge {

using Symbol = uint32_t;
inline constexpr Symbol kBoundary = 256, kFirstMerge = 257;

// The byte of each token id from 0 to 255, in GPT-2's order: printable characters first.
inline constexpr auto kByteOfId = [] {
  std::array<uint8_t, 256> made{};
  size_t next = 0;
  for (const bool wanted : {true, false})
    for (unsigned byte = 0; byte < 256; ++byte)
      if (((byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD)) == wanted)
        made[next++] = static_cast<uint8_t>(byte);
  return made;
}();
inline uint8_t byte_of_id(unsigned id) { return kByteOfId[id]; }

inline uint32_t id_of(Symbol symbol) { return symbol < kBoundary ? symbol : symbol - 1; }
inline Symbol symbol_of(uint32_t id) { return id < kBoundary ? id : id + 1; }

class Tokens {
 public:
  explicit Tokens(const MergeOptions& options)
      : rules_(options.rules),
        forbids_any_(TokenState::forbid_any(rules_) || options.start != nullptr),
        entries_(kFirstMerge) {
    if (const auto* const start = options.start) {
      if (rules_.tie_break != TieBreak::kLowestIds)
        throw std::invalid_argument(
            "start: its tokens have ids and no order of bytes; pairs are compared by lowest-ids");
      made_.emplace(*start);
      entries_.resize(start->tokens.size() + 1);
      for (size_t id = 0; id < start->tokens.size(); ++id)
        entries_[symbol_of(static_cast<uint32_t>(id))].state = TokenState::of(start->tokens[id]);
      return;
    }
    for (unsigned id = 0; id < 256; ++id) {
      const auto byte = static_cast<char>(byte_of_id(id));
      entries_[id] = {{uint64_t{order_of(id)} << 56, 0}, TokenState::of({&byte, 1}), id, id};
    }
  }
  Symbol add(Symbol left, Symbol right) {
    const Entry &a = entries_[left], &b = entries_[right];
    Entry joined{{a.head[0], a.head[1]}, TokenState::joined(a.state, b.state), left, right};
    if (a.bytes() < 8) {
      const auto shift = static_cast<unsigned>(8 * a.bytes());
      joined.head[0] |= b.head[0] >> shift;
      joined.head[1] = b.head[0] << (64 - shift) | b.head[1] >> shift;
    } else if (a.bytes() < 16) {
      joined.head[1] |= b.head[0] >> (8 * (a.bytes() - 8));
    }
    entries_.push_back(joined);
    last_is_new_ = !made_ || made_->add(id_of(left), id_of(right));
    return next() - 1;
  }
  const MergeRules& rules() const { return rules_; }
  bool last_is_new() const { return last_is_new_; }  // whether the last one that was added has an id of its own
  Symbol next() const { return static_cast<Symbol>(entries_.size()); }
  // Whether the two may not be merged: by a rule about tokens, or what a stage starts from.
  bool forbids(Symbol left, Symbol right) const {
    return forbids_any_ && (TokenState::joined(entries_[left].state, entries_[right].state).forbidden(rules_) ||
                            (made_ && made_->forbids(id_of(left), id_of(right))));
  }
  // Whether what a merge makes may be merged with tokens that could not be merged with its left or right token.
  bool frees(Symbol left) const { return made_ || entries_[left].state.frees(rules_); }
  bool have_ids() const { return made_.has_value(); }  // otherwise the order of symbols is that of ids
  // Whether a pair's ids, the left one first, are above those of another pair, where tokens have ids.
  bool above(Symbol left, Symbol right, Symbol other_left, Symbol other_right) const {
    const auto id = [this](Symbol symbol) { return made_->id(id_of(symbol)); };
    return std::pair(id(left), id(right)) > std::pair(id(other_left), id(other_right));
  }
  // Below, equal to, or above zero as the bytes of `one`, or their letters, sort before, with, or after those of `other`.
  int compare(Symbol one, Symbol other) const {
    if (one == other) return 0;
    const Entry &a = entries_[one], &b = entries_[other];
    for (int half = 0; half < 2; ++half)
      if (a.head[half] != b.head[half]) return a.head[half] < b.head[half] ? -1 : 1;
    if (a.bytes() > 16 && b.bytes() > 16) return compare_beyond_heads(one, other);
    return a.bytes() < b.bytes() ? -1 : a.bytes() > b.bytes();  // one is the other's beginning
  }

 private:
  struct Entry {
    uint64_t bytes() const { return state.size(); }
    uint64_t head[2] = {};  // the first 16 bytes, most significant first, zeros after the end
    TokenState state;
    Symbol left = 0, right = 0;
  };
  // What a byte is compared by: itself, or its letter; GPT-2's ids are in the order of the letters.
  unsigned order_of(Symbol byte) const {
    return rules_.tie_break == TieBreak::kGreatestLetters ? byte : byte_of_id(byte);
  }
  int compare_beyond_heads(Symbol one, Symbol other) const {
    // What is still to be compared, the next part last.
    std::vector<Symbol> rest_a{one}, rest_b{other};
    while (!rest_a.empty() && !rest_b.empty()) {
      const Symbol a = rest_a.back(), b = rest_b.back();
      const auto bytes_a = entries_[a].bytes(), bytes_b = entries_[b].bytes();
      if (a == b) {
        rest_a.pop_back();
        rest_b.pop_back();
      } else if (bytes_a == 1 && bytes_b == 1) {
        return order_of(a) < order_of(b) ? -1 : 1;
      } else {
        auto& longer = bytes_a >= bytes_b ? rest_a : rest_b;
        const Entry& split = entries_[longer.back()];
        longer.back() = split.right;
        longer.push_back(split.left);
      }
    }
    return static_cast<int>(!rest_a.empty()) - static_cast<int>(!rest_b.empty());
  }

  const MergeRules rules_;
  const bool forbids_any_;
  std::vector<Entry> entries_;     // by symbol
  std::optional<MadeBytes> made_;  // of a stage that starts from tokens
  bool last_is_new_ = true;
};

}  // namespace bpe::merge
