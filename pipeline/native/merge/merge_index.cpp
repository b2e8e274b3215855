#include "merge/merge_index.hpp"

#include <bit>
#include <functional>

namespace bpe::merge {

PairIndex::PairIndex(const Tokens& tokens, TieBreak tie_break, std::size_t n_shards, std::uint64_t threshold,
                     std::size_t expected_pairs)
    : n_shards_(n_shards), queue_(tokens, tie_break, threshold) {
  resize_table(std::bit_ceil(std::max<std::size_t>(1024, 3 * expected_pairs)));
}

void PairIndex::place(std::uint64_t hash, PairNumber number) {
  std::size_t slot = slot_of(hash);
  while (slots_[slot].number != kNoPair) slot = (slot + 1) & (slots_.size() - 1);
  slots_[slot] = {tag_of(hash), number};
}

void PairIndex::resize_table(std::size_t n_slots) {
  slots_.assign(n_slots, {0, kNoPair});
  for (PairNumber number = 0; number < pairs_.size(); ++number) place(hash_of(pairs_[number].key), number);
}

PairNumber PairIndex::add(PairKey key, std::uint64_t count, std::uint64_t positions) {
  const auto number = static_cast<PairNumber>(pairs_.size());
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  pairs_.push_back({key, count, static_cast<std::uint32_t>(std::min(positions, kMost)), kNoPair});
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
  for (std::size_t slot = slot_of(hash);; slot = (slot + 1) & (slots_.size() - 1)) {
    const auto [tag, number] = slots_[slot];
    if (number == kNoPair || (tag == tag_of(hash) && pairs_[number].key == key)) return number;
  }
}

void PairIndex::narrow(std::size_t enough) {
  if (pairs_.size() < std::max(narrow_at_, 2 * enough)) return;
  std::vector<std::uint64_t> counts;
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
