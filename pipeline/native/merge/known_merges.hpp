// KnownMerges: what merges that were made before make of a word: how a merging that was interrupted is taken up again,
// and how the second stage of superwords starts from the first.
//
// Idea: a merge that uses a token comes after the one that made it, so making the lowest merge that a word allows, from
// left to right, again and again, is the same as making all merges in their order. Short words are searched, long ones
// have a queue.
#pragma once
#include <queue>

#include "count/pair_map.hpp"
#include "merge/tokens.hpp"

namespace bpe::merge {

class KnownMerges {
 public:
  KnownMerges() = default;
  void add(Symbol left, Symbol right, Symbol made) {
    if (merges_++ == 0) first_ = made;
    made_.insert(left, right, made);
  }
  size_t merges() const { return merges_; }

  // Joins what can be joined in word[0, size), which occurs `weight` times, and returns its new size. Adds up how often
  // each merge joins; `joined` has as many entries as there are merges.
  template <class S>
  size_t apply(S* word, size_t size, uint64_t weight, std::vector<uint64_t>& joined) const {
    const auto note = [&](uint32_t made) { joined[made - first_] += weight; };
    return size <= kShort ? apply_short(word, size, note) : apply_long(word, size, note);
  }

 private:
  static constexpr size_t kShort = 64;
  static constexpr uint32_t kNone = PairMap<false>::kNone;

  template <class S, class Note>
  size_t apply_short(S* word, size_t size, const Note& note) const {
    std::array<uint32_t, kShort> made;
    for (size_t i = 0; i + 1 < size; ++i) made[i] = made_.find(word[i], word[i + 1]);
    while (size > 1) {
      const auto at = static_cast<size_t>(std::min_element(made.begin(), made.begin() + size - 1) - made.begin());
      if (made[at] == kNone) break;
      note(made[at]);
      word[at] = static_cast<S>(made[at]);
      --size;
      std::copy(word + at + 2, word + size + 1, word + at + 1);
      if (at + 1 < size) std::copy(made.begin() + at + 2, made.begin() + size, made.begin() + at + 1);
      if (at > 0) made[at - 1] = made_.find(word[at - 1], word[at]);
      if (at + 1 < size) made[at] = made_.find(word[at], word[at + 1]);
    }
    return size;
  }

  template <class S, class Note>
  size_t apply_long(S* word, size_t size, const Note& note) const {
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
      note(due.made);
      word[at] = static_cast<S>(due.made);
      word[second] = gone;
      after[at] = after[second];
      if (after[at] < size) before[after[at]] = static_cast<uint32_t>(at);
      look(at);
      if (at > 0) look(before[at]);
    }
    return static_cast<size_t>(std::remove(word, word + size, gone) - word);
  }

  PairMap<false> made_;
  Symbol first_ = 0;
  size_t merges_ = 0;
};

}  // namespace bpe::merge
