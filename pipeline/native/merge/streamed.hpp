// Merging while words are on their way from disk to disk: for pairs whose words do not fit in memory.
//
// Idea: only counts are in memory: a ledger (an index without positions) of all pairs whose count reaches its threshold,
// exact at all times. A batch of merges is applied in one pass over the words, and the changes of all pair counts are
// summed. The pairs of a batch overlap nowhere, so a word's batch is one walk over it.
#pragma once
#include "merge/batch.hpp"
#include "merge/exchange.hpp"

namespace bpe::merge {

inline constexpr size_t kMostBatch = 128;

// The joins of a batch, by what they join.
class JoinTable {
 public:
  explicit JoinTable(const std::vector<Join>& joins)
      : first_made_(joins.front().made), size_(joins.size()), begins_(joins.back().made + 1, 0), made_(joins.size()) {
    for (const auto& join : joins) {
      begins_[join.left] = 1;
      made_.insert(join.left, join.right, join.made);
    }
  }
  bool begins(Symbol symbol) const { return begins_[symbol] != 0; }
  Symbol made(Symbol left, Symbol right) const { return made_.find(left, right); }
  Symbol first_made() const { return first_made_; }
  size_t size() const { return size_; }

 private:
  Symbol first_made_;
  size_t size_;
  std::vector<uint8_t> begins_;  // by symbol: whether a join begins with it
  PairMap<false> made_;
};

// What one walk over words has changed. Counts of pairs may be negative: they are modulo 2^64.
struct BatchChanges {
  PairTally counts;
  std::vector<uint64_t> joined;  // by join
};

// Makes the batch's merges in a word, left to right; returns its new size.
template <class S>
size_t join_word(S* word, size_t size, uint64_t weight, const JoinTable& batch, BatchChanges& changes) {
  size_t out = 0;
  while (out + 1 < size && (!batch.begins(word[out]) || batch.made(word[out], word[out + 1]) == kNoPair)) ++out;
  if (out + 1 >= size) return size;
  Symbol before = out > 0 ? word[out - 1] : 0, last_before = before;  // the token on the left, and what it ended with
  bool joined_before = false;
  for (size_t i = out; i < size;) {
    const Symbol first = word[i];
    Symbol last = first, symbol = first;
    bool joined = false;
    if (i + 1 < size && batch.begins(first)) {
      if (const auto made = batch.made(first, word[i + 1]); made != kNoPair) {
        joined = true;
        last = word[i + 1];
        symbol = made;
        changes.joined[made - batch.first_made()] += weight;
        changes.counts[key_of(first, last)].count -= weight;
      }
    }
    if (out > 0 && (joined || joined_before)) {
      changes.counts[key_of(last_before, first)].count -= weight;
      changes.counts[key_of(before, symbol)].count += weight;
    }
    word[out++] = static_cast<S>(symbol);
    i += joined ? 2 : 1;
    before = symbol;
    last_before = last;
    joined_before = joined;
  }
  return out;
}

// Makes the batch's merges in all words of a shard, which are on disk.
template <class S>
BatchChanges join_stored(StoredWords& stored, const JoinTable& batch, Pulse& pulse, unsigned member) {
  BatchChanges changes;
  changes.joined.assign(batch.size(), 0);
  WordBlock<S> out;
  stored.begin_pass();
  for (WordBlock<S> block; stored.read_next(block);) {
    pulse.beat(member);
    block.filter([&](S* word, size_t size, uint64_t weight) {
      const size_t left = join_word(word, size, weight, batch, changes);
      return left > 1 ? left : 0;
    });
    stored.keep(block, out);
  }
  stored.keep(out);
  stored.end_pass();
  return changes;
}

// Counts exactly the pairs of a shard on disk whose bound reaches the threshold, which rises where they are too many.
template <class S>
PairTally count_stored(StoredWords& stored, const Sketch& sketch, uint64_t& threshold, size_t max_pairs, Pulse& pulse,
                       unsigned member) {
  PairTally tally;
  auto lowest = sketch.lowest_reaching(threshold);
  const auto count = [&](const S* word, size_t size, uint64_t weight) {
    for (size_t i = 0; i + 1 < size; ++i) {
      const auto key = key_of(word[i], word[i + 1]);
      if (!sketch.reaches(sketch.counter_of(key), lowest)) continue;
      tally[key].count += weight;
    }
  };
  stored.look<S>(0, [&](WordBlock<S>& block) {
    pulse.beat(member);
    block.each_word(count);
    while (tally.used() > max_pairs && threshold < kNeverReached / 2) {
      lowest = sketch.lowest_reaching(threshold *= 2);
      PairTally fewer;
      tally.each([&](const PairTally::Slot& slot) {
        if (sketch.reaches(sketch.counter_of(slot.key()), lowest)) fewer[slot.key()].count = slot.value.count;
      });
      tally = std::move(fewer);
    }
  });
  return tally;
}

// All pairs of the words on disk that reach a threshold: the lowest for which they are about `max_pairs`.
template <class S>
PairIndex count_ledger(std::vector<StoredWords>& stored, const Learned& learned, uint64_t max_pairs,
                       const MergeOptions& options, Team& team, Pulse& pulse) {
  const auto& [tokens, spans, sketch, result] = learned;
  auto wanted = BoundHistogram(sketch).threshold(max_pairs, kNeverReached, options.rules.min_frequency);
  while (true) {
    std::vector<PairTally> tallies(stored.size());
    std::vector<uint64_t> thresholds(stored.size(), std::max(wanted, options.rules.min_frequency));
    team.each(stored.size(), [&](size_t s, unsigned member) {
      tallies[s] = count_stored<S>(stored[s], sketch, thresholds[s], max_pairs, pulse, member);
    });
    const auto threshold = *std::max_element(thresholds.begin(), thresholds.end());
    for (size_t s = 1; s < tallies.size(); ++s) add_to(tallies[0], tallies[s]);
    PairIndex ledger(tokens, 0, threshold, tallies[0].used());
    tallies[0].each([&, &tokens = tokens, &sketch = sketch](const PairTally::Slot& slot) {
      if (slot.value.count >= threshold && sketch.bound(sketch.counter_of(slot.key())) >= threshold &&
          !tokens.forbids(left_of(slot.key()), right_of(slot.key())))
        ledger.add(slot.key(), slot.value.count, 0);
    });
    if (!ledger.pairs().empty() || threshold == options.rules.min_frequency) return ledger;
    wanted /= 2;  // counters promise a count that no pair has
    max_pairs = std::min(4 * max_pairs, uint64_t{1} << 40);
  }
}

// Makes a batch in all words on disk, and enters what changed into sketch and ledger.
template <class S>
void merge_batch(std::vector<StoredWords>& stored, PairIndex& ledger, const std::vector<Join>& joins,
                 const Learned& learned, Team& team, Pulse& pulse) {
  auto& [tokens, spans, sketch, result] = learned;
  const JoinTable batch(joins);
  result.joined.resize(result.counts.size());
  const size_t first_rank = result.joined.size() - batch.size();
  std::vector<BatchChanges> changes(stored.size());
  team.each(stored.size(),
            [&](size_t s, unsigned member) { changes[s] = join_stored<S>(stored[s], batch, pulse, member); });
  for (size_t s = 0; s < changes.size(); ++s) {
    for (size_t i = 0; i < batch.size(); ++i) result.joined[first_rank + i] += changes[s].joined[i];
    if (s != 0) add_to(changes[0].counts, changes[s].counts);
  }
  changes[0].counts.each([&, &tokens = tokens, &sketch = sketch](const PairTally::Slot& slot) {
    const PairKey key = slot.key();
    const uint64_t change = slot.value.count;
    if (tokens.forbids(left_of(key), right_of(key))) return;
    if (change > kNeverReached / 2) {  // it fell
      sketch.subtract(sketch.counter_of(key), 0 - change);
      if (const auto number = ledger.find(key); number != kNoPair && ledger.pair(number).count != 0)
        ledger.pair(number).count += change;
    } else {
      sketch.add(sketch.counter_of(key), change);
      if (change >= ledger.threshold()) ledger.add(key, change, 0);
    }
  });
}

}  // namespace bpe::merge
