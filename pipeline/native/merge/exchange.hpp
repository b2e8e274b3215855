// Between phases, where the words do not fit in memory: which of them the next phase needs, and bringing those in.
//
// Idea: a phase only changes words that hold a pair at or above its threshold: every pair that a merge makes or takes
// apart is in a word that held the merged pair. So a phase keeps those words in memory and all others on disk. The
// threshold is chosen from a sample, so that the words and the lists of their positions fit; where the sample was wrong,
// a shard raises it while it reads and sends words away again.
// Invariant: a word of one token is nowhere: nothing can change it.
#pragma once
#include "merge/phases.hpp"
#include "merge/scan.hpp"
#include "merge/stored_words.hpp"

namespace bpe::merge {

inline constexpr uint64_t kPositionBytes = 8;  // of a listed position, with its part of a copy of the longest list
inline constexpr size_t kSampledBlocks = 64;   // of each shard

// Closes the gaps between the words of a shard, and drops those for which keep(word, size, weight) is false. It may shorten
// the word, which is followed by a boundary.
template <class S, class Keep>
void filter_words(Shard<S>& shard, Keep&& keep) {
  S* const symbols = shard.symbols.data();
  const auto runs = std::exchange(shard.runs, {});
  Position out = 1, in = 1;
  for (size_t r = 0; r + 1 < runs.size(); ++r) {
    while (in < runs[r + 1].begin) {
      const Position start = out;
      for (; symbols[in] != kBoundary; ++in) {
        const S symbol = symbols[in];
        symbols[out] = symbol;
        out += symbol < kTail<S>;
      }
      ++in;
      symbols[out] = static_cast<S>(kBoundary);
      auto size = static_cast<size_t>(out - start);
      if (!keep(symbols + start, size, runs[r].weight)) {
        out = start;
        continue;
      }
      out = start + static_cast<Position>(size);
      symbols[out++] = static_cast<S>(kBoundary);
      if (shard.runs.empty() || shard.runs.back().weight != runs[r].weight)
        shard.runs.push_back({start, runs[r].weight});
    }
  }
  shard.runs.push_back({out, 0});
  shard.size = out;
}

// Adds a word's pairs to the sums by counter of a sketch of that size: add(sum, weight). Sums are fetched ahead, some pairs at once: hardly any is in a cache.
template <class S, class Add>
void add_pairs(const S* word, size_t size, uint64_t weight, const Tokens& tokens, std::vector<uint64_t>& sums,
               Add&& add) {
  std::array<uint64_t*, 64> places;
  for (size_t i = 0, n = 0; i + 1 < size; n = 0) {
    for (const auto end = std::min(size - 1, i + places.size()); i < end; ++i) {
      if (tokens.forbids(word[i], word[i + 1])) continue;
      places[n] = &sums[Sketch::spread(Sketch::product(key_of(word[i], word[i + 1]))) & (sums.size() - 1)];
      __builtin_prefetch(places[n++], 1);
    }
    for (size_t k = 0; k < n; ++k) add(*places[k], weight);
  }
}
inline void add_alone(uint64_t& sum, uint64_t weight) { sum += weight; }
inline void add_shared(uint64_t& sum, uint64_t weight) {
  std::atomic_ref(sum).fetch_add(weight, std::memory_order_relaxed);
}

// The sums of all pairs in shards, for a sketch of that size.
template <class S>
std::vector<uint64_t> sums_of(std::vector<Shard<S>>& shards, size_t sketch_size, const Tokens& tokens, Team& team) {
  std::vector<uint64_t> sums(sketch_size, 0);
  const auto read = [&](auto&& add) {
    team.each(shards.size(), [&](size_t s, unsigned) {
      filter_words(shards[s], [&](const S* word, size_t size, uint64_t weight) {
        add_pairs(word, size, weight, tokens, sums, add);
        return true;
      });
    });
  };
  team.members() == 1 ? read(add_alone) : read(add_shared);
  return sums;
}

// A shard without words, with space for those that take at most that many bytes.
template <class S>
Shard<S> empty_shard(uint64_t most_bytes) {
  Shard<S> shard;
  shard.symbols = Array<S>(std::min<uint64_t>(most_bytes / sizeof(S), std::numeric_limits<Position>::max() - 2) + 2);
  shard.symbols.data()[0] = static_cast<S>(kBoundary);
  shard.size = 1;
  shard.runs.push_back({1, 0});
  return shard;
}

// Sends all words of a shard to disk.
template <class S>
void put_away(Shard<S>& shard, StoredWords& stored) {
  WordBlock<S> block;
  filter_words(shard, [&](const S* word, size_t size, uint64_t weight) {
    if (size > 1) block.add(word, size, weight);
    if (block.full()) stored.append(block);
    return false;
  });
  stored.append(block);
  shard.symbols.shrink(shard.size);
}

// The words of one shard that the next phase needs: in memory, up to a number of bytes with the lists of their pairs.
template <class S>
class Exchange {
 public:
  Exchange(Shard<S>& shard, StoredWords& stored, const Sketch& sketch, uint64_t most_bytes, Pulse& pulse,
           unsigned member)
      : shard_(shard), stored_(stored), sketch_(sketch), most_bytes_(most_bytes), pulse_(pulse), member_(member) {}

