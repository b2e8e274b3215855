#include "merge_index.hpp"

#include <algorithm>
#include <bit>

namespace bpe::merge {

PairIndex::PairIndex(const Tokens& tokens, TieBreak tie_break, std::size_t n_shards, std::uint64_t threshold,
                     std::size_t expected_pairs)
    : tokens_(tokens), tie_break_(tie_break), n_shards_(n_shards), threshold_(threshold) {
  const std::size_t n_slots = std::bit_ceil(std::max<std::size_t>(1024, 3 * expected_pairs));
  resize_table(n_slots);
}

void PairIndex::place(PairKey key, std::uint64_t hash, PairNumber number) {
  std::size_t slot = slot_of(hash);
  while (slots_[slot].number != kNoPair) slot = (slot + 1) & (slots_.size() - 1);
  slots_[slot] = {key, number};
}

void PairIndex::resize_table(std::size_t n_slots) {
  slots_.assign(n_slots, {0, kNoPair});
  for (PairNumber number = 0; number < pairs_.size(); ++number)
    place(pairs_[number].key, hash_of(pairs_[number].key), number);
}

PairNumber PairIndex::add(PairKey key, std::uint64_t count, std::uint64_t positions) {
  const auto number = static_cast<PairNumber>(pairs_.size());
  const auto hash = hash_of(key);
  pairs_.push_back({key, count, positions});
  lists_.resize(lists_.size() + n_shards_, 0);
  if (3 * pairs_.size() > 2 * slots_.size())
    resize_table(2 * slots_.size());
  else
    place(key, hash, number);
  queue_.push_back({count, key, number});
  if (started_)
    std::push_heap(queue_.begin(), queue_.end(), [this](const auto& a, const auto& b) { return worse(a, b); });
  return number;
}

void PairIndex::start() {
  std::make_heap(queue_.begin(), queue_.end(), [this](const auto& a, const auto& b) { return worse(a, b); });
  started_ = true;
}

PairNumber PairIndex::find(PairKey key, std::uint64_t hash) const {
  for (std::size_t slot = slot_of(hash);; slot = (slot + 1) & (slots_.size() - 1)) {
    if (slots_[slot].number == kNoPair || slots_[slot].key == key) return slots_[slot].number;
  }
}

bool PairIndex::worse(const Candidate& one, const Candidate& other) const {
  if (one.count != other.count) return one.count < other.count;
  if (tie_break_ == TieBreak::lowest_ids) return one.key > other.key;
  const int left = tokens_.compare(left_of(one.key), left_of(other.key));
  return left != 0 ? left < 0 : tokens_.compare(right_of(one.key), right_of(other.key)) < 0;
}

PairNumber PairIndex::take_best() {
  const auto worse_than = [this](const auto& a, const auto& b) { return worse(a, b); };
  while (!queue_.empty()) {
    std::pop_heap(queue_.begin(), queue_.end(), worse_than);
    Candidate& last = queue_.back();
    const auto count = pairs_[last.number].count;
    if (count == last.count) {
      const PairNumber best = last.number;
      queue_.pop_back();
      return best;
    }
    if (count >= threshold_) {
      last.count = count;
      std::push_heap(queue_.begin(), queue_.end(), worse_than);
    } else {
      queue_.pop_back();
    }
  }
  return kNoPair;
}

}  // namespace bpe::merge
