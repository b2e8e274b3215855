// PhaseLoop: the one loop of all merging, for every place of the words and every chooser.
//
// Idea: each phase indexes only the pairs whose count reaches a threshold, merges as long as the best indexed pair reaches
// it, then compacts the words and continues with a lower threshold. `Words` says where words are (in_memory.hpp or
// on_disk.hpp), `Chooser` who chooses the next merge (MostFrequent, or languages in turn: in_turn.hpp).
// What bounds a phase is the same for all: pairs beyond twice the merges still to make would be indexed for nothing, lists
// of positions take memory, and words become wider before a symbol that does not fit.
//
// Why phases are exact: a pair contains a token that some merge made (or only bytes, and then all its occurrences are
// there from the start), and once that merge has ended no new occurrence of the token appears, since no two merges make
// the same bytes; so from then on the pair's count only falls. A pair below the threshold when the phase's index is
// made therefore stays below it. A pair that a merge of this phase makes has its exact count when that merge ends, and
// is indexed then if it reaches the threshold. So the index holds every pair that reaches the threshold with its exact
// count, and while the best of them reaches it, it is the best of all.
#pragma once
#include <variant>

#include "merge/batch.hpp"

namespace bpe::merge {

inline constexpr uint64_t kNeverReached = std::numeric_limits<uint64_t>::max();
inline constexpr uint64_t kMaxPairs = uint64_t{1} << 19;

// Upper bound on a shard's position lists in one phase, given its number of words at the start.
inline uint64_t most_listed(uint64_t words, uint64_t shards = 1) { return 2 * words + (uint64_t{1} << 22) * shards; }

// The first symbol that slots of that width cannot hold.
template <class S>
Symbol end_symbol(const MergeOptions& options) {
  return sizeof(S) > 2 ? Slots<S>::kEndSymbol : std::min(options.narrow_symbols, Slots<S>::kEndSymbol);
}
inline bool is_narrow(const MergeOptions& options, Symbol next) { return next < end_symbol<uint16_t>(options); }

// The tokens and the merges so far, and how far the next phase may go.
class Phases {
 public:
  Phases(const MergeOptions& options, MergeResult known)
      : options_(options), tokens_(options_), result_(std::move(known)), max_merges_(options_.max_merges) {
    for (const auto key : merges()) tokens_.add(left_of(key), right_of(key));
  }
  Phases(const Phases&) = delete;
  Phases& operator=(const Phases&) = delete;
  const MergeResult& result() const { return result_; }
  // The merges so far, by their symbols.
  std::vector<PairKey> merges() const {
    std::vector<PairKey> keys;
    for (size_t rank = 0; rank < result_.counts.size(); ++rank)
      keys.push_back(key_of(symbol_of(result_.left[rank]), symbol_of(result_.right[rank])));
    return keys;
  }

