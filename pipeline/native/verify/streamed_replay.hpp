// StreamedReplay: checks a merge list in a bounded memory, reading all pieces several times; it shares no code with the
// merge engine either.
//
// Idea: what the listed merges do to one piece depends on that piece alone. So the first reading replays each piece by
// itself and adds up, by rank, how often the merged pair occurred and how often it was joined: exact numbers to compare
// the list with. Whether each merge was the best of its moment needs the counts of other pairs: a pair is complete after
// the merge of its later token, and only falls from then on. The first reading bounds the count that each is complete
// with, in counters that pairs share; for those that can reach the list's last count, further readings note when they
// fall by how much. Where these notes are too many, the pairs are divided by a hash and each half has its own reading.
// Cost: a few numbers a merge, the counters, and the notes; time for each reading.
#pragma once
#include <map>
#include <queue>

#include "verify/verify.hpp"

namespace bpe {

class StreamedReplay {
 public:
  using Key = std::pair<uint32_t, uint32_t>;
  struct Listed {
    std::vector<uint32_t> left, right;
    std::vector<uint64_t> counts, joined;
    bool exhausted = false;
    size_t first = 0;  // merges that other pieces decided: only what they join is compared
  };
  struct Wrong {
    uint64_t rank;
    std::optional<MergeReplay::Pair> due;  // the better pair; nothing where the list's numbers are wrong
    uint64_t count, joined;                // what the listed pair has
  };

  StreamedReplay(Listed listed, ReplayRules rules, const std::array<uint8_t, 256>& byte_order, size_t budget_bytes)
      : listed_(std::move(listed)), rules_(rules), most_notes_(std::max<size_t>(budget_bytes / 3 / kNoteBytes, 64)),
        bounds_(std::bit_floor(std::max<size_t>(budget_bytes / 3 / sizeof(uint64_t), 64)), 0) {
    for (uint32_t id = 0; id < 256; ++id) {
      token_bytes_.emplace_back(1, static_cast<char>(byte_order[id]));
      id_of_byte_[byte_order[id]] = id;
    }
    const size_t merges = listed_.left.size();
    for (size_t rank = 0; rank < merges; ++rank) {
      token_bytes_.push_back(token_bytes_.at(listed_.left[rank]) + token_bytes_.at(listed_.right[rank]));
      ranks_.try_emplace({listed_.left[rank], listed_.right[rank]}, static_cast<uint32_t>(rank));
    }
    counted_.assign(merges, 0);
    joined_.assign(merges, 0);
    checked_ = static_cast<size_t>(
        std::is_sorted_until(decided(), listed_.counts.end(), std::greater<>()) - listed_.counts.begin());
  }

  // All pieces, once in each reading.
  void add(std::string_view piece, uint64_t count) {
    if (reading_ == 0) bytes_ += piece.size() * count;
    if (piece.size() > 1 && count != 0) replay(piece, count);
  }
  // Ends a reading; true where another one is needed.
  bool next_reading() {
    if (reading_++ == 0) {
      compare_sums();
      parts_.push_back({0, 0});
    } else {
      compare_order();
      notes_.clear();
    }
    if (parts_.empty() || (listed_.counts.size() == listed_.first && !listed_.exhausted)) return false;
    part_ = parts_.back();
    parts_.pop_back();
    return true;
  }
  uint64_t bytes() const { return bytes_; }
  const std::optional<Wrong>& wrong() const { return wrong_; }  // the first wrong merge, after the last reading
  const std::string& token(uint32_t id) const { return token_bytes_.at(id); }

 private:
  static constexpr size_t kNoteBytes = 96;
  static constexpr uint32_t kGone = std::numeric_limits<uint32_t>::max();
  struct Part {
    uint64_t value, bits;
  };
  // A pair's history: the count that it is complete with, and by how much it falls in which merge.
  struct History {
    uint64_t complete = 0;
    std::map<uint32_t, uint64_t> falls;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const {
      const uint64_t mixed = (static_cast<uint64_t>(key.first) << 32 | key.second) * 0x9e3779b97f4a7c15u;
      return mixed ^ mixed >> 29;
    }
  };