  // Returns the threshold that the words in memory are complete for: the one asked for, or a higher one.
  uint64_t run(uint64_t threshold) {
    stored_.begin_pass();
    set_threshold(threshold);
    drop_inactive();
    shard_.runs.pop_back();
    for (WordBlock<S> block; stored_.read_next(block);) {
      pulse_.beat(member_);
      block.filter([&](const S* word, size_t size, uint64_t weight) { return take(word, size, weight) ? 0 : size; });
      stored_.keep(block, leaving_);
    }
    stored_.keep(leaving_);
    stored_.end_pass();
    shard_.runs.push_back({shard_.size, 0});
    shard_.symbols.shrink(shard_.size);
    return threshold_;
  }

 private:
  void set_threshold(uint64_t threshold) {
    threshold_ = threshold;
    if (threshold != kNeverReached) filter_.emplace(filter_above({{&sketch_, threshold}}));
  }
  // Pairs of the word that may reach the threshold.
  size_t active_pairs(const S* word, size_t size) const {
    if (threshold_ == kNeverReached) return 0;
    return filter_->with([&](const auto& passes) {
      size_t n = 0;
      auto left = Sketch::product(word[0]);
      for (size_t i = 1; i < size; ++i) {
        const auto right = Sketch::product(word[i]);
        n += passes((left << 32) + right);
        left = right;
      }
      return n;
    });
  }
  uint64_t bytes_of(size_t size, size_t active) const { return (size + 1) * sizeof(S) + active * kPositionBytes; }

  // Keeps the words in memory that may change, and sends the others to disk.
  void drop_inactive() {
    bytes_ = 0;
    filter_words(shard_, [&](const S* word, size_t size, uint64_t weight) {
      const auto active = active_pairs(word, size);
      if (active == 0) {
        if (size > 1) send(word, size, weight);
        return false;
      }
      bytes_ += bytes_of(size, active);
      return true;
    });
  }
  void send(const S* word, size_t size, uint64_t weight) {
    leaving_.add(word, size, weight);
    if (leaving_.full()) stored_.keep(leaving_);
  }
  // Moves a word to memory if it may change; false if it stays on disk.
  bool take(const S* word, size_t size, uint64_t weight) {
    auto active = active_pairs(word, size);
    while (active != 0 && bytes_ + bytes_of(size, active) > most_bytes_) {
      raise();
      active = active_pairs(word, size);
    }
    if (active == 0) return size < 2;
    bytes_ += bytes_of(size, active);
    if (shard_.runs.empty() || shard_.runs.back().weight != weight) shard_.runs.push_back({shard_.size, weight});
    std::copy(word, word + size + 1, shard_.symbols.data() + shard_.size);
    shard_.size += static_cast<Position>(size + 1);
    return true;
  }
  // Raises the threshold until the words in memory take much less.
  void raise() {
    BoundHistogram histogram(sketch_);
    shard_.runs.push_back({shard_.size, 0});
    filter_words(shard_, [&](const S* word, size_t size, uint64_t) {
      note_word(histogram, word, size, sketch_, 1);
      return true;
    });
    const auto higher =
        histogram.threshold(kNeverReached, most_bytes_ / 4 * 3, 1, sizeof(S), kPositionBytes, kNeverReached);
    set_threshold(higher > threshold_ ? higher : threshold_ > kNeverReached / 2 ? kNeverReached : 2 * threshold_);
    drop_inactive();
    shard_.runs.pop_back();
  }

 public:
  static void note_word(BoundHistogram& histogram, const S* word, size_t size, const Sketch& sketch, double each) {
    uint64_t highest = 0;
    for (size_t i = 0; i + 1 < size; ++i) {
      const auto bound = sketch.bound(sketch.counter_of(key_of(word[i], word[i + 1])));
      if (bound == 0) continue;
      highest = std::max(highest, bound);
      histogram.add_positions(bound, each);
    }
    if (highest != 0) histogram.add_slots(highest, each * static_cast<double>(size + 1));
  }

 private:
  Shard<S>& shard_;
  StoredWords& stored_;
  const Sketch& sketch_;
  const uint64_t most_bytes_;
  Pulse& pulse_;
  const unsigned member_;
  uint64_t threshold_ = 0, bytes_ = 0;
  std::optional<Filter> filter_;
  WordBlock<S> leaving_;
};

// The lowest threshold for which a phase is estimated to hold at most that many pairs and bytes; kNeverReached where no
// pair's words fit; 0 where no pair can reach min_frequency.
template <class S>
uint64_t affordable_threshold(std::vector<Shard<S>>& shards, std::vector<StoredWords>& stored, const Sketch& sketch,
                              uint64_t max_pairs, uint64_t most_bytes, uint64_t min_frequency) {
  BoundHistogram histogram(sketch), sampled(sketch);
  double seen = 0, all = 0;
  for (size_t s = 0; s < shards.size(); ++s) {
    filter_words(shards[s], [&](const S* word, size_t size, uint64_t) {
      Exchange<S>::note_word(histogram, word, size, sketch, 1);
      return true;
    });
    all += static_cast<double>(stored[s].symbols());
    stored[s].template look<S>(kSampledBlocks, [&](WordBlock<S>& block) {
      seen += static_cast<double>(block.symbols.size());
      block.each_word(
          [&](const S* word, size_t size, uint64_t) { Exchange<S>::note_word(sampled, word, size, sketch, 1); });
    });
  }
  if (seen > 0) histogram.add(sampled, all / seen);
  return histogram.threshold(max_pairs, most_bytes, min_frequency, sizeof(S), kPositionBytes, kNeverReached);
}

}  // namespace bpe::merge
