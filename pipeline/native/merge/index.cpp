#include "merge/index.hpp"

namespace bpe::merge {

PairIndex::PairIndex(const Tokens& tokens, bool greatest_bytes, size_t n_shards, uint64_t threshold,
                     size_t expected_pairs)
    : tokens_(tokens), greatest_bytes_(greatest_bytes), n_shards_(n_shards), numbers_(expected_pairs),
      floor_(threshold), threshold_(threshold), open_(threshold + kLevels), levels_(kLevels, kNoPair) {}

PairNumber PairIndex::add(PairKey key, uint64_t count, uint64_t positions) {
  const auto number = static_cast<PairNumber>(pairs_.size());
  constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
  pairs_.push_back({key, count, static_cast<uint32_t>(std::min(positions, kMost)), kNoPair});
  lists_.resize(lists_.size() + n_shards_, 0);
  numbers_.insert(left_of(key), right_of(key), number);
  push(number);
  return number;
}

void PairIndex::narrow(size_t enough) {
  if (pairs_.size() < std::max(narrow_at_, 2 * enough)) return;
  std::vector<uint64_t> counts;
  for (const auto& pair : pairs_)
    if (pair.count >= threshold_) counts.push_back(pair.count);
  if (counts.size() >= 2 * enough) {
    const auto last = counts.begin() + static_cast<std::ptrdiff_t>(enough);
    std::nth_element(counts.begin(), last, counts.end(), std::greater<>());
    threshold_ = *last;
  }
  narrow_at_ = pairs_.size() + pairs_.size() / 4;
}

bool PairIndex::worse(const Candidate& one, const Candidate& other) const {
  if (one.count != other.count) return one.count < other.count;
  if (!greatest_bytes_) return one.key > other.key;
  const int left = tokens_.compare(left_of(one.key), left_of(other.key));
  return left != 0 ? left < 0 : tokens_.compare(right_of(one.key), right_of(other.key)) < 0;
}

void PairIndex::push_heap(std::vector<Candidate>& heap, PairNumber number) const {
  heap.push_back({pairs_[number].count, pairs_[number].key, number});
  std::push_heap(heap.begin(), heap.end(), [this](const auto& a, const auto& b) { return worse(a, b); });
}

PairIndex::Candidate PairIndex::pop_heap(std::vector<Candidate>& heap) const {
  std::pop_heap(heap.begin(), heap.end(), [this](const auto& a, const auto& b) { return worse(a, b); });
  const Candidate best = heap.back();
  heap.pop_back();
  return best;
}

void PairIndex::push(PairNumber number) {
  auto& pair = pairs_[number];
  if (pair.count < threshold_) return;
  if (pair.count - floor_ >= kLevels) {
    push_heap(above_, number);
  } else if (pair.count == open_) {
    push_heap(late_, number);
  } else {
    pair.next = levels_[pair.count - floor_];
    levels_[pair.count - floor_] = number;
  }
}

PairNumber PairIndex::take_best() {
  while (!above_.empty()) {
    const Candidate best = pop_heap(above_);
    if (pairs_[best.number].count == best.count) return best.number;
    push(best.number);
  }
  do {
    while (!ordered_.empty() || !late_.empty()) {
      Candidate best;
      if (late_.empty() || (!ordered_.empty() && worse(late_.front(), ordered_.back()))) {
        best = ordered_.back();
        ordered_.pop_back();
      } else {
        best = pop_heap(late_);
      }
      if (pairs_[best.number].count == best.count) return best.number;
      push(best.number);
    }
  } while (open_next_level());
  return kNoPair;
}

bool PairIndex::open_next_level() {
  do {
    if (open_ <= threshold_) return false;
    --open_;
  } while (levels_[open_ - floor_] == kNoPair);
  for (PairNumber number = levels_[open_ - floor_], next; number != kNoPair; number = next) {
    next = pairs_[number].next;
    if (pairs_[number].count == open_)
      ordered_.push_back({open_, pairs_[number].key, number});
    else
      push(number);
  }
  std::sort(ordered_.begin(), ordered_.end(), [this](const auto& a, const auto& b) { return worse(a, b); });
  return true;
}

}  // namespace bpe::merge
