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

  std::unordered_map<Key, uint64_t, KeyHash> before;  // counts of the pairs that are touched
  const auto touched = [&](const Key& key) -> Standing& {
    Standing& standing = pairs_[key];
    before.try_emplace(key, standing.count);
    return standing;
  };
  uint64_t joined = 0;
  for (uint32_t number : concerned) {
    std::vector<uint32_t>& word = words_[number];
    std::vector<uint32_t> rewritten;
    for (size_t i = 0; i < word.size(); ++i) {
      if (i + 1 < word.size() && word[i] == left && word[i + 1] == right) {
        rewritten.push_back(made);
        ++i;
      } else {
        rewritten.push_back(word[i]);
      }
    }
    if (rewritten.size() == word.size()) continue;  // an earlier merge took the pair out of this word
    const uint64_t count = counts_[number];
    joined += (word.size() - rewritten.size()) * count;
    for (size_t i = 0; i + 1 < word.size(); ++i) touched({word[i], word[i + 1]}).count -= count;
    for (size_t i = 0; i + 1 < rewritten.size(); ++i) {
      Standing& standing = touched({rewritten[i], rewritten[i + 1]});
      standing.count += count;
      const bool is_new = rewritten[i] == made || rewritten[i + 1] == made;
      if (is_new && (standing.words.empty() || standing.words.back() != number)) standing.words.push_back(number);
    }
    word.assign(rewritten.begin(), rewritten.end());
  }
  for (const auto& [key, old_count] : before) {
    const auto now = pairs_.find(key);
    const uint64_t new_count = now->second.count;
    if (new_count != old_count) {
      if (may_be_merged(key, old_count)) queue_.erase({old_count, key});
      if (may_be_merged(key, new_count)) queue_.insert({new_count, key});
    }
    if (new_count == 0) pairs_.erase(now);
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
