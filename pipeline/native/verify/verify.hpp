// MergeReplay: checks a merge list the plain way, sharing no code with the merge engine: a second opinion.
//
// Idea: the tokens of all pieces are a row of slots, one a byte, with an empty one between pieces; a token is named by
// its first and its last slot. A map holds each pair's count and the positions where its left token may start, an
// ordered set the pairs by count and tie-break. One merge after the other is compared with the set's first pair, then
// carried out from left to right; each join removes the pairs next to it and adds two new ones.
// Invariant: the map holds exactly the pairs that occur somewhere, each with its count; the set those that may be
// merged. A pair's positions hold, in order, all at which it occurs, perhaps more: no merge makes a token's copies but
// its own, so a pair is complete when the merge of its later token ends.
// Cost: two operations on the set for each pair that a merge changes, and a search for the count of each join's piece.
// Memory is mostly tokens and positions: pipeline/merges forecasts it before it starts.
#pragma once
#include <set>

#include "count/columns.hpp"
#include "text/merge_rules.hpp"

namespace bpe {

// Parts between spaces.
inline uint64_t words_in(const std::string& bytes) {
  uint64_t words = 0;
  for (size_t at = bytes.find_first_not_of(' '); at != std::string::npos; at = bytes.find_first_not_of(' ', at)) {
    ++words;
    at = std::min(bytes.find(' ', at), bytes.size());
  }
  return words;
}
// Whether bytes are characters of UTF-8, or the beginning of one (the grammar of RFC 3629).
inline bool is_text(const std::string& bytes) {
  const auto in = [&](size_t at, unsigned low, unsigned high) {
    return low <= static_cast<uint8_t>(bytes[at]) && static_cast<uint8_t>(bytes[at]) <= high;
  };
  for (size_t at = 0; at < bytes.size();) {
    const auto first = static_cast<uint8_t>(bytes[at]);
    const size_t size = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
    if (size == 0) return false;
    for (size_t i = 1; i < size; ++i) {
      if (at + i == bytes.size()) return at == 0;
      const unsigned low = i > 1 ? 0x80 : first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
      const unsigned high = i > 1 ? 0xBF : first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
      if (!in(at + i, low, high)) return false;
    }
    at += size;
  }
  return true;
}
// Whether two tokens may become one, whatever their count.
inline bool allows(const MergeRules& rules, const std::string& left, const std::string& right) {
  return left.size() + right.size() <= rules.max_token_bytes && (!rules.whole_characters || is_text(left + right)) &&
         (rules.max_words == 0 || words_in(left + right) <= rules.max_words) &&
         (!rules.no_colon || (left + right).find(": ") == std::string::npos);
}

class MergeReplay {
 public:
  struct Pair {
    uint32_t left, right;
    uint64_t count;
  };

  // byte_order: the byte of each of the ids 0..255.
  MergeReplay(const MergeRules& rules, const std::array<uint8_t, 256>& byte_order)
      : rules_(rules), queue_(Before{this}) {
    for (uint32_t id = 0; id < 256; ++id) {
      token_bytes_.emplace_back(1, static_cast<char>(byte_order[id]));
      id_of_byte_[byte_order[id]] = id;
    }
  }

  // Before the first merge; pieces that are too rare are left out. Throws std::overflow_error where the bytes of all
  // others are 2^63 or more.
  void add(std::string_view piece, uint64_t count) {
    if (count < rules_.min_piece_count) return;
    if (begun_) throw std::logic_error("pieces are added before the first merge");
    constexpr uint64_t most = (uint64_t{1} << 63) - 1;
    if (!piece.empty() && count > (most - bytes_) / piece.size())
      throw std::overflow_error("the pieces have 2^63 bytes or more");
    bytes_ += piece.size() * count;
    if (piece.size() < 2 || count == 0) return;  // holds no pair
    starts_.push_back(slots_.size());
    counts_.push_back(count);
    for (char byte : piece) slots_.push_back(id_of_byte_[static_cast<uint8_t>(byte)]);
    slots_.push_back(kNone);
  }
  // The pair that is to be merged now; nothing where no pair may be.
  std::optional<Pair> best() {
    begin();
    if (queue_.empty()) return std::nullopt;
    const Ranked& first = *queue_.begin();
    return Pair{first.key.first, first.key.second, first.count};
  }
  // Carries out a merge of tokens that exist; returns how many occurrences became one token.
  uint64_t merge(uint32_t left, uint32_t right) {
    begin();
    const uint32_t made = static_cast<uint32_t>(token_bytes_.size());
    token_bytes_.push_back(token_bytes_.at(left) + token_bytes_.at(right));
    const auto found = pairs_.find({left, right});
    if (found == pairs_.end()) return 0;
    struct Change {
      int64_t count = 0;
      std::vector<uint64_t> positions;  // of a new pair
    };
    std::unordered_map<Key, Change, KeyHash> changes;
    const std::vector<uint64_t> positions = std::move(found->second.positions);
    const size_t left_bytes = token_bytes_[left].size(), bytes = token_bytes_[made].size();
    uint64_t joined = 0;
    auto piece = starts_.begin();
    for (const uint64_t at : positions) {
      const uint64_t second = at + left_bytes, after = at + bytes;
      if (slots_[at] != left || slots_[second] != right) continue;
      piece = std::upper_bound(piece, starts_.end(), at) - 1;
      const uint64_t count = counts_[static_cast<size_t>(piece - starts_.begin())];
      const auto becomes = [&](Key old, Key made_pair, uint64_t where) {
        changes[old].count -= static_cast<int64_t>(count);
        Change& change = changes[made_pair];
        change.count += static_cast<int64_t>(count);
        change.positions.push_back(where);
      };
      joined += count;
      changes[{left, right}].count -= static_cast<int64_t>(count);
      if (const uint32_t before = slots_[at - 1]; before != kNone)
        becomes({before, left}, {before, made}, at - token_bytes_[before].size());
      if (const uint32_t behind = slots_[after]; behind != kNone) becomes({right, behind}, {made, behind}, at);
      slots_[second - 1] = slots_[second] = kNone;
      slots_[at] = slots_[after - 1] = made;
    }
    for (auto& [key, change] : changes) {
      if (change.count == 0) continue;
      Standing& standing = pairs_[key];
      const uint64_t old_count = standing.count;
      standing.count += static_cast<uint64_t>(change.count);
      if (!change.positions.empty()) standing.positions = std::move(change.positions);
      if (may_be_merged(key, old_count)) queue_.erase({old_count, key});
      if (may_be_merged(key, standing.count)) queue_.insert({standing.count, key});
      if (standing.count == 0) pairs_.erase(key);
    }
    return joined;
  }

