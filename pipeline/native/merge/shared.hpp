// SharedTraining: merges by the most frequent pair, where words are parts on other nodes; it has no words itself.
//
// Idea: the steps of one PhaseLoop, called from outside, but over sums: a sketch of the counts of all parts together, and an index
// of the pairs that reach the phase's threshold, without positions. It guesses the next merges, the first pairs of its
// queue, and the parts make them (part.hpp). Then it makes them itself, one after the other, with what all parts found
// next to their occurrences: a guess holds as long as it is what the queue, which is exact, says next. The first always is.
// The result is that of one engine, for any guesses.
#pragma once
#include <array>

#include "merge/batch.hpp"
#include "merge/part.hpp"

namespace bpe::merge {

inline constexpr size_t kMostGuessed = 256;

// Slots, their mass, bytes, pieces left out, their bytes.
using PartFacts = std::array<uint64_t, 5>;

class SharedTraining : public PhaseLoop<SharedTraining, MostFrequent> {
 public:
  SharedTraining(const MergeOptions& options, MergeResult known) : PhaseLoop(options, std::move(known)) {}

  // Returns the size of a sketch for all parts together.
  size_t start(const std::vector<PartFacts>& parts) {
    for (const auto& [slots, mass, bytes, left_out_pieces, left_out_bytes] : parts) {
      take_in(mass, bytes, left_out_pieces, left_out_bytes);
      slots_ += slots;
    }
    sketch_.emplace(slots_, mass_, kNeverReached);
    sums_.assign(sketch_->size(), 0);
    return sketch_->size();
  }
  // Adds the sums of a part.
  void add_up(std::span<const uint64_t> sums) {
    for (size_t counter = 0; counter < sums.size(); ++counter) sums_.at(counter) += sums[counter];
  }

  // The pairs of the next phase, chosen by samples of one position in `step` of each part; empty when no merge is left.
  PairFilter begin_phase(std::vector<std::vector<PairKey>> samples, double step) {
    samples_ = std::move(samples);
    step_ = step;
    return PhaseLoop::begin_phase() ? filter_above({{&*sketch_, threshold_}}) : PairFilter();
  }
  // Adds the counts that a part has of the pairs that pass.
  void count(std::span<const PairKey> pairs, std::span<const uint64_t> counts) {
    for (size_t i = 0; i < pairs.size(); ++i) tally_[pairs[i]].count += counts[i];
  }
  void index() {
    fresh_.clear();
    ++result_.phases;
    const auto tally = std::exchange(tally_, {});
    index_.emplace(tokens_, 0, threshold_, tally.used());
    tally.each([this](const PairTally::Slot& slot) {
      if (slot.value.count >= threshold_ && !tokens_.forbids(left_of(slot.key()), right_of(slot.key())))
        index_->add(slot.key(), slot.value.count, 0);
    });
  }
  // What passes in a part that is made again during a phase.
  PairFilter indexed() const {
    constexpr size_t all = size_t{1} << 24;
    return filter_of(all, index_->pairs().size(), [this](auto&& use) {
      for (const auto& pair : index_->pairs())
        if (pair.count >= index_->threshold()) use(Sketch::spread(Sketch::product(pair.key)), all);
    });
  }