  size_t bound_of(const Key& key) const { return KeyHash()(key) * 0xd6e8feb86659fd93u >> 20 & (bounds_.size() - 1); }
  bool in_part(const Key& key) const { return (KeyHash()(key) & ((uint64_t{1} << part_.bits) - 1)) == part_.value; }
  bool allowed(const Key& key) const {
    return rules_.allow(token_bytes_[key.first], token_bytes_[key.second]);
  }
  // A pair changes by so much in the merge of that rank; -1: as the piece was at first.
  void change(const Key& key, int64_t by, int64_t rank) {
    if (by == 0) return;
    if (reading_ == 0) {
      if (by > 0) bounds_[bound_of(key)] += static_cast<uint64_t>(by);
      return;
    }
    if (bounds_[bound_of(key)] < lowest_ || !in_part(key) || !allowed(key)) return;
    History& history = notes_[key];
    if (by > 0) {
      history.complete += static_cast<uint64_t>(by);
    } else {
      const auto [fall, is_new] = history.falls.try_emplace(static_cast<uint32_t>(rank), 0);
      fall->second += static_cast<uint64_t>(-by);
      n_notes_ += is_new;
    }
    if (notes_.size() + n_notes_ > most_notes_ && part_.bits < 40) divide();
  }
  void divide() {
    parts_.push_back({part_.value | uint64_t{1} << part_.bits, part_.bits + 1});
    ++part_.bits;
    n_notes_ = 0;
    std::erase_if(notes_, [this](const auto& note) { return !in_part(note.first); });
    for (const auto& [key, history] : notes_) n_notes_ += history.falls.size();
  }

