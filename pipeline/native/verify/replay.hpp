// MergeReplay: checks a merge list in a bounded memory, reading all pre-tokens two times or more. A second opinion: it shares no
// code with the merge engine but the rules about tokens (text/token_state.hpp), which it asks of a token's bytes.
//
// Idea: what the listed merges do to one pre-token depends on that pre-token alone. So the first reading replays each pre-token by
// itself and adds up, by rank, how often the merged pair occurred and how often it was joined: exact numbers to compare
// the list with. Whether each merge was the best of its moment needs the counts of other pairs: a pair is complete after
// the merge of its later token, and only falls from then on. The first reading bounds the count that each is complete
// with, in counters that pairs share; of those that can reach the list's last count, a second reading notes when they
// fall by how much. Where these notes are too many, the pairs are divided by a hash and each half has its own reading.
// Cost: a few numbers a merge; then the shared counters, or the notes, within the budget; time for each reading.
#pragma once
#include <bit>
#include <cmath>
#include <queue>

#include "count/pages.hpp"
#include "count/pair_map.hpp"
#include "text/token_state.hpp"

namespace bpe {

inline constexpr auto kReplayRules = obeyed("min_frequency", "min_pre_token_count", "tie_break");  // and kTokenRules

class MergeReplay {
 public:
  struct Pair {
    uint32_t left, right;
    uint64_t count;
  };
  struct Listed {
    std::vector<uint32_t> left, right;
    std::vector<uint64_t> counts, joined;
    bool exhausted = false;
    size_t first = 0;  // merges that other pre-tokens decided: only what they join is compared
  };
  struct Wrong {
    uint64_t rank;
    std::optional<Pair> due;  // the better pair; nothing where the list's numbers are wrong
    uint64_t count, joined;   // what the listed pair has
  };

  MergeReplay(Listed listed, const MergeRules& rules, const std::array<uint8_t, 256>& byte_order, size_t budget_bytes)
      : listed_(std::move(listed)),
        rules_(rules),
        budget_bytes_(budget_bytes),
        bounds_(std::bit_floor(std::clamp<size_t>(budget_bytes / 2 / sizeof(uint32_t), 64, kMostBounds)), 0) {
    for (uint32_t id = 0; id < 256; ++id) {
      token_bytes_.emplace_back(1, static_cast<char>(byte_order[id]));
      id_of_byte_[byte_order[id]] = id;
    }
    const size_t merges = listed_.left.size();
    for (size_t rank = 0; rank < merges; ++rank) {
      token_bytes_.push_back(token_bytes_.at(listed_.left[rank]) + token_bytes_.at(listed_.right[rank]));
      const auto key = key_of(listed_.left[rank], listed_.right[rank]);
      if (ranks_.find(key) == nullptr) ranks_[key] = rank;
    }
    counted_.assign(merges, 0);
    joined_.assign(merges, 0);
    checked_ = static_cast<size_t>(std::is_sorted_until(decided(), listed_.counts.end(), std::greater<>()) -
                                   listed_.counts.begin());
  }

  // All pre-tokens, once in each reading; those that are too rare are left out. Throws std::overflow_error where the bytes of
  // all others are 2^63 or more.
  void add(std::string_view pre_token, uint64_t count) {
    if (count < rules_.min_pre_token_count || pre_token.empty()) return;
    if (reading_ == 0) {
      constexpr uint64_t most = (uint64_t{1} << 63) - 1;
      if (count > (most - bytes_) / pre_token.size())
        throw std::overflow_error("the pre-tokens have 2^63 bytes or more");
      bytes_ += pre_token.size() * count;
    }
    if (pre_token.size() > 1 && count != 0) replay(pre_token, count);
  }
  // Ends a reading; true where another one is needed.
  bool next_reading() {
    if (reading_++ == 0) {
      compare_sums();
      note_reaching();
      parts_.push_back({0, 0});
    } else {
      compare_order();
      compared_ += std::ldexp(1.0, -part_.bits);
    }
    if (parts_.empty() || (listed_.counts.size() == listed_.first && !listed_.exhausted)) return false;
    part_ = parts_.back();
    parts_.pop_back();
    return true;
  }
  // How much of all readings is done when so much of this one is.
  double done(double of_reading) const {
    return (reading_ == 0 ? of_reading : 1 + compared_ + of_reading * std::ldexp(1.0, -part_.bits)) / 2;
  }
  uint64_t bytes() const { return bytes_; }
  const std::optional<Wrong>& wrong() const { return wrong_; }  // the first wrong merge, after the last reading
  const std::string& token(uint32_t id) const { return token_bytes_.at(id); }

