// WordState: which tokens may be joined in the second stage of superwords (SuperBPE: Liu et al., 2025).
//
// Idea: a token may hold several words, but not more than asked for, and no colon followed by a space. Words are the
// parts between spaces (U+0020 alone). What two tokens make follows from a few numbers of each. Both rules are monotone:
// no token that breaks one is part of a token that keeps it.
#pragma once
#include <cstdint>
#include <string_view>

namespace bpe::merge {

class WordState {
 public:
  WordState() = default;
  explicit WordState(std::string_view bytes) : first_(bytes.front()), last_(first_), words_(first_ != ' ') {
    for (const char byte : bytes.substr(1)) {
      words_ += last_ == ' ' && byte != ' ';
      has_colon_ |= last_ == ':' && byte == ' ';
      last_ = byte;
    }
  }
  uint64_t words() const { return words_; }
  bool has_colon() const { return has_colon_; }  // followed by a space

  static WordState joined(const WordState& left, const WordState& right) {
    WordState both;
    both.words_ = left.words_ + right.words_ - (left.last_ != ' ' && right.first_ != ' ');
    both.has_colon_ = left.has_colon_ || right.has_colon_ || (left.last_ == ':' && right.first_ == ' ');
    both.first_ = left.first_;
    both.last_ = right.last_;
    return both;
  }

 private:
  char first_ = 0, last_ = 0;
  bool has_colon_ = false;
  uint32_t words_ = 0;
};

}  // namespace bpe::merge