  void replay(std::string_view piece, uint64_t count) {
    const size_t size = piece.size();
    const auto weight = static_cast<int64_t>(count);
    tokens_.resize(size);
    before_.resize(size);
    after_.resize(size);
    for (size_t i = 0; i < size; ++i) {
      tokens_[i] = id_of_byte_[static_cast<uint8_t>(piece[i])];
      before_[i] = i - 1;
      after_[i] = i + 1;
    }
    changes_.clear();
    for (size_t i = 0; i + 1 < size; ++i) {
      changes_.emplace_back(Key{tokens_[i], tokens_[i + 1]}, weight);
      expect(i);
    }
    settle(-1);
    while (!due_.empty()) {
      const uint32_t rank = due_.top().first;
      places_.clear();
      for (; !due_.empty() && due_.top().first == rank; due_.pop())
        if (is_at(rank, due_.top().second) && (places_.empty() || places_.back() != due_.top().second))
          places_.push_back(due_.top().second);
      if (reading_ == 0) counted_[rank] += count * places_.size();
      for (const size_t at : places_)
        if (is_at(rank, at)) join(rank, at, weight);
      settle(rank);
    }
  }
  void expect(size_t at) {
    const auto found = ranks_.find({tokens_[at], tokens_[after_[at]]});
    if (found != ranks_.end()) due_.push({found->second, at});
  }
  bool is_at(uint32_t rank, size_t at) const {
    return tokens_[at] == listed_.left[rank] && after_[at] < tokens_.size() &&
           tokens_[after_[at]] == listed_.right[rank];
  }
  void join(uint32_t rank, size_t at, int64_t weight) {
    const uint32_t left = tokens_[at], right = tokens_[after_[at]], made = 256 + rank;
    if (reading_ == 0) joined_[rank] += static_cast<uint64_t>(weight);
    changes_.emplace_back(Key{left, right}, -weight);
    const size_t second = after_[at], behind = after_[second];
    tokens_[at] = made;
    tokens_[second] = kGone;
    after_[at] = behind;
    if (behind < tokens_.size()) {
      before_[behind] = at;
      changes_.emplace_back(Key{right, tokens_[behind]}, -weight);
      changes_.emplace_back(Key{made, tokens_[behind]}, weight);
      expect(at);
    }
    if (at > 0) {
      const size_t in_front = before_[at];
      changes_.emplace_back(Key{tokens_[in_front], left}, -weight);
      changes_.emplace_back(Key{tokens_[in_front], made}, weight);
      expect(in_front);
    }
  }
  // Adds up what a merge did to each pair.
  void settle(int64_t rank) {
    std::sort(changes_.begin(), changes_.end());
    for (size_t i = 0; i < changes_.size();) {
      int64_t sum = 0;
      const Key key = changes_[i].first;
      for (; i < changes_.size() && changes_[i].first == key; ++i) sum += changes_[i].second;
      change(key, sum, rank);
    }
    changes_.clear();
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
  // The counts of the merges that these pieces decided.
  std::vector<uint64_t>::const_iterator decided() const { return listed_.counts.begin() + static_cast<std::ptrdiff_t>(listed_.first); }
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
    if (!rules_.greatest_bytes) return a < b;
    const int order = token_bytes_[a.first].compare(token_bytes_[b.first]);
    return order != 0 ? order > 0 : token_bytes_[a.second].compare(token_bytes_[b.second]) > 0;
  }
  // Compares every pair, while it lasts, with the merges that were made instead.
  void compare_order() {
    for (const auto& [key, history] : notes_) {
      const uint32_t later = std::max(key.first, key.second);
      size_t from = std::max(listed_.first, later < 256 ? size_t{0} : size_t{later} - 255);
      const auto own = ranks_.find(key);
      const size_t end = std::min<size_t>(own == ranks_.end() ? checked_ : own->second, checked_);
      uint64_t count = history.complete;
      auto fall = history.falls.begin();
      while (from < end && count >= lowest_) {
        const size_t until = fall == history.falls.end() ? end : std::min<size_t>(end, fall->first + size_t{1});
        if (compare_between(key, count, from, until)) break;
        from = std::max(from, until);
        if (fall != history.falls.end()) count -= (fall++)->second;
      }
      for (; fall != history.falls.end(); ++fall) count -= fall->second;
      const bool left = own == ranks_.end() && checked_ == listed_.counts.size() && listed_.exhausted;
      if (left && count >= std::max<uint64_t>(rules_.min_frequency, 1))
        note_wrong({checked_, MergeReplay::Pair{key.first, key.second, count}, 0, 0});
    }
  }
  // Whether the pair was better than a merge of these ranks, whose counts fall.
  bool compare_between(const Key& key, uint64_t count, size_t from, size_t until) {
    const auto counts = listed_.counts.begin();
    auto rank = static_cast<size_t>(
        std::lower_bound(counts + static_cast<std::ptrdiff_t>(from), counts + static_cast<std::ptrdiff_t>(until), count,
                         std::greater<>()) - counts);
    for (; rank < until && (!wrong_ || rank <= wrong_->rank); ++rank) {
      if (!is_before(key, count, {listed_.left[rank], listed_.right[rank]}, listed_.counts[rank])) continue;
      note_wrong({rank, MergeReplay::Pair{key.first, key.second, count}, counted_[rank], joined_[rank]});
      return true;
    }
    return false;
  }

  const Listed listed_;
  const ReplayRules rules_;
  const size_t most_notes_;
  size_t checked_ = 0;  // merges before the first whose count is above that of its predecessor
  std::vector<uint64_t> bounds_, counted_, joined_;
  std::vector<std::string> token_bytes_;
  std::array<uint32_t, 256> id_of_byte_{};
  std::unordered_map<Key, uint32_t, KeyHash> ranks_;
  uint64_t bytes_ = 0, lowest_ = 0;
  size_t reading_ = 0, n_notes_ = 0;
  std::vector<Part> parts_;  // that are still to be read for
  Part part_{0, 0};
  std::unordered_map<Key, History, KeyHash> notes_;
  std::optional<Wrong> wrong_;
  // Of the piece that is replayed.
  std::vector<uint32_t> tokens_;
  std::vector<size_t> before_, after_, places_;
  std::vector<std::pair<Key, int64_t>> changes_;
  using Due = std::pair<uint32_t, size_t>;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
};

}  // namespace bpe
