// KnownMerges: what merges that were made before make of a word: how a merging that was interrupted is taken up again,
// and how the second stage of superwords starts from the first.
//
// Idea: a merge that uses a token comes after the one that made it, so making the lowest merge that a word allows, from
// left to right, again and again, is the same as making all merges in their order. A word is cut first between bytes
// that no token has next to each other: merges never cross there. Short stretches are searched and remembered, long ones
// have a queue. How often each merge joins follows from how often its token is left and how often it is part of others.
#pragma once
#include <queue>

#include "count/pair_map.hpp"
#include "merge/tokens.hpp"
#include "merge/words.hpp"

namespace bpe::merge {

class KnownMerges {
  static constexpr size_t kMostTokens = 6, kStretches = 1 << 14;  // that are remembered

 public:
  // What one thread remembers: how often each merge's token is left in words, and what became of short stretches.
  class Memory {
   public:
    explicit Memory(const KnownMerges& known) : left_over(known.merges_.size(), 0), stretches(kStretches) {}

   private:
    friend class KnownMerges;
    struct Stretch {
      std::array<uint64_t, 2> bytes{};
      uint32_t size = 0, tokens = 0;
      std::array<Symbol, kMostTokens> made;
    };
    std::vector<uint64_t> left_over;
    std::vector<Stretch> stretches;
  };

  // Of bytes: merges are added in order of rank, and words are bytes until they are applied.
  void add(Symbol left, Symbol right, Symbol made) {
    if (merges_.empty()) first_ = made;
    const auto last = left < kBoundary ? left : ends_[left - first_].second;
    const auto next = right < kBoundary ? right : ends_[right - first_].first;
    joinable_[256 * last + next] = true;
    merges_.emplace_back(left, right);
    ends_.emplace_back(left < kBoundary ? left : ends_[left - first_].first,
                       right < kBoundary ? right : ends_[right - first_].second);
    made_.insert(left, right, made);
  }
  size_t merges() const { return merges_.size(); }

  // Joins what can be joined in word[0, size), which occurs `weight` times, and returns its new size.
  template <class S>
  size_t apply(S* word, size_t size, uint64_t weight, Memory& memory) const {
    size_t out = 0, begin = 0;
    for (size_t i = 1; i <= size; ++i) {
      if (i < size && joinable_[256 * size_t{word[i - 1]} + word[i]]) continue;
      S* const stretch = word + begin;
      const size_t tokens = i - begin == 1 ? 1 : apply_stretch(stretch, i - begin, memory);
      std::copy_n(stretch, tokens, word + out);
      out += tokens;
      begin = i;
    }
    for (size_t i = 0; i < out; ++i)
      if (word[i] >= first_) memory.left_over[word[i] - first_] += weight;
    return out;
  }

  // How often each merge has joined, by rank.
  std::vector<uint64_t> joined(const std::vector<Memory>& memories) const {
    std::vector<uint64_t> sums(merges_.size(), 0);
    for (const auto& memory : memories) add_to(sums, memory.left_over);
    for (size_t rank = sums.size(); rank-- > 0;)
      for (const Symbol part : {merges_[rank].first, merges_[rank].second})
        if (part >= kBoundary) sums[part - first_] += sums[rank];
    return sums;
  }

 private:
  static constexpr size_t kShort = 64;  // bytes
  static constexpr uint32_t kNone = PairMap<true>::kNone;

  template <class S>
  size_t apply_stretch(S* word, size_t size, Memory& memory) const {
    if (size > kShort) return apply_long(word, size);
    if (size > 16) return apply_short(word, size);
    std::array<uint64_t, 2> bytes{};
    for (size_t i = 0; i < size; ++i) bytes[i / 8] |= uint64_t{word[i]} << (8 * (i % 8));
    const auto hash = (bytes[0] ^ std::rotl(bytes[1], 29) ^ size) * 0x9E3779B97F4A7C15u;
    auto& known = memory.stretches[hash >> 50];
    if (known.size == size && known.bytes == bytes) {
      std::copy_n(known.made.begin(), known.tokens, word);
      return known.tokens;
    }
    const auto tokens = apply_short(word, size);
    if (tokens > kMostTokens) return tokens;
    known.bytes = bytes;
    known.size = static_cast<uint32_t>(size);
    known.tokens = static_cast<uint32_t>(tokens);
    std::copy_n(word, tokens, known.made.begin());
    return tokens;
  }

  template <class S>
  size_t apply_short(S* word, size_t size) const {
    std::array<uint32_t, kShort> made;
    for (size_t i = 0; i + 1 < size; ++i) made[i] = made_.find(word[i], word[i + 1]);
    while (size > 1) {
      const auto at = static_cast<size_t>(std::min_element(made.begin(), made.begin() + size - 1) - made.begin());
      if (made[at] == kNone) break;
      word[at] = static_cast<S>(made[at]);
      --size;
      std::copy(word + at + 2, word + size + 1, word + at + 1);
      if (at + 1 < size) std::copy(made.begin() + at + 2, made.begin() + size, made.begin() + at + 1);
      if (at > 0) made[at - 1] = made_.find(word[at - 1], word[at]);
      if (at + 1 < size) made[at] = made_.find(word[at], word[at + 1]);
    }
    return size;
  }

  template <class S>
  size_t apply_long(S* word, size_t size) const {
    struct Due {
      uint32_t made;
      size_t at;
      bool operator>(const Due& other) const { return made != other.made ? made > other.made : at > other.at; }
    };
    constexpr S gone = std::numeric_limits<S>::max();
    std::vector<uint32_t> before(size), after(size);
    std::priority_queue<Due, std::vector<Due>, std::greater<>> queue;
    const auto look = [&](size_t at) {
      if (after[at] == size) return;
      if (const auto made = made_.find(word[at], word[after[at]]); made != kNone) queue.push({made, at});
    };
    for (size_t i = 0; i < size; ++i) {
      before[i] = static_cast<uint32_t>(i - 1);
      after[i] = static_cast<uint32_t>(i + 1);
    }
    for (size_t i = 0; i < size; ++i) look(i);
    while (!queue.empty()) {
      const Due due = queue.top();
      queue.pop();
      const size_t at = due.at;
      if (word[at] == gone || after[at] == size || made_.find(word[at], word[after[at]]) != due.made) continue;
      const size_t second = after[at];
      word[at] = static_cast<S>(due.made);
      word[second] = gone;
      after[at] = after[second];
      if (after[at] < size) before[after[at]] = static_cast<uint32_t>(at);
      look(at);
      if (at > 0) look(before[at]);
    }
    return static_cast<size_t>(std::remove(word, word + size, gone) - word);
  }

  PairMap<true> made_;
  Symbol first_ = kFirstMerge;
  std::vector<std::pair<Symbol, Symbol>> merges_, ends_;  // by rank: what it joins; the token's first and last byte
  std::vector<bool> joinable_ = std::vector<bool>(256 * 256, false);  // pairs of bytes inside tokens
};

}  // namespace bpe::merge