  // The next merges, as far as can be guessed; none when the phase has ended. Pairs that an earlier one of them takes
  // apart are left out: they will hardly be next.
  const std::vector<PairKey>& guess() {
    guess_.clear();
    const auto most = std::min<uint64_t>(possible(), guesses_);
    std::vector<PairNumber> taken;
    uint64_t occurrences = 0;  // a part keeps their positions until the next guess
    while (guess_.size() < most && taken.size() < 2 * most && occurrences <= mass_ / 32) {
      const auto best = index_->take_best();
      if (best == kNoPair) break;
      taken.push_back(best);
      const auto key = index_->pair(best).key;
      if (std::none_of(guess_.begin(), guess_.end(), [key](PairKey earlier) {
            return key == earlier || left_of(key) == right_of(earlier) || right_of(key) == left_of(earlier);
          })) {
        guess_.push_back(key);
        occurrences += index_->pair(best).count;
      }
    }
    for (const auto number : taken) index_->put_back(number);
    return guess_;
  }
  // Makes the guessed merges that hold; returns the pairs that reached the threshold.
  std::vector<PairKey> enter(const std::vector<JoinedAround>& parts) {
    fresh_.clear();
    std::vector<std::pair<size_t, size_t>> next(parts.size());  // of its sizes, of its symbols
    size_t made = 0;
    for (const auto key : guess_) {
      const auto best = index_->take_best();
      if (best == kNoPair) break;
      if (index_->pair(best).key != key) {
        index_->put_back(best);
        break;
      }
      around_.make_space(tokens_.next() + 1);
      left_.clear();
      right_.clear();
      for (size_t p = 0; p < parts.size(); ++p) {
        left_.push_back(next_of(parts[p], next[p]));
        right_.push_back(next_of(parts[p], next[p]));
      }
      merge(best);
      ++made;
    }
    // Half as many again as hold, on average: what does not hold is work and bytes for nothing.
    guesses_ = std::clamp<size_t>((6 * guesses_ + 3 * made + 7) / 8, 4, kMostGuessed);
    index_->narrow(enough());
    return fresh_;
  }

 private:
  friend PhaseLoop<SharedTraining, MostFrequent>;
  void fit() {
    const bool narrow = is_narrow(options_, tokens_.next());
    end_symbol_ = narrow ? end_symbol<uint16_t>(options_) : end_symbol<uint32_t>(options_);
  }
  bool open_phase() {
    if (!sums_.empty()) sketch_->set(std::exchange(sums_, {}));
    threshold_ = next_threshold(threshold_, index_, *sketch_, max_pairs(), max_positions(slots_), [&](auto&& note) {
      for (const auto& sample : std::exchange(samples_, {}))
        for (const auto key : sample) note(key, step_);
    });
    return threshold_ != 0;
  }
  // What a part has on one side of a merge.
  struct Side {
    std::span<const Symbol> symbols;
    std::span<const uint64_t> weights;
  };

  static Side next_of(const JoinedAround& part, std::pair<size_t, size_t>& next) {
    const auto size = part.sizes.at(next.first++);
    const auto at = std::exchange(next.second, next.second + size);
    if (next.second > part.symbols.size() || next.second > part.weights.size())
      throw std::invalid_argument("an answer is shorter than it says");
    return {std::span(part.symbols).subspan(at, size), std::span(part.weights).subspan(at, size)};
  }
  std::vector<Neighbour> sum_of(const std::vector<Side>& sides) {
    std::vector<Neighbour> sum;
    for (const auto& [symbols, weights] : sides)
      for (size_t i = 0; i < symbols.size(); ++i) around_.add({symbols[i], 1, weights[i]});
    around_.move_to(sum);
    return sum;
  }

  // Makes a merge, next to whose occurrences is what is in left_ and right_.
  void merge(PairNumber best) {
    const auto key = index_->pair(best).key;
    const auto count = std::exchange(index_->pair(best).count, 0);
    const Join join{left_of(key), right_of(key), tokens_.add(left_of(key), right_of(key))};
    const auto left = sum_of(left_), right = sum_of(right_);
    const auto joined = note_changes(join, count, left, right, [&](PairKey pair, uint64_t weight, uint32_t positions) {
      if (positions == 0)
        fall(tokens_, *sketch_, *index_, pair, weight);
      else if (appear(tokens_, *sketch_, *index_, pair, weight))
        fresh_.push_back(pair);
    });
    append(join, count, joined);
  }

  uint64_t slots_ = 0;
  std::vector<uint64_t> sums_;
  std::vector<std::vector<PairKey>> samples_;  // of the words, for the next threshold
  double step_ = 1;
  PairTally tally_;
  std::vector<PairKey> guess_, fresh_;
  size_t guesses_ = 4;  // at most
  Neighbours around_;
  std::vector<Side> left_, right_;  // of the merge that is made, by part
};

}  // namespace bpe::merge