 private:
  using Key = std::pair<uint32_t, uint32_t>;
  using Numbers = PairHashTable<uint64_t>;
  using Slot = Numbers::Slot;
  static constexpr uint32_t kGone = std::numeric_limits<uint32_t>::max(), kMostBound = kGone;
  static constexpr size_t kMostBounds = size_t{1} << 25;
  struct Part {
    uint64_t value;
    int bits;
  };

  static uint64_t key_of(uint32_t first, uint32_t second) { return uint64_t{first} << 32 | second; }
  // What a table of the notes may hold.
  static size_t most_in(const Numbers& table) { return table.slots() / 4 * 3; }
  size_t bound_of(uint32_t left, uint32_t right) const {
    return Numbers::hash(key_of(left, right)) * 0xd6e8feb86659fd93u >> 20 & (n_bounds_ - 1);
  }
  bool in_part(uint32_t left, uint32_t right) const {
    return (Numbers::hash(key_of(left, right)) >> 24 & ((uint64_t{1} << part_.bits) - 1)) == part_.value;
  }
  // Whether two tokens may become one, whatever their count.
  bool allowed(const Key& key) const {
    return !TokenState::forbid_any(rules_) ||
           !TokenState::of(token_bytes_[key.first] + token_bytes_[key.second]).forbidden(rules_);
  }
  // Which counters reach the lowest count that matters; then nothing else is needed of them.
  void note_reaching() {
    reaching_.assign(n_bounds_, false);
    const auto least = static_cast<uint32_t>(std::min<uint64_t>(lowest_, kMostBound));
    for (size_t i = 0; i < n_bounds_; ++i) reaching_[i] = bounds_[i] >= least;
    bounds_ = {};
    give_back_memory();
  }
  bool is_noted(uint32_t left, uint32_t right) const {
    return reaching_[bound_of(left, right)] && in_part(left, right);
  }
  // A pair occurs so often more, before the first merge or by the merge that completes it.
  void rise(uint32_t left, uint32_t right, uint64_t by) {
    if (reading_ == 0) {
      uint32_t& bound = bounds_[bound_of(left, right)];
      bound = static_cast<uint32_t>(std::min<uint64_t>(bound + std::min<uint64_t>(by, kMostBound), kMostBound));
      return;
    }
    make_space(pairs_);
    if (is_noted(left, right)) {
      uint64_t& number = pairs_.at(key_of(left, right));
      if (number == 0) number = unused_number();
      complete_[number - 1] += by;
    }
  }
  // A pair occurs so often less after the merge of that rank.
  void fall(uint32_t left, uint32_t right, uint64_t by, uint32_t rank) {
    if (reading_ == 0) return;
    make_space(falls_);
    if (is_noted(left, right))  // and has risen before
      falls_.at(key_of(static_cast<uint32_t>(*pairs_.find(key_of(left, right))), rank)) += by;
  }
  // Doubles a full table; where memory is too short for that, gives up half of the pairs until another reading.
  void make_space(Numbers& table) {
    while (table.used() >= most_in(table)) {
      // Of numbered pairs also their counts, and their keys at the end.
      const size_t pairs = pairs_.bytes() + most_in(pairs_) * (sizeof(uint64_t) + sizeof(Key));
      const size_t grown = &table == &pairs_ ? pairs : 2 * falls_.bytes();
      if (pairs + falls_.bytes() + grown + reaching_.size() / 8 <= budget_bytes_ || part_.bits >= 40) {
        table.rehash(2 * table.slots());
        complete_.reserve(most_in(pairs_) + 1);
        give_back_memory();
      } else {
        divide();
      }
    }
  }
  void divide() {
    parts_.push_back({part_.value | uint64_t{1} << part_.bits, part_.bits + 1});
    ++part_.bits;
    pairs_.keep_if([&](const Slot& pair) {
      if (in_part(pair.first, pair.second)) return true;
      complete_[pair.value - 1] = 0;
      return false;
    });
    falls_.keep_if([&](const Slot& fall) { return complete_[fall.first - 1] != 0; });
    unused_ = 0;
  }
  // Pairs that were given up leave numbers, whose counts are 0.
  uint64_t unused_number() {
    while (unused_ < complete_.size() && complete_[unused_] != 0) ++unused_;
    if (unused_ == complete_.size()) complete_.push_back(0);
    return ++unused_;
  }

