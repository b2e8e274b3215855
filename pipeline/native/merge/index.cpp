#include "merge/index.hpp"

#include <bit>
#include <functional>

namespace bpe::merge {

PairIndex::PairIndex(const Tokens& tokens, bool greatest_bytes, size_t n_shards, uint64_t threshold,
                     size_t expected_pairs)
    : n_shards_(n_shards), queue_(tokens, greatest_bytes, threshold) {
  resize_table(std::bit_ceil(std::max<size_t>(1024, 3 * expected_pairs)));
}

void PairIndex::place(uint64_t hash, PairNumber number) {
  size_t slot = slot_of(hash);
  while (slots_[slot].number != kNoPair) slot = (slot + 1) & (slots_.size() - 1);
  slots_[slot] = {tag_of(hash), number};
}

void PairIndex::resize_table(size_t n_slots) {
  slots_.assign(n_slots, {0, kNoPair});
  for (PairNumber number = 0; number < pairs_.size(); ++number) place(hash_of(pairs_[number].key), number);
}

PairNumber PairIndex::add(PairKey key, uint64_t count, uint64_t positions) {
  const auto number = static_cast<PairNumber>(pairs_.size());
  constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
  pairs_.push_back({key, count, static_cast<uint32_t>(std::min(positions, kMost)), kNoPair});
  lists_.resize(lists_.size() + n_shards_, 0);
  if (2 * pairs_.size() > slots_.size())
    resize_table(4 * slots_.size());
  else
    place(hash_of(key), number);
  queue_.push(pairs_, number);
  return number;
}

PairNumber PairIndex::find(PairKey key) const {
  const auto hash = hash_of(key);
  for (size_t slot = slot_of(hash);; slot = (slot + 1) & (slots_.size() - 1)) {
    const auto [tag, number] = slots_[slot];
    if (number == kNoPair || (tag == tag_of(hash) && pairs_[number].key == key)) return number;
  }
}

void PairIndex::narrow(size_t enough) {
  if (pairs_.size() < std::max(narrow_at_, 2 * enough)) return;
  std::vector<uint64_t> counts;
  for (const auto& pair : pairs_)
    if (pair.count >= threshold()) counts.push_back(pair.count);
  if (counts.size() >= 2 * enough) {
    const auto last = counts.begin() + static_cast<std::ptrdiff_t>(enough);
    std::nth_element(counts.begin(), last, counts.end(), std::greater<>());
    queue_.raise(*last);
  }
  narrow_at_ = pairs_.size() + pairs_.size() / 4;
}

}  // namespace bpe::merge
