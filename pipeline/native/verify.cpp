#include "verify.hpp"

#include <algorithm>
#include <stdexcept>
#include <unordered_set>

#include "columns.hpp"

namespace bpe {

MergeReplay::MergeReplay(ReplayRules rules, const std::array<uint8_t, 256>& byte_order)
    : rules_(rules), queue_(Before{this}) {
  for (uint32_t id = 0; id < 256; ++id) {
    token_bytes_.emplace_back(1, static_cast<char>(byte_order[id]));
    id_of_byte_[byte_order[id]] = id;
  }
}

bool MergeReplay::is_before(const Ranked& a, const Ranked& b) const {
  if (a.count != b.count) return a.count > b.count;
  if (!rules_.greatest_bytes) return a.key < b.key;
  const std::string &a_left = token_bytes_[a.key.first], &b_left = token_bytes_[b.key.first];
  if (a_left != b_left) return a_left > b_left;
  const std::string &a_right = token_bytes_[a.key.second], &b_right = token_bytes_[b.key.second];
  if (a_right != b_right) return a_right > b_right;
  return a.key < b.key;  // the same pair, for no two tokens of a right list have the same bytes
}

bool MergeReplay::may_be_merged(const Key& key, uint64_t count) const {
  return count >= rules_.min_frequency && count > 0 &&
         token_bytes_[key.first].size() + token_bytes_[key.second].size() <= rules_.max_token_bytes;
}

void MergeReplay::add(std::string_view piece, uint64_t count) {
  if (begun_) throw std::logic_error("pieces are added before the first merge");
  constexpr uint64_t most = (uint64_t{1} << 63) - 1;
  if (!piece.empty() && count > (most - bytes_) / piece.size())
    throw std::overflow_error("the pieces have 2^63 bytes or more");
  bytes_ += piece.size() * count;
  if (piece.size() < 2 || count == 0) return;  // holds no pair
  std::vector<uint32_t> word;
  word.reserve(piece.size());
  for (char byte : piece) word.push_back(id_of_byte_[static_cast<uint8_t>(byte)]);
  words_.push_back(std::move(word));
  counts_.push_back(count);
}

void MergeReplay::begin() {
  if (begun_) return;
  begun_ = true;
  for (uint32_t number = 0; number < words_.size(); ++number) {
    const std::vector<uint32_t>& word = words_[number];
    for (size_t i = 0; i + 1 < word.size(); ++i) {
      Standing& standing = pairs_[{word[i], word[i + 1]}];
      standing.count += counts_[number];
      if (standing.words.empty() || standing.words.back() != number) standing.words.push_back(number);
    }
  }
  for (const auto& [key, standing] : pairs_) {
    if (may_be_merged(key, standing.count)) queue_.insert({standing.count, key});
  }
}

std::optional<MergeReplay::Pair> MergeReplay::best() {
  begin();
  if (queue_.empty()) return std::nullopt;
  const Ranked& first = *queue_.begin();
  return Pair{first.key.first, first.key.second, first.count};
}

uint64_t MergeReplay::merge(uint32_t left, uint32_t right) {
  begin();
  const uint32_t made = static_cast<uint32_t>(token_bytes_.size());
  token_bytes_.push_back(token_bytes_.at(left) + token_bytes_.at(right));
  const auto found = pairs_.find({left, right});
  if (found == pairs_.end()) return 0;
  const std::vector<uint32_t> concerned = found->second.words;

  struct Change {
    int64_t count = 0;
    std::vector<uint32_t> words;  // in which the pair is new
  };
  std::unordered_map<Key, Change, KeyHash> changes;
  std::vector<uint32_t> before;
  uint64_t joined = 0;
  for (uint32_t number : concerned) {
    std::vector<uint32_t>& word = words_[number];
    before = word;
    word.clear();
    for (size_t i = 0; i < before.size(); ++i) {
      if (i + 1 < before.size() && before[i] == left && before[i + 1] == right) {
        word.push_back(made);
        ++i;
      } else {
        word.push_back(before[i]);
      }
    }
    if (word.size() == before.size()) continue;  // an earlier merge took the pair out of this word
    const int64_t count = static_cast<int64_t>(counts_[number]);
    joined += (before.size() - word.size()) * counts_[number];
    // The pairs before the first place that changed, and behind the last, stay as they are.
    const auto changed = std::mismatch(word.begin(), word.end(), before.begin(), before.end());
    const size_t first = static_cast<size_t>(changed.first - word.begin());
    const size_t from = first == 0 ? 0 : first - 1;
    const auto behind = std::mismatch(word.rbegin(), word.rend() - static_cast<ptrdiff_t>(first), before.rbegin(),
                                      before.rend() - static_cast<ptrdiff_t>(first));
    const size_t same = static_cast<size_t>(behind.first - word.rbegin());  // tokens at the end
    const auto last_pair = [same](const std::vector<uint32_t>& tokens) {
      return std::min(tokens.size() - 1, tokens.size() - same);
    };
    for (size_t i = from; i < last_pair(before); ++i) changes[{before[i], before[i + 1]}].count -= count;
    for (size_t i = from; i < last_pair(word); ++i) {
      Change& change = changes[{word[i], word[i + 1]}];
      change.count += count;
      const bool is_new = word[i] == made || word[i + 1] == made;
      if (is_new && (change.words.empty() || change.words.back() != number)) change.words.push_back(number);
    }
  }
  for (auto& [key, change] : changes) {
    if (change.count == 0) continue;
    Standing& standing = pairs_[key];
    const uint64_t old_count = standing.count;
    standing.count += static_cast<uint64_t>(change.count);
    if (!change.words.empty()) standing.words = std::move(change.words);
    if (may_be_merged(key, old_count)) queue_.erase({old_count, key});
    if (may_be_merged(key, standing.count)) queue_.insert({standing.count, key});
    if (standing.count == 0) pairs_.erase(key);
  }
  return joined;
}

CounterSum counter_sum(const ColumnsView& counter) {
  CounterSum sum;
  sum.rows = counter.rows;
  std::string_view last;
  uint64_t last_place = 0;
  for (size_t row = 0; row < counter.rows; ++row) {
    const std::string_view piece(reinterpret_cast<const char*>(counter.piece(row)), counter.piece_size(row));
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
