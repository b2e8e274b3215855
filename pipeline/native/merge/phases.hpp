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
  Phases(const MergeOptions& options, MergeResult known) : options_(options), tokens_(options_), result_(std::move(known)) {
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
  uint64_t remaining() const { return options_.max_merges - result_.counts.size(); }
  uint64_t max_pairs(uint64_t merges) const { return std::min(2 * merges + 256, kMaxPairs); }
  // Positions that a phase may list: a share of all slots.
  uint64_t max_positions(uint64_t slots, uint64_t share = 4) const {
    return options_.index_positions != 0 ? options_.index_positions : std::max<uint64_t>(uint64_t{1} << 20, slots / share);
  }
  // Counters shared by several pairs may promise a count that no pair has: the next threshold then, 0 after the last.
  uint64_t lower(uint64_t threshold) const {
    const auto least = options_.rules.min_frequency;
    return threshold > least ? std::max(threshold / 2, least) : 0;
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
};

}  // namespace bpe::merge