  void replay(std::string_view pre_token, uint64_t count) {
    const auto size = static_cast<uint32_t>(pre_token.size());
    tokens_.resize(size);
    before_.resize(size);
    after_.resize(size);
    for (uint32_t i = 0; i < size; ++i) {
      tokens_[i] = id_of_byte_[static_cast<uint8_t>(pre_token[i])];
      before_[i] = i - 1;
      after_[i] = i + 1;
    }
    for (uint32_t i = 0; i + 1 < size; ++i) {
      rise(tokens_[i], tokens_[i + 1], count);
      expect(i);
    }
    while (!due_.empty()) {
      const auto rank = static_cast<uint32_t>(due_.top() >> 32);
      places_.clear();
      for (; !due_.empty() && due_.top() >> 32 == rank; due_.pop())
        if (const auto at = static_cast<uint32_t>(due_.top());
            is_at(rank, at) && (places_.empty() || places_.back() != at))
          places_.push_back(at);
      if (reading_ == 0) counted_[rank] += count * places_.size();
      for (const uint32_t at : places_)
        if (is_at(rank, at)) join(rank, at, count);
    }
  }
  void expect(uint32_t at) {
    if (const auto* rank = ranks_.find(key_of(tokens_[at], tokens_[after_[at]]))) due_.push(*rank << 32 | at);
  }
  bool is_at(uint32_t rank, uint32_t at) const {
    return tokens_[at] == listed_.left[rank] && after_[at] < tokens_.size() &&
           tokens_[after_[at]] == listed_.right[rank];
  }
  void join(uint32_t rank, uint32_t at, uint64_t count) {
    const uint32_t left = tokens_[at], second = after_[at], right = tokens_[second], made = 256 + rank;
    if (reading_ == 0) joined_[rank] += count;
    fall(left, right, count, rank);
    const uint32_t behind = after_[second];
    tokens_[at] = made;
    tokens_[second] = kGone;
    after_[at] = behind;
    if (behind < tokens_.size()) {
      before_[behind] = at;
      fall(right, tokens_[behind], count, rank);
      rise(made, tokens_[behind], count);
      expect(at);
    }
    if (at > 0) {
      const uint32_t in_front = before_[at];
      fall(tokens_[in_front], left, count, rank);
      rise(tokens_[in_front], made, count);
      expect(in_front);
    }
  }

