#include "verify/verify.hpp"

#include <unordered_set>

#include "count/columns.hpp"

namespace bpe {

namespace {
constexpr size_t kBlockTokens = 512;  // of a piece
}

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
  for (size_t start = 0; start < piece.size(); start += kBlockTokens) {
    const std::string_view part = piece.substr(start, kBlockTokens);
    std::vector<uint32_t> block;
    block.reserve(part.size());
    for (char byte : part) block.push_back(id_of_byte_[static_cast<uint8_t>(byte)]);
    blocks_.push_back(std::move(block));
    counts_.push_back(count);
    continues_.push_back(start > 0);
  }
}

uint32_t MergeReplay::block_behind(uint32_t block) const {
  while (++block < blocks_.size() && continues_[block]) {
    if (!blocks_[block].empty()) return block;
  }
  return kNone;
}

uint32_t MergeReplay::block_before(uint32_t block) const {
  while (continues_[block]) {
    if (!blocks_[--block].empty()) return block;
  }
  return kNone;
}

void MergeReplay::begin() {
  if (begun_) return;
  begun_ = true;
  for (uint32_t number = 0; number < blocks_.size(); ++number) {
    const std::vector<uint32_t>& block = blocks_[number];
    const uint32_t behind = block_behind(number);
    for (size_t i = 0; i < block.size(); ++i) {
      if (i + 1 == block.size() && behind == kNone) break;
      const uint32_t right = i + 1 < block.size() ? block[i + 1] : blocks_[behind].front();
      Standing& standing = pairs_[{block[i], right}];
      standing.count += counts_[number];
      if (standing.blocks.empty() || standing.blocks.back() != number) standing.blocks.push_back(number);
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

uint64_t MergeReplay::join_in(uint32_t number, uint32_t left, uint32_t right, uint32_t made, Changes& changes) {
  std::vector<uint32_t>& block = blocks_[number];
  const int64_t count = static_cast<int64_t>(counts_[number]);
  const auto appears = [&](uint32_t first, uint32_t second, uint32_t where) {
    Change& change = changes[{first, second}];
    change.count += count;
    if (change.blocks.empty() || change.blocks.back() != where) change.blocks.push_back(where);
  };
  uint64_t joined = 0;
  size_t to = 0;
  for (size_t from = 0; from < block.size();) {
    if (block[from] != left) {
      block[to++] = block[from++];
      continue;
    }
    uint32_t behind = kNone;  // the block of the right token, where that is another
    if (from + 1 == block.size()) {
      behind = block_behind(number);
      if (behind == kNone || blocks_[behind].front() != right) {
        block[to++] = block[from++];
        continue;
      }
      blocks_[behind].erase(blocks_[behind].begin());
      from += 1;
    } else if (block[from + 1] == right) {
      from += 2;
    } else {
      block[to++] = block[from++];
      continue;
    }
    joined += 1;
    changes[{left, right}].count -= count;
    const uint32_t before = to ? number : block_before(number);
    if (before != kNone) {
      const uint32_t token = to ? block[to - 1] : blocks_[before].back();
      changes[{token, left}].count -= count;
      appears(token, made, before);
    }
    const uint32_t after = from < block.size() ? number : block_behind(number);
    if (after != kNone) {
      const uint32_t token = from < block.size() ? block[from] : blocks_[after].front();
      changes[{right, token}].count -= count;
      appears(made, token, number);
    }
    block[to++] = made;
  }
  block.resize(to);
  return joined;
}

uint64_t MergeReplay::merge(uint32_t left, uint32_t right) {
  begin();
  const uint32_t made = static_cast<uint32_t>(token_bytes_.size());
  token_bytes_.push_back(token_bytes_.at(left) + token_bytes_.at(right));
  const auto found = pairs_.find({left, right});
  if (found == pairs_.end()) return 0;
  const std::vector<uint32_t> concerned = found->second.blocks;
  Changes changes;
  uint64_t joined = 0;
  for (uint32_t number : concerned) joined += join_in(number, left, right, made, changes) * counts_[number];
  for (auto& [key, change] : changes) {
    if (change.count == 0) continue;
    Standing& standing = pairs_[key];
    const uint64_t old_count = standing.count;
    standing.count += static_cast<uint64_t>(change.count);
    if (!change.blocks.empty()) standing.blocks = std::move(change.blocks);
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