 protected:
  uint64_t remaining() const { return max_merges_ - result_.counts.size(); }
  // Merges that the phase may make.
  uint64_t possible() const { return std::min<uint64_t>(remaining(), end_symbol_ - tokens_.next()); }
  uint64_t max_pairs() const { return std::min(2 * possible() + 256, kMaxPairs); }
  // Pairs that a queue need not fall below while more appear.
  uint64_t enough() const { return remaining() + remaining() / 4 + 1024; }
  // Positions that a phase may list: a share of all slots.
  uint64_t max_positions(uint64_t slots, uint64_t share = 4) const {
    return options_.index_positions != 0 ? options_.index_positions
                                         : std::max<uint64_t>(uint64_t{1} << 20, slots / share);
  }
  // The threshold of a phase after one with the threshold `before` and these pairs, if there was one: the lowest whose index
  // is estimated to stay within the limits; 0: no pair can reach min_frequency. Counters shared by several pairs may promise
  // a count that no pair has: after a phase without pairs it is half of the one before. sample(note) calls
  // note(pair, positions) for pairs of the words, each with how many positions it stands for.
  template <class Pairs, class Sample>
  uint64_t next_threshold(uint64_t before, const std::optional<Pairs>& pairs, const Sketch& sketch, uint64_t most_pairs,
                          uint64_t most_positions, Sample&& sample) const {
    if (before == 0 || (pairs && pairs->pairs().empty())) return lower(before);
    BoundHistogram histogram(sketch);
    sample([&](PairKey key, double positions) {
      if (const auto bound = sketch.bound(sketch.counter_of(key)); bound != 0)
        histogram.add_positions(bound, positions);
    });
    return histogram.threshold(most_pairs, most_positions, options_.rules.min_frequency);
  }
  // The next threshold, 0 after the last.
  uint64_t lower(uint64_t threshold) const {
    const auto least = options_.rules.min_frequency;
    return threshold > least ? std::max(threshold / 2, least) : 0;
  }
  // Forgets what the pre-tokens of a merging that was interrupted were: they are read again.
  void forget_facts() { result_.bytes = result_.left_out_pre_tokens = result_.left_out_bytes = 0; }
  // Notes what the pre-tokens of a language or a part are; those of all have less than 2^63 bytes.
  void take_in(uint64_t mass, uint64_t bytes, uint64_t left_out_pre_tokens, uint64_t left_out_bytes) {
    if (mass > (uint64_t{1} << 63) - 1 - mass_)
      throw std::overflow_error("the counts add up to a corpus of 2^63 bytes or more");
    mass_ += mass;
    result_.bytes += bytes;
    result_.left_out_pre_tokens += left_out_pre_tokens;
    result_.left_out_bytes += left_out_bytes;
  }
  void append(const Join& join, uint64_t count, uint64_t joined) {
    result_.left.push_back(id_of(join.left));
    result_.right.push_back(id_of(join.right));
    result_.counts.push_back(count);
    result_.joined.push_back(joined);
  }

  const MergeOptions options_;
  Tokens tokens_;
  MergeResult result_;
  uint64_t max_merges_;    // with those that make no new token
  uint64_t mass_ = 0;      // of all that was taken in
  Symbol end_symbol_ = 0;  // the first that the words of the phase cannot hold
};

// The pair with the highest count is merged next.
class MostFrequent : public Phases {
 public:
  using Phases::Phases;

 protected:
  std::optional<Sketch> sketch_;
  std::optional<PairIndex> index_;      // of the phase
  uint64_t threshold_ = kNeverReached;  // of the phase; 0: no pair reaches min_frequency
};

// `Words` is what is made of it, and has the steps. With words in memory, in one of several widths:
//   words_: a variant of shards; widen(): the same words in the next width;
//   open_phase(): chooses a threshold and indexes what reaches it; false when no pair can be merged;
//   merge_next(): makes the next merges; false when the phase has ended;
//   phase_ended(): after that.
template <class Words, class Chooser>
class PhaseLoop : public Chooser {
 protected:
  using Chooser::Chooser;
  // Makes merges as long as go_on() says so; false when none is left.
  template <class GoOn>
  bool merge_while(GoOn&& go_on) {
    while (go_on()) {
      if (!in_phase_ && !begin_phase()) return false;
      in_phase_ = this->possible() != 0 && words().merge_next();
      if (!in_phase_) words().phase_ended();
    }
    return true;
  }

  // False when no merge is left.
  bool begin_phase() {
    if (this->remaining() == 0) return false;
    words().fit();
    this->result_.exhausted = !words().open_phase();
    return !this->result_.exhausted;
  }
  // A phase for the last few symbols of a width would cost more than it gains.
  void fit() {
    const auto fits = [this]<class S>(const std::vector<Shard<S>>&) {
      this->end_symbol_ = end_symbol<S>(this->options_);
      const auto left = this->end_symbol_ - std::min(this->end_symbol_, this->tokens_.next());
      return sizeof(S) > 2 || (left != 0 && left >= std::min<uint64_t>(this->remaining(), this->end_symbol_ / 8));
    };
    while (!std::visit(fits, words().words_)) words().widen();
  }

 private:
  Words& words() { return static_cast<Words&>(*this); }
  bool in_phase_ = false;
};

}  // namespace bpe::merge