  void note_wrong(Wrong found) {
    if (!wrong_ || found.rank < wrong_->rank || (found.rank == wrong_->rank && is_better(found, *wrong_)))
      wrong_ = std::move(found);
  }
  bool is_better(const Wrong& one, const Wrong& other) const {
    if (!one.due || !other.due) return one.due.has_value();
    return is_before({one.due->left, one.due->right}, one.due->count, {other.due->left, other.due->right},
                     other.due->count);
  }
  // The counts of the merges that these pre-tokens decided.
  std::vector<uint64_t>::const_iterator decided() const {
    return listed_.counts.begin() + static_cast<std::ptrdiff_t>(listed_.first);
  }
  void compare_sums() {
    const size_t merges = listed_.counts.size();
    for (size_t rank = 0; rank < merges; ++rank)
      if (joined_[rank] != listed_.joined[rank] ||
          (rank >= listed_.first &&
           (counted_[rank] != listed_.counts[rank] || counted_[rank] == 0 || counted_[rank] < rules_.min_frequency ||
            !allowed({listed_.left[rank], listed_.right[rank]})))) {
        note_wrong({rank, std::nullopt, counted_[rank], joined_[rank]});
        break;
      }
    lowest_ = rules_.min_frequency;
    if (!listed_.exhausted && merges > listed_.first)
      lowest_ = std::max(lowest_, *std::min_element(decided(), listed_.counts.end()));
  }
  bool is_before(const Key& a, uint64_t a_count, const Key& b, uint64_t b_count) const {
    if (a_count != b_count) return a_count > b_count;
    if (rules_.tie_break == TieBreak::kLowestIds) return a < b;
    const int order = token_bytes_[a.first].compare(token_bytes_[b.first]);
    return order != 0 ? order > 0 : token_bytes_[a.second].compare(token_bytes_[b.second]) > 0;
  }
  // Compares every pair that is noted, while it lasts, with the merges that were made instead.
  void compare_order() {
    std::vector<Key> keys(complete_.size());
    pairs_.each([&](const Slot& pair) { keys[pair.value - 1] = {pair.first, pair.second}; });
    pairs_ = Numbers();
    const std::vector<Slot> falls = falls_.take_sorted();
    auto fall = falls.begin();
    for (uint32_t number = 1; number <= keys.size(); ++number) {
      const auto begin = fall;
      fall = std::find_if(fall, falls.end(), [&](const Slot& one) { return one.first != number; });
      if (complete_[number - 1] != 0 && allowed(keys[number - 1]))
        compare_pair(keys[number - 1], complete_[number - 1], begin, fall);
    }
    complete_ = {};
    unused_ = 0;
  }
  // The count that a pair is complete with, and its falls in the order of ranks.
  void compare_pair(const Key& key, uint64_t count, std::vector<Slot>::const_iterator fall,
                    std::vector<Slot>::const_iterator last) {
    const uint32_t later = std::max(key.first, key.second);
    size_t from = std::max(listed_.first, later < 256 ? size_t{0} : size_t{later} - 255);
    const auto* own = ranks_.find(key_of(key.first, key.second));
    const size_t end = std::min<size_t>(own == nullptr ? checked_ : *own, checked_);
    while (from < end && count >= lowest_) {
      const size_t until = fall == last ? end : std::min<size_t>(end, fall->second + size_t{1});
      if (compare_between(key, count, from, until)) break;
      from = std::max(from, until);
      if (fall != last) count -= (fall++)->value;
    }
    for (; fall != last; ++fall) count -= fall->value;
    const bool left = own == nullptr && checked_ == listed_.counts.size() && listed_.exhausted;
    if (left && count >= std::max<uint64_t>(rules_.min_frequency, 1))
      note_wrong({checked_, Pair{key.first, key.second, count}, 0, 0});
  }
  // Whether the pair was better than a merge of these ranks, whose counts fall.
  bool compare_between(const Key& key, uint64_t count, size_t from, size_t until) {
    const auto counts = listed_.counts.begin();
    auto rank =
        static_cast<size_t>(std::lower_bound(counts + static_cast<std::ptrdiff_t>(from),
                                             counts + static_cast<std::ptrdiff_t>(until), count, std::greater<>()) -
                            counts);
    for (; rank < until && (!wrong_ || rank <= wrong_->rank); ++rank) {
      if (!is_before(key, count, {listed_.left[rank], listed_.right[rank]}, listed_.counts[rank])) continue;
      note_wrong({rank, Pair{key.first, key.second, count}, counted_[rank], joined_[rank]});
      return true;
    }
    return false;
  }

  const Listed listed_;
  const MergeRules rules_;
  const size_t budget_bytes_;
  size_t checked_ = 0;  // merges before the first whose count is above that of its predecessor
  std::vector<uint32_t> bounds_;
  const size_t n_bounds_ = bounds_.size();
  std::vector<bool> reaching_;
  std::vector<uint64_t> counted_, joined_;
  std::vector<std::string> token_bytes_;
  std::array<uint32_t, 256> id_of_byte_{};
  Numbers ranks_;  // by pair
  uint64_t bytes_ = 0, lowest_ = 0;
  size_t reading_ = 0;
  std::vector<Part> parts_;  // that are still to be read for
  Part part_{0, 0};
  double compared_ = 0;  // of all pairs
  // The notes: numbers of pairs from 1 on, the count that each is complete with, and falls by number and rank.
  Numbers pairs_, falls_;
  std::vector<uint64_t> complete_;
  size_t unused_ = 0;  // no number below is unused
  std::optional<Wrong> wrong_;
  // Of the pre-token that is replayed; `due_`: ranks in the upper half, where in the lower one.
  std::vector<uint32_t> tokens_, before_, after_, places_;
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> due_;
};

}  // namespace bpe
