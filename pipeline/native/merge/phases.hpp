// Phases: what every loop of phases knows: the tokens and the merges so far, and how far the next phase may go.
//
// Idea: merge.cpp says why phases are exact. Loops differ in where words are (in memory, on disk, on other nodes) and in
// who chooses the next merge (the most frequent pair, languages in turn); what bounds a phase is the same for all: pairs
// beyond twice the merges still to make would be indexed for nothing, lists of positions take memory, and words become
// wider before a symbol that does not fit.
#pragma once
#include "merge/join.hpp"
#include "merge/sketch.hpp"

namespace bpe::merge {

inline constexpr uint64_t kNeverReached = std::numeric_limits<uint64_t>::max();
inline constexpr uint64_t kShardSlots = uint64_t{1} << 31;
inline constexpr uint64_t kMaxPairs = uint64_t{1} << 19;

// How far the lists of a shard may grow in a phase that starts with so many words of them.
inline uint64_t most_listed(uint64_t words, uint64_t shards = 1) { return 2 * words + (uint64_t{1} << 22) * shards; }

// The symbols from which on words of two bytes a slot become wide.
inline Symbol end_narrow(const MergeOptions& options) { return std::min(options.narrow_symbols, Slots<uint16_t>::kEndSymbol); }

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
  bool is_narrow() const { return tokens_.next() < end_narrow(options_); }
  // The first symbol that the words of the next phase cannot hold.
  Symbol end_symbol() const { return is_narrow() ? end_narrow(options_) : Slots<uint32_t>::kEndSymbol; }
  uint64_t remaining() const { return max_merges_ - result_.counts.size(); }
  // Merges that the phase may make.
  uint64_t possible() const { return std::min<uint64_t>(remaining(), end_symbol_ - tokens_.next()); }
  uint64_t max_pairs() const { return std::min(2 * possible() + 256, kMaxPairs); }
  // Pairs that a queue need not fall below while more appear.
  uint64_t enough() const { return remaining() + remaining() / 4 + 1024; }
  // Positions that a phase may list: a share of all slots.
  uint64_t max_positions(uint64_t slots, uint64_t share = 4) const {
    return options_.index_positions != 0 ? options_.index_positions : std::max<uint64_t>(uint64_t{1} << 20, slots / share);
  }
  // The lowest threshold whose index is estimated to stay within these; 0: no pair can reach min_frequency. sample(note)
  // calls note(pair, positions) for pairs of the words, each with how many positions it stands for.
  template <class Sample>
  uint64_t choose_threshold(const Sketch& sketch, uint64_t most_pairs, uint64_t most_positions, Sample&& sample) const {
    BoundHistogram histogram(sketch);
    sample([&](PairKey key, double positions) {
      if (const auto bound = sketch.bound(sketch.counter_of(key)); bound != 0) histogram.add_positions(bound, positions);
    });
    return histogram.threshold(most_pairs, most_positions, options_.rules.min_frequency);
  }
  // Counters shared by several pairs may promise a count that no pair has: the next threshold then, 0 after the last.
  uint64_t lower(uint64_t threshold) const {
    const auto least = options_.rules.min_frequency;
    return threshold > least ? std::max(threshold / 2, least) : 0;
  }
  // Notes what the pieces of a language or a part are; those of all have less than 2^63 bytes.
  void take_in(uint64_t mass, uint64_t bytes, uint64_t left_out_pieces, uint64_t left_out_bytes) {
    if (mass > (uint64_t{1} << 63) - 1 - mass_)
      throw std::overflow_error("the counts add up to a corpus of 2^63 bytes or more");
    mass_ += mass;
    result_.bytes += bytes;
    result_.left_out_pieces += left_out_pieces;
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
  uint64_t max_merges_;  // with those that make no new token
  uint64_t mass_ = 0;    // of all that was taken in
  Symbol end_symbol_ = 0;  // the first that the words of the phase cannot hold
};

}  // namespace bpe::merge
