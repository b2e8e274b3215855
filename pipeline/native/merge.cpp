// Trains in phases. Each phase indexes only the pairs whose count reaches a threshold, merges as long as the
// best indexed pair reaches it, then compacts the words and goes on with a lower threshold.
//
// Why phases are exact: a pair holds a token that some merge made (or only bytes, and then all its
// occurrences are there from the start), and once that merge has ended no new occurrence of the token appears,
// since no two merges make the same bytes; so from then on the pair's count only falls. A pair below the
// threshold when the phase's index is made therefore stays below it. A pair that a merge of this phase makes
// has its exact count when that merge ends, and is indexed then if it reaches the threshold. So the index
// holds every pair that reaches the threshold with its exact count, and while the best of them reaches it, it
// is the best of all.
#include "merge.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "merge_join.hpp"
#include "merge_scan.hpp"

namespace bpe {
namespace merge {
namespace {

constexpr std::uint64_t kShareFrom = 4096;  // occurrences from which a merge is shared by the team
constexpr std::uint64_t kShardSlots = std::uint64_t{1} << 31;

class Training {
 public:
  Training(const MergeOptions& options, const MergePoll& poll)
      : options_(options), limits_{options.max_token_bytes}, pulse_(poll), team_(options.threads, pulse_),
        spans_(kFirstMerge, 1), around_(team_.members()) {
    pulse_.progress.max_merges = options.max_merges;
  }

  MergeResult run(std::vector<PieceBatch> batches) {
    if (options_.narrow_symbols > kFirstMerge) {
      auto shards = take_words<std::uint16_t>(batches, kShardSlots, team_, pulse_, corpus_);
      batches.clear();
      prepare(shards.size());
      if (train(shards, options_.narrow_symbols)) return std::move(result_);
      auto wide = widen(std::move(shards), team_);
      train(wide, ~Symbol{0});
    } else {
      auto shards = take_words<std::uint32_t>(batches, kShardSlots, team_, pulse_, corpus_);
      batches.clear();
      prepare(shards.size());
      train(shards, ~Symbol{0});
    }
    return std::move(result_);
  }

 private:
  void prepare(std::size_t n_shards) {
    arenas_ = std::vector<PositionArena>(n_shards);
    positions_.resize(n_shards);
    writers_.resize(n_shards);
  }

  // Phase after phase; false when the next symbol would pass `end_symbol`.
  template <class S>
  bool train(std::vector<Shard<S>>& shards, Symbol end_symbol) {
    while (result_.counts.size() < options_.max_merges) {
      if (tokens_.next() >= end_symbol) return false;
      const auto sketch = compact_and_sketch(shards, spans_, tokens_, limits_, corpus_.mass, team_, pulse_);
      std::fill(spans_.begin(), spans_.end(), 1);
      auto threshold = choose_threshold(shards, sketch, budget(shards), options_.min_frequency);
      bool progress = false;
      while (threshold != 0 && !progress) {
        auto index = index_pairs(shards, arenas_, sketch, threshold, tokens_, options_.tie_break, limits_, team_,
                                 pulse_);
        ++result_.phases;
        progress = merge_indexed(shards, index, end_symbol);
        // Counters shared by several pairs may promise a count that no pair has.
        if (!progress) threshold = threshold > options_.min_frequency ? std::max(threshold / 2, options_.min_frequency) : 0;
      }
      if (!progress) {
        result_.stop = StopReason::min_frequency;
        return true;
      }
    }
    result_.stop = StopReason::limit;
    return true;
  }

  template <class S>
  Budget budget(const std::vector<Shard<S>>& shards) const {
    std::uint64_t slots = 0;
    for (const auto& shard : shards) slots += shard.size;
    if (options_.index_positions != 0) return {options_.index_positions, ~std::uint64_t{0}};
    return {std::max<std::uint64_t>(std::uint64_t{1} << 20, slots / 4), 1 << 19};
  }

  // Merges until no indexed pair reaches the threshold; false when there was none at all.
  template <class S>
  bool merge_indexed(std::vector<Shard<S>>& shards, PairIndex& index, Symbol end_symbol) {
    bool any = false;
    while (result_.counts.size() < options_.max_merges && tokens_.next() < end_symbol) {
      const auto best = index.take_best();
      if (best == kNoPair) break;
      any = true;
      merge_pair(shards, index, best);
    }
    return any;
  }

