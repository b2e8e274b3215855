// Part: the words of one part of a counter, on one node, for merges that nodes share; SharedTraining coordinates them.
//
// Idea: the coordinator guesses the next merges. A part makes all of them in its words, one after the other, and returns
// which tokens were next to the occurrences of each. From the sums over all parts the coordinator sees how many of its
// guesses were right, and the parts take back the others. So a part waits for the others once a guess, not once a merge,
// and neither do its shards meet more often, each of which may have a thread of its own.
// Invariant: every request names the version: how many merges are certain. A part answers the same when it is asked
// again, and so does another part that was made from the same pieces and that many merges.
#pragma once
#include <variant>

#include "merge/phases.hpp"
#include "merge/scan.hpp"

namespace bpe::merge {

// By join: how many different tokens were on its left and on its right; then these tokens, and their weights.
struct JoinedAround {
  std::vector<uint32_t> sizes;
  std::vector<Symbol> symbols;
  std::vector<uint64_t> weights;
  bool full = false;  // lists have grown so far that the phase should end

  void add(Neighbours& side) {
    std::vector<Neighbour> found;
    side.move_to(found);
    sizes.push_back(static_cast<uint32_t>(found.size()));
    for (const auto& neighbour : found) {
      symbols.push_back(neighbour.symbol);
      weights.push_back(neighbour.weight);
    }
  }
};

class Part {
 public:
  // Of pieces that take about that many slots, with these merges made. `options` without start and resident_bytes.
  Part(const MergeOptions& options, const PieceSource& source, uint64_t slots, const std::vector<PairKey>& known);

  const Corpus& corpus() const { return corpus_; }
  // Of the pieces: bytes, what was left out, and what the known merges have joined.
  const MergeResult& facts() const { return facts_; }
  // The counts of all pairs, added up by counter of a sketch of that size.
  std::vector<uint64_t> sums(size_t sketch_size);
  // The pairs at positions in equal distances, one in `step`.
  std::vector<PairKey> sample(uint64_t version, size_t step);
  // Starts a phase: lists the positions of all pairs that pass; returns their counts.
  PairTally index(uint64_t version, const PairFilter& filter);
  // Lists the pairs that reached the threshold in the guess before, `fresh`, and makes the next guess.
  JoinedAround join(uint64_t version, const std::vector<PairKey>& fresh, const std::vector<PairKey>& guess);

 private:
  struct Lists {
    PositionArena arena;
    PairMap<false> of;                           // pair -> its list
    std::vector<std::vector<Position>> joined;  // by join of the guess
    std::vector<Position> listed;                // some of those of a list
    Surroundings around;
    std::vector<ListWriter> writers;
    JoinedAround found;
    uint64_t most_words = 0;
  };
  template <class Use>
  void each_shard(Use&& use) {
    std::visit(
        [&](auto& shards) {
          team_.each(shards.size(), [&](size_t s, unsigned member) { use(shards[s], lists_[s], member); });
        },
        words_);
  }
  void settle(uint64_t version);
  void forget_guess();
  template <class S>
  void list_fresh(Shard<S>& shard, Lists& lists, const std::vector<std::vector<PairKey>>& fresh, unsigned member);
  template <class S>
  void make_guess(Shard<S>& shard, Lists& lists, unsigned member);

  const MergeOptions options_;
  const MergePoll poll_ = [](const MergeProgress&) {};
  Pulse pulse_{poll_};
  Team team_;
  Tokens tokens_;
  std::vector<uint32_t> spans_;  // by symbol, with those of the guess
  std::vector<Join> guess_;
  size_t certain_ = 0;  // of the guess
  std::variant<std::vector<Shard<uint16_t>>, std::vector<Shard<uint32_t>>> words_;
  std::vector<Lists> lists_;  // by shard
  Neighbours around_;         // of a join, in all shards
  Corpus corpus_;
  MergeResult facts_;
};

}  // namespace bpe::merge
