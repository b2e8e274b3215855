// Symbols and the tokens they mean.
//
// Inside the merge engine a symbol is a byte's id (0..255), the boundary between words, or 257 + rank for the token a
// merge made. The boundary is below the merges so that it fits symbols of every width; the order of symbols is the
// order of token ids.
//
// Idea: Tokens keeps how each token was made, not its bytes: a chain of merges over one long piece would need bytes
// quadratic in its length. Its first 16 bytes decide nearly every comparison; the rest walks down the two derivations
// and skips what they share.
#pragma once
#include "text/base.hpp"

namespace bpe::merge {

using Symbol = uint32_t;
inline constexpr Symbol kBoundary = 256, kFirstMerge = 257;

inline uint32_t id_of(Symbol symbol) { return symbol < kBoundary ? symbol : symbol - 1; }

class Tokens {
 public:
  explicit Tokens(uint64_t max_token_bytes);
  Symbol add(Symbol left, Symbol right);
  Symbol next() const { return static_cast<Symbol>(entries_.size()); }
  // Whether the two may not be merged, for max_token_bytes.
  bool forbids(Symbol left, Symbol right) const {
    return entries_[left].bytes + entries_[right].bytes > max_token_bytes_;
  }
  // Below, equal to, or above zero as the bytes of `one` sort before, with, or after those of `other`.
  int compare(Symbol one, Symbol other) const;

 private:
  struct Entry {
    uint64_t head[2];  // the first 16 bytes, most significant first, zeros after the end
    uint64_t bytes;
    Symbol left, right;
  };
  int compare_beyond_heads(Symbol one, Symbol other) const;
  const uint64_t max_token_bytes_;
  std::vector<Entry> entries_;
};

}  // namespace bpe::merge