  template <class S>
  void merge_pair(std::vector<Shard<S>>& shards, PairIndex& index, PairNumber best) {
    const IndexedPair pair = index.pair(best);
    const Symbol left = left_of(pair.key), right = right_of(pair.key);
    const Join join{left, right, tokens_.add(left, right)};
    spans_.push_back(spans_[left] + spans_[right]);
    result_.left.push_back(id_of(left));
    result_.right.push_back(id_of(right));
    result_.counts.push_back(pair.count);
    pulse_.progress.merges = result_.counts.size();
    pulse_.progress.best_count = pair.count;
    index.pair(best).count = 0;

    const bool shared = pair.positions >= kShareFrom && team_.members() > 1;
    const auto on_shards = [&](auto&& work) {
      if (shared)
        team_.each(shards.size(), work);
      else
        for (std::size_t s = 0; s < shards.size(); ++s) work(s, 0);
    };
    for (auto& around : around_) around.reserve(tokens_.next());
    on_shards([&](std::size_t s, unsigned member) {
      positions_[s].clear();
      read_list(arenas_[s], index.list(best, s), positions_[s]);
      join_listed(shards[s], join, spans_, positions_[s], around_[member], pulse_, member);
    });
    if (shared)
      for (unsigned member = 1; member < team_.members(); ++member) {
        around_[0].left.add(around_[member].left);
        around_[0].right.add(around_[member].right);
      }
    update_index(index, join, pair.key);
    if (!fresh_.empty()) {
      if (shared) give_writers();
      on_shards([&](std::size_t s, unsigned member) {
        writers_[s].assign(fresh_.size(), {});
        list_neighbours(shards[s], join, spans_, positions_[s], around_[member], arenas_[s], writers_[s], pulse_,
                        member);
      });
      for (std::size_t s = 0; s < shards.size(); ++s)
        for (std::size_t i = 0; i < fresh_.size(); ++i)
          index.list(fresh_[i].pair, s) = writers_[s][i].finish(arenas_[s]);
    }
    if (shared)
      for (auto& around : around_) around.clear();
    else
      around_[0].clear();
  }

  // Takes what the merge changed into the index; pairs that are new there are left in fresh_.
  void update_index(PairIndex& index, const Join& join, PairKey merged) {
    fresh_.clear();
    auto &before = around_[0].left, &after = around_[0].right;
    const auto doubled = before[join.made];
    for (const Symbol symbol : before) {
      if (symbol == kBoundary) continue;
      if (symbol != join.made) lower(index, key_of(symbol, join.left), merged, before[symbol].weight);
      admit(index, symbol, join.made, before[symbol], 0, 0);
    }
    for (const Symbol symbol : after) {
      if (symbol == kBoundary) continue;
      lower(index, key_of(join.right, symbol), merged, after[symbol].weight);
      if (symbol == join.left)
        admit(index, join.made, symbol, after[symbol], doubled.weight, doubled.positions);
      else
        admit(index, join.made, symbol, after[symbol], 0, 0);
    }
    for (const auto& [key, hash, weight] : lowered_) {
      const auto number = index.find(key, hash);
      if (number != kNoPair) index.pair(number).count -= weight;
    }
    lowered_.clear();
  }

  void lower(PairIndex& index, PairKey key, PairKey merged, std::uint64_t weight) {
    const auto hash = hash_of(key);
    if (key == merged || !index.may_hold(hash)) return;
    index.prefetch(hash);
    lowered_.push_back({key, hash, weight});
  }

  void admit(PairIndex& index, Symbol left, Symbol right, Neighbours::Entry& entry, std::uint64_t weight_off,
             std::uint32_t positions_off) {
    const auto weight = entry.weight - weight_off;
    if (weight < index.threshold() || limits_.forbids(tokens_, left, right)) return;
    fresh_.push_back({index.add(key_of(left, right), weight, entry.positions - positions_off), left, right});
    entry.writer = static_cast<std::uint32_t>(fresh_.size());
  }

  // Every member's surroundings learn which lists member 0 decided on.
  void give_writers() {
    for (std::uint32_t i = 0; i < fresh_.size(); ++i) {
      const bool made_right = right_is_made(fresh_[i]);
      for (unsigned member = 1; member < team_.members(); ++member) {
        auto& side = made_right ? around_[member].left : around_[member].right;
        auto& entry = side[made_right ? fresh_[i].left : fresh_[i].right];
        entry.writer = i + 1;
      }
    }
  }
  struct Fresh {
    PairNumber pair;
    Symbol left, right;
  };
  bool right_is_made(const Fresh& fresh) const { return fresh.right == tokens_.next() - 1; }

  struct Lowered {
    PairKey key;
    std::uint64_t hash;
    std::uint64_t weight;
  };

  const MergeOptions& options_;
  const Limits limits_;
  Pulse pulse_;
  Team team_;
  Tokens tokens_;
  Corpus corpus_;
  std::vector<std::uint32_t> spans_;  // by symbol: slots since the last compaction
  std::vector<PositionArena> arenas_;                // by shard
  std::vector<std::vector<Position>> positions_;     // by shard
  std::vector<std::vector<ListWriter>> writers_;     // by shard
  std::vector<Surroundings> around_;                 // by member
  std::vector<Fresh> fresh_;
  std::vector<Lowered> lowered_;
  MergeResult result_;
};

}  // namespace
}  // namespace merge

void MergeEngine::add(PieceBatch batch) {
  if (used_) throw std::invalid_argument("pieces cannot be added after run()");
  merge::check_batch(batch);
  batches_.push_back(std::move(batch));
}

MergeResult MergeEngine::run(const MergeOptions& options, const MergePoll& poll) {
  if (used_) throw std::invalid_argument("run() can be called once");
  if (options.min_frequency == 0) throw std::invalid_argument("min_frequency must be at least 1");
  if (options.threads == 0) throw std::invalid_argument("threads must be at least 1");
  if (options.narrow_symbols > 65536) throw std::invalid_argument("narrow_symbols must be at most 65536");
  used_ = true;
  return merge::Training(options, poll).run(std::move(batches_));
}

}  // namespace bpe
