// MadeBytes: what a stage that starts from tokens must know of the bytes that its merges make.
//
// Idea: bytes that are watched are few, so a pair's joint hash (a polynomial, put together from those of its tokens) is
// looked up in a filter first; only what passes is written out and compared. No other token is ever made twice: an
// occurrence of a token's bytes whose ends no merge has crossed has become that token already, if its own bytes do.
#pragma once
#include "merge/merge.hpp"

namespace bpe::merge {

class MadeBytes {
 public:
  // Tokens are numbered as in `start`; later ones follow in order of `add`.
  explicit MadeBytes(const MergeStart& start) : next_id_(start.first_new_id), filter_(size_t{1} << kFilterBits) {
    if (start.tokens.size() < 256 || start.ids.size() != start.tokens.size())
      throw std::invalid_argument("a stage starts from 256 tokens or more, each with an id");
    for (const auto& bytes : start.forbidden) watch(bytes, kForbidden);
    for (const auto number : start.again) watch(start.tokens.at(number), start.ids.at(number));
    for (size_t number = 0; number < start.tokens.size(); ++number) push(start.tokens[number], start.ids[number]);
  }
  uint32_t id(size_t number) const { return tokens_[number].id; }
  bool forbids(size_t left, size_t right) const {
    const auto* const found = find(left, right);
    return found != nullptr && *found == kForbidden;
  }
  // Adds what a merge makes; whether its id is a new one.
  bool add(size_t left, size_t right) {
    const auto* const found = find(left, right);
    const bool is_new = found == nullptr;
    push(tokens_[left], tokens_[right], is_new ? next_id_ : *found);
    next_id_ += is_new;
    return is_new;
  }

 private:
  static constexpr uint64_t kBase = 0x9E3779B97F4A7C15u;
  static constexpr unsigned kFilterBits = 18;
  static constexpr uint32_t kForbidden = std::numeric_limits<uint32_t>::max();
  struct Token {
    uint64_t size, hash, power;  // of kBase, to the size
    std::string bytes;           // empty where longer than all that are watched
    uint32_t id;
  };
  static size_t place_of(uint64_t hash) { return (hash ^ hash >> 32) * kBase >> (64 - kFilterBits); }
  static Token token_of(const std::string& bytes, uint32_t id) {
    Token token{bytes.size(), 0, 1, bytes, id};
    for (const char byte : bytes) {
      token.hash = token.hash * kBase + static_cast<uint8_t>(byte) + 1;
      token.power *= kBase;
    }
    return token;
  }
  void watch(const std::string& bytes, uint32_t id) {
    longest_ = std::max(longest_, bytes.size());
    filter_[place_of(token_of(bytes, id).hash)] = true;
    watched_.emplace(bytes, id);
  }
  void push(const std::string& bytes, uint32_t id) {
    tokens_.push_back(token_of(bytes, id));
    if (bytes.size() > longest_) tokens_.back().bytes.clear();
  }
  void push(const Token& left, const Token& right, uint32_t id) {
    const auto size = left.size + right.size;
    tokens_.push_back({size, left.hash * right.power + right.hash, left.power * right.power,
                       size > longest_ ? std::string() : left.bytes + right.bytes, id});
  }
  const uint32_t* find(size_t left, size_t right) const {
    const Token &a = tokens_[left], &b = tokens_[right];
    if (a.size + b.size > longest_ || !filter_[place_of(a.hash * b.power + b.hash)]) return nullptr;
    const auto found = watched_.find(a.bytes + b.bytes);
    return found == watched_.end() ? nullptr : &found->second;
  }

  uint32_t next_id_;
  size_t longest_ = 0;
  std::vector<bool> filter_;
  std::unordered_map<std::string, uint32_t> watched_;  // bytes -> the id that they have, or kForbidden
  std::vector<Token> tokens_;
};

}  // namespace bpe::merge
