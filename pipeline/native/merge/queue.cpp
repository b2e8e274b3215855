#include "merge/queue.hpp"

#include <algorithm>

namespace bpe::merge {

PairQueue::PairQueue(const Tokens& tokens, bool greatest_bytes, uint64_t threshold)
    : tokens_(tokens), greatest_bytes_(greatest_bytes), floor_(threshold), threshold_(threshold), open_(threshold + kLevels),
      levels_(kLevels, kNoPair) {}

bool PairQueue::worse(const Candidate& one, const Candidate& other) const {
  if (one.count != other.count) return one.count < other.count;
  if (!greatest_bytes_) return one.key > other.key;
  const int left = tokens_.compare(left_of(one.key), left_of(other.key));
  return left != 0 ? left < 0 : tokens_.compare(right_of(one.key), right_of(other.key)) < 0;
}

void PairQueue::push_heap(std::vector<Candidate>& heap, const Candidate& candidate) const {
  heap.push_back(candidate);
  std::push_heap(heap.begin(), heap.end(), [this](const auto& a, const auto& b) { return worse(a, b); });
}

PairQueue::Candidate PairQueue::pop_heap(std::vector<Candidate>& heap) const {
  std::pop_heap(heap.begin(), heap.end(), [this](const auto& a, const auto& b) { return worse(a, b); });
  const Candidate best = heap.back();
  heap.pop_back();
  return best;
}

void PairQueue::push(std::vector<IndexedPair>& pairs, PairNumber number) {
  auto& pair = pairs[number];
  if (pair.count < threshold_) return;
  if (pair.count - floor_ >= kLevels) {
    push_heap(above_, {pair.count, pair.key, number});
  } else if (pair.count == open_) {
    push_heap(late_, {pair.count, pair.key, number});
  } else {
    pair.next = levels_[pair.count - floor_];
    levels_[pair.count - floor_] = number;
  }
}

PairNumber PairQueue::take_best(std::vector<IndexedPair>& pairs) {
  while (!above_.empty()) {
    const Candidate best = pop_heap(above_);
    if (pairs[best.number].count == best.count) return best.number;
    push(pairs, best.number);
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
      if (pairs[best.number].count == best.count) return best.number;
      push(pairs, best.number);
    }
  } while (open_next_level(pairs));
  return kNoPair;
}

bool PairQueue::open_next_level(std::vector<IndexedPair>& pairs) {
  do {
    if (open_ <= threshold_) return false;
    --open_;
  } while (levels_[open_ - floor_] == kNoPair);
  for (PairNumber number = levels_[open_ - floor_], next; number != kNoPair; number = next) {
    next = pairs[number].next;
    if (pairs[number].count == open_)
      ordered_.push_back({open_, pairs[number].key, number});
    else
      push(pairs, number);
  }
  std::sort(ordered_.begin(), ordered_.end(), [this](const auto& a, const auto& b) { return worse(a, b); });
  return true;
}

}  // namespace bpe::merge