  size_t tokens() const { return token_bytes_.size(); }
  uint64_t bytes() const { return bytes_; }  // of all pieces, each as often as it was found
  const std::string& token(uint32_t id) const { return token_bytes_.at(id); }

 private:
  using Key = std::pair<uint32_t, uint32_t>;
  struct KeyHash {
    size_t operator()(const Key& key) const {
      return (static_cast<uint64_t>(key.first) << 32 | key.second) * 0x9e3779b97f4a7c15u;
    }
  };
  struct Standing {
    uint64_t count = 0;
    std::vector<uint64_t> positions;
  };
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  struct Ranked {
    uint64_t count;
    Key key;
  };
  struct Before {
    const MergeReplay* replay;
    bool operator()(const Ranked& a, const Ranked& b) const { return replay->is_before(a, b); }
  };

  bool is_before(const Ranked& a, const Ranked& b) const {
    if (a.count != b.count) return a.count > b.count;
    if (rules_.tie_break == TieBreak::kLowestIds) return a.key < b.key;
    const std::string &a_left = token_bytes_[a.key.first], &b_left = token_bytes_[b.key.first];
    if (a_left != b_left) return a_left > b_left;
    const std::string &a_right = token_bytes_[a.key.second], &b_right = token_bytes_[b.key.second];
    if (a_right != b_right) return a_right > b_right;
    return a.key < b.key;  // the same pair, for no two tokens of a right list have the same bytes
  }
  bool may_be_merged(const Key& key, uint64_t count) const {
    return count >= rules_.min_frequency && count > 0 &&
           allows(rules_, token_bytes_[key.first], token_bytes_[key.second]);
  }
  void begin() {
    if (begun_) return;
    begun_ = true;
    for (size_t piece = 0; piece < starts_.size(); ++piece) {
      for (uint64_t at = starts_[piece]; slots_[at + 1] != kNone; ++at) {
        Standing& standing = pairs_[{slots_[at], slots_[at + 1]}];
        standing.count += counts_[piece];
        standing.positions.push_back(at);
      }
    }
    for (const auto& [key, standing] : pairs_) {
      if (may_be_merged(key, standing.count)) queue_.insert({standing.count, key});
    }
  }

  const MergeRules rules_;
  std::vector<std::string> token_bytes_;
  std::array<uint32_t, 256> id_of_byte_{};
  std::vector<uint32_t> slots_{kNone};
  std::vector<uint64_t> starts_, counts_;  // of each piece of two bytes or more: its first slot, how often it was found
  uint64_t bytes_ = 0;
  std::unordered_map<Key, Standing, KeyHash> pairs_;
  std::set<Ranked, Before> queue_;
  bool begun_ = false;
};

// What a counter holds, in numbers that add up over counters: so a sum of counters is checked without combining.
struct CounterSum {
  uint64_t rows = 0;
  uint64_t pieces = 0;  // the sum of counts, modulo 2^64
  uint64_t bytes = 0;   // of pieces, each as often as it was found, modulo 2^64
  uint64_t digest = 0;  // the sum of count * (a hash of the piece), modulo 2^64
  bool ascending = true;  // in order of hash64, then of bytes, and no piece twice
};

inline CounterSum counter_sum(const ColumnsView& counter) {
  CounterSum sum;
  sum.rows = counter.rows;
  std::string_view last;
  uint64_t last_place = 0;
  for (size_t row = 0; row < counter.rows; ++row) {
    const std::string_view piece = counter.text(row);
    uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, which has nothing to do with the order of rows
    for (char byte : piece) hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3u;
    hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93u;
    hash ^= hash >> 32;
    const uint64_t count = counter.counts[row], place = counter.hash(row);
    sum.pieces += count;
    sum.bytes += count * piece.size();
    sum.digest += count * hash;
    if (row && (place < last_place || (place == last_place && piece <= last))) sum.ascending = false;
    last = piece;
    last_place = place;
  }
  return sum;
}

}  // namespace bpe
