#include "encode/chain_merge.hpp"

namespace bpe {

ChainMerger::ChainMerger(std::span<const Token* const> by_id, std::span<const Merge> merges) {
  size_t token_bytes = 0;
  for (const Token* token : by_id) token_bytes += token ? token->bytes.size() : 0;
  std::vector<uint32_t> first_used(by_id.size(), kNone);
  for (uint32_t rank = 0; rank < merges.size(); ++rank) {
    for (uint32_t id : {merges[rank].left, merges[rank].right}) first_used[id] = std::min(first_used[id], rank);
  }
  for (uint32_t rank = 0; rank < merges.size(); ++rank) {
    if (first_used[merges[rank].result] <= rank) return;
  }
  if (token_bytes > kMaxTokenBytes) return;

  numbers_ = PairMap<true>(merges.size());
  parts_.assign(256 + merges.size(), Part{0, 0, 0, kNone});
  ids_.assign(256 + merges.size(), kNone);

  std::vector<uint32_t> numbers(by_id.size(), kNone);
  std::vector<TokenTrie::Entry> entries;
  const auto number_token = [&](uint32_t id, uint32_t number, uint32_t left, uint32_t right) {
    const std::string_view bytes = by_id[id]->bytes;
    numbers[id] = number;
    ids_[number] = id;
    parts_[number] = {left, right, static_cast<uint32_t>(bytes.size()), kNone};
    entries.push_back({bytes, number});
  };
  for (uint32_t id = 0; id < by_id.size(); ++id) {
    if (!by_id[id] || by_id[id]->bytes.size() != 1) continue;
    number_token(id, static_cast<uint8_t>(by_id[id]->bytes[0]), 0, 0);
  }
  for (uint32_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left_id, right_id, result] = merges[rank];
    const uint32_t left = numbers[left_id], right = numbers[right_id], number = 256 + rank;
    if (left == kNone || right == kNone) continue;  // never appears
    numbers_.insert(left, right, number);
    joinable_.add(*by_id[left_id], *by_id[right_id]);
    // Of several merges that make a token, its own bytes take one.
    if (numbers[result] == kNone && fit(left, right, number)) number_token(result, number, left, right);
  }
  by_id_ = std::move(numbers);
  std::vector<uint32_t> shorter(parts_.size(), kNone);
  trie_ = TokenTrie(std::move(entries), shorter);
  for (size_t number = 0; number < parts_.size(); ++number) parts_[number].shorter = shorter[number];
}

// `failed(position, set)`: whether nothing continues from there; `set` notes it.
template <bool kLimited, class Failed>
bool ChainMerger::chain(const uint8_t* pre_token, size_t size, Failed failed, uint64_t* fits, IdBuffer& out) const {
  const uint8_t* const end = pre_token + size;
  uint32_t* const row = out.reserve(size);
  size_t count = 0, at = 0, steps = 0;
  const TokenTrie::Found first = trie_.longest(pre_token, end, steps);
  uint32_t token = first.number, length = first.length;
  const auto take = [&](uint32_t number) {
    token = number;
    length = parts_[number].length;
  };
  for (;;) {
    if (kLimited && ++steps > kMaxSteps * size) return false;
    const size_t stop = at + length;
    if (!failed(stop, false) &&
        (count == 0 || !joinable_.has(pre_token[at - 1], pre_token[at]) || fit_cached(row[count - 1], token, fits))) {
      row[count++] = token;
      at = stop;
      if (at == size) break;
      const TokenTrie::Found next = trie_.longest(pre_token + at, end, steps);
      token = next.number;
      length = next.length;
    } else if (parts_[token].shorter != kNone) {
      take(parts_[token].shorter);
    } else {
      failed(at, true);
      take(row[--count]);
      at -= length;
    }
  }
  for (size_t i = 0; i < count; ++i) row[i] = ids_[row[i]];
  out.advance(count);
  return true;
}

bool ChainMerger::encode(const uint8_t* pre_token, size_t size, Scratch& scratch, IdBuffer& out) const {
  if (size == 1) {
    out.push(ids_[pre_token[0]]);
    return true;
  }
  if (scratch.fits.empty()) scratch.fits.assign(size_t{1} << kFitsBits, UINT64_MAX);  // of no pair
  uint64_t* const fits = scratch.fits.data();
  if (size < 64) {
    uint64_t bits = 0;
    return chain<false>(
        pre_token, size,
        [&](size_t position, bool set) {
          bits |= uint64_t{set} << position;
          return bits >> position & 1;
        },
        fits, out);
  }
  scratch.failed.assign(size / 64 + 1, 0);
  const bool done = chain<true>(
      pre_token, size,
      [&](size_t position, bool set) {
        uint64_t& word = scratch.failed[position / 64];
        word |= uint64_t{set} << position % 64;
        return word >> position % 64 & 1;
      },
      fits, out);
  if (scratch.failed.capacity() > (size_t{1} << 16)) scratch.failed = {};  // of a giant pre-token
  return done;
}

}  // namespace bpe
