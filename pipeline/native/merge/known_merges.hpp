// KnownMerges: what merges that were made before make of a word: how a merging that was interrupted is taken up again,
// and how the second stage of superwords starts from the first.
//
// Idea: a merge that uses a token comes after the one that made it, so making the lowest merge that a word allows, from
// left to right, again and again, is the same as making all merges in their order. A word is cut first where no merge can
// join what ends there and what begins there, by up to three bytes of each. Short stretches are searched and remembered,
// long ones have a queue. How often each merge joins follows from how often its token is left and how often it is part of
// others.
#pragma once
#include <queue>

#include "count/pair_map.hpp"
#include "merge/sketch.hpp"
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

  KnownMerges() = default;
  // Of bytes: merges in order of rank; words are bytes until they are applied.
  explicit KnownMerges(const std::vector<PairKey>& merges) {
    for (const auto key : merges) add(left_of(key), right_of(key), kFirstMerge + static_cast<Symbol>(merges_.size()));
  }
  size_t merges() const { return merges_.size(); }

 private:
  void add(Symbol left, Symbol right, Symbol made) {
    if (merges_.empty()) first_ = made;
    const Ends before = ends_of(left), after = ends_of(right);
    kinds_[256 * (before.last & 255) + (after.first & 255)] |= kind_of(before.size, after.size);
    mark(place_of(before.last, before.size, after.first, after.size));
    merges_.emplace_back(left, right);
    Ends both = before;
    for (uint32_t i = 0; i < after.size; ++i) {
      const uint32_t byte = after.first >> (8 * i) & 255;
      if (both.size < kContext) both.first |= byte << (8 * both.size++);
    }
    both.last = after.size == kContext ? after.last : (after.last | before.last << (8 * after.size)) & kContextBits;
    ends_.push_back(both);
    made_.insert(left, right, made);
  }

 public:
  // Joins what can be joined in word[0, size), which occurs `weight` times, and returns its new size.
  template <class S>
  size_t apply(S* word, size_t size, uint64_t weight, Memory& memory) const {
    size_t out = 0, begin = 0;
    for (size_t i = 1; i <= size; ++i) {
      if (i < size && may_join(word, begin, i, size)) continue;
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

  // Of a token: its first bytes, the first one lowest, and its last ones, the last one lowest; how many these are.
  struct Ends {
    uint32_t first, last, size;
  };
  static constexpr uint32_t kContext = 3, kContextBits = 0xFFFFFF;
  Ends ends_of(Symbol symbol) const { return symbol < kBoundary ? Ends{symbol, symbol, 1} : ends_[symbol - first_]; }
  static uint16_t kind_of(uint32_t before, uint32_t after) {
    return static_cast<uint16_t>(1u << (kContext * (before - 1) + after - 1));
  }
  static size_t place_of(uint32_t last, uint32_t before, uint32_t first, uint32_t after) {
    return ((uint64_t{last} << 28 | first) + (before * 4 + after) * 0xD1342543DE82EF95u) * 0x9E3779B97F4A7C15u >> 42;
  }
  void mark(size_t place) { crossed_[place / 64] |= uint64_t{1} << place % 64; }
  bool is_marked(size_t place) const { return crossed_[place / 64] >> place % 64 & 1; }
  // Whether some merge may join a token that ends before word[at] and one that begins there; none reaches beyond begin.
  template <class S>
  bool may_join(const S* word, size_t begin, size_t at, size_t size) const {
    unsigned kinds = kinds_[256 * size_t{word[at - 1]} + word[at]];
    if (kinds & 1) return true;  // two bytes
    std::array<uint32_t, kContext + 1> last{}, first{};
    const auto before = std::min<size_t>(kContext, at - begin), after = std::min<size_t>(kContext, size - at);
    for (uint32_t i = 0; i < before; ++i) last[i + 1] = last[i] | uint32_t{word[at - 1 - i]} << (8 * i);
    for (uint32_t i = 0; i < after; ++i) first[i + 1] = first[i] | uint32_t{word[at + i]} << (8 * i);
    for (; kinds != 0; kinds &= kinds - 1) {
      const auto kind = static_cast<uint32_t>(std::countr_zero(kinds));
      const uint32_t b = kind / kContext + 1, a = kind % kContext + 1;
      if (b <= before && a <= after && is_marked(place_of(last[b], b, first[a], a))) return true;
    }
    return false;
  }

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
  std::vector<std::pair<Symbol, Symbol>> merges_;  // by rank
  std::vector<Ends> ends_;                         // by rank, of the token
  std::vector<uint16_t> kinds_ = std::vector<uint16_t>(256 * 256, 0);  // of two bytes: kind_of merges that join there
  std::vector<uint64_t> crossed_ = std::vector<uint64_t>(size_t{1} << 16, 0);  // a filter of merges by what they join
};

// take_words, and the merges that are known made in the words.
template <class S>
std::vector<Shard<S>> take_merged(const PieceSource& source, uint64_t min_count, uint64_t shard_slots,
                                  const KnownMerges& known, Team& team, Pulse& pulse, Corpus& corpus, MergeResult& result) {
  uint64_t slots = 0;
  source([&](const ColumnsView& batch) {
    slots += static_cast<uint64_t>(batch.offsets[batch.rows] - batch.offsets[0]) + batch.rows;
  });
  const auto* const made = known.merges() == 0 ? nullptr : &known;
  return take_words<S>(source, {.min_count = min_count, .slots = slots, .shard_slots = shard_slots, .known = made}, team,
                       pulse, corpus, result);
}

}  // namespace bpe::merge
