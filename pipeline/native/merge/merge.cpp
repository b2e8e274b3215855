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
#include "merge/merge.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

#include "merge/merge_join.hpp"
#include "merge/merge_prepare.hpp"
#include "merge/merge_scan.hpp"
#include "count/pages.hpp"

namespace bpe {
namespace merge {
namespace {

constexpr std::uint64_t kSpareWords = std::uint64_t{1} << 22;  // that a shard's lists may grow by in a phase, at least
constexpr std::size_t kLongList = std::size_t{1} << 18;  // positions
constexpr std::uint64_t kMaxPairs = std::uint64_t{1} << 19;
constexpr std::uint64_t kShardSlots = std::uint64_t{1} << 31;

class Training {
 public:
  Training(const MergeOptions& options, const MergePoll& poll)
      : options_(options), limits_{options.max_token_bytes}, pulse_(poll), team_(options.threads, pulse_),
        spans_(kFirstMerge, 1), around_(team_.members()) {
    pulse_.progress.max_merges = options.max_merges;
  }

  MergeResult run(PieceSource source) {
    const auto end_narrow = std::min(options_.narrow_symbols, kEndSymbol<std::uint16_t>);
    if (end_narrow > kFirstMerge) {
      auto shards = take_words<std::uint16_t>(source, options_.min_piece_count, kShardSlots, team_, pulse_, corpus_);
      source = nullptr;
      give_back_memory();
      prepare(shards.size());
      if (train(shards, end_narrow)) return std::move(result_);
      auto wide = widen(std::move(shards), team_);
      std::fill(spans_.begin(), spans_.end(), 1);
      train(wide, kEndSymbol<std::uint32_t>);
    } else {
      auto shards = take_words<std::uint32_t>(source, options_.min_piece_count, kShardSlots, team_, pulse_, corpus_);
      source = nullptr;
      give_back_memory();
      prepare(shards.size());
      train(shards, kEndSymbol<std::uint32_t>);
    }
    return std::move(result_);
  }

 private:
  void prepare(std::size_t n_shards) {
    result_.bytes = corpus_.bytes;
    result_.left_out_pieces = corpus_.left_out_pieces;
    result_.left_out_bytes = corpus_.left_out_bytes;
    sketch_.emplace(corpus_.slots, corpus_.mass);
    for (Symbol left = 0; left < 256; ++left)
      for (Symbol right = 0; right < 256; ++right)
        if (const auto count = corpus_.byte_pairs[256 * left + right];
            count != 0 && !limits_.forbids(tokens_, left, right))
          sketch_->add(sketch_->counter_of(key_of(left, right)), count);
    arenas_ = std::vector<PositionArena>(n_shards);
    positions_.resize(n_shards);
    writers_.resize(n_shards);
  }

  // Phase after phase; false when the next symbol would pass `end_symbol`.
  template <class S>
  bool train(std::vector<Shard<S>>& shards, Symbol end_symbol) {
    while (result_.counts.size() < options_.max_merges) {
      // A phase for the last few symbols of a width would cost more than it gains.
      const Symbol left = end_symbol - tokens_.next();
      if (left == 0 || (left < remaining() && left < end_symbol / 8)) return false;
      auto threshold =
          choose_threshold(shards, spans_, *sketch_, max_pairs(end_symbol), max_positions(shards), options_.min_frequency);
      bool progress = false;
      while (threshold != 0 && !progress) {
        auto index = compact_and_index(shards, arenas_, *sketch_, threshold, gaps_, tokens_, options_.tie_break,
                                       limits_, team_, pulse_);
        gaps_ = false;
        std::fill(spans_.begin(), spans_.end(), 1);
        ++result_.phases;
        progress = merge_indexed(shards, index, end_symbol);
        gaps_ = progress;
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

  std::uint64_t remaining() const { return options_.max_merges - result_.counts.size(); }

  // Pairs beyond twice the merges still to make would be indexed in vain.
  std::uint64_t max_pairs(Symbol end_symbol) const {
    const auto merges = std::min<std::uint64_t>(remaining(), end_symbol - tokens_.next());
    return std::min<std::uint64_t>(2 * merges + 256, kMaxPairs);
  }

  template <class S>
  std::uint64_t max_positions(const std::vector<Shard<S>>& shards) const {
    if (options_.index_positions != 0) return options_.index_positions;
    std::uint64_t slots = 0;
    for (const auto& shard : shards) slots += shard.size;
    return std::max<std::uint64_t>(std::uint64_t{1} << 20, slots / 4);
  }

  // Merges until no indexed pair reaches the threshold, or the lists of new pairs have grown far beyond those that the
  // phase began with; false when there was no merge at all.
  template <class S>
  bool merge_indexed(std::vector<Shard<S>>& shards, PairIndex& index, Symbol end_symbol) {
    bool any = false;
    const auto most_words = 2 * listed_words() + kSpareWords * arenas_.size();
    while (result_.counts.size() < options_.max_merges && tokens_.next() < end_symbol && listed_words() <= most_words) {
      const auto best = index.take_best();
      if (best == kNoPair) break;
      any = true;
      prefetch_upcoming(shards, arenas_, index);
      merge_pair(shards, index, best);
      index.narrow(remaining() + remaining() / 4 + 1024);
    }
    return any;
  }

  std::uint64_t listed_words() const {
    return std::accumulate(arenas_.begin(), arenas_.end(), std::uint64_t{0},
                           [](auto sum, const PositionArena& arena) { return sum + arena.words(); });
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

    const bool shared = pair.positions >= options_.share_from && team_.members() > 1;
    const auto on_shards = [&](auto&& work) {
      if (shared)
        team_.each(shards.size(), work);
      else
        for (std::size_t s = 0; s < shards.size(); ++s) work(s, 0);
    };
    for (auto& around : around_) around.reserve(tokens_.next());
    on_shards([&](std::size_t s, unsigned member) {
      make_room(positions_[s], std::min<std::uint64_t>(pair.positions, shards[s].size));
      read_list(arenas_[s], index.list(best, s), positions_[s]);
      join_listed(shards[s], join, spans_, positions_[s], around_[member], pulse_, member);
    });
    if (shared)
      for (unsigned member = 1; member < team_.members(); ++member) {
        around_[0].left.add(around_[member].left);
        around_[0].right.add(around_[member].right);
      }
    auto& before = around_[0].left;  // every occurrence has something on its left, if only a piece's boundary
    result_.joined.push_back(std::accumulate(before.begin(), before.end(), std::uint64_t{0}, [&](auto sum, Symbol symbol) {
      return sum + before[symbol].weight;
    }));
    update_index(index, join, pair);
    if (!fresh_.empty()) {
      if (shared) give_writers();
      on_shards([&](std::size_t s, unsigned member) {
        writers_[s].assign(fresh_.size(), {});
        list_neighbours(shards[s], join, spans_, positions_[s], around_[member], arenas_[s], writers_[s], pulse_,
                        member);
      });
      for (std::size_t s = 0; s < shards.size(); ++s)
        for (std::size_t i = 0; i < fresh_.size(); ++i)
          index.list(fresh_[i].pair, s) = writers_[s][i].finish(arenas_[s]).handle;
    }
    if (shared)
      for (auto& around : around_) around.clear();
    else
      around_[0].clear();
  }

  // Empties the positions for a list of at most so many; few of the merges have lists that are worth their memory.
  static void make_room(std::vector<Position>& positions, std::uint64_t most) {
    if (positions.capacity() > kLongList && most < positions.capacity() / 4) std::vector<Position>().swap(positions);
    positions.clear();
    positions.reserve(static_cast<std::size_t>(most));
  }

  // Takes what the merge changed into sketch and index; pairs that are new in the index are left in fresh_.
  void update_index(PairIndex& index, const Join& join, const IndexedPair& merged) {
    fresh_.clear();
    changes_.clear();
    auto &before = around_[0].left, &after = around_[0].right;
    const auto doubled = before[join.made];
    note(index, merged.key, merged.count, nullptr);
    for (const Symbol symbol : before) {
      if (symbol == kBoundary) continue;
      auto& entry = before[symbol];
      if (symbol != join.made && key_of(symbol, join.left) != merged.key)
        note(index, key_of(symbol, join.left), entry.weight, nullptr);
      note(index, key_of(symbol, join.made), entry.weight, &entry);
    }
    for (const Symbol symbol : after) {
      if (symbol == kBoundary) continue;
      auto& entry = after[symbol];
      if (key_of(join.right, symbol) != merged.key) note(index, key_of(join.right, symbol), entry.weight, nullptr);
      if (symbol == join.left) {
        entry.weight -= doubled.weight;
        entry.positions -= doubled.positions;
      }
      note(index, key_of(join.made, symbol), entry.weight, &entry);
    }
    for (const auto& change : changes_) {
      if (limits_.forbids(tokens_, left_of(change.key), right_of(change.key))) continue;
      if (change.made != nullptr) {
        sketch_->add(change.counter, change.weight);
        if (change.weight < index.threshold()) continue;
        fresh_.push_back({index.add(change.key, change.weight, change.made->positions), left_of(change.key),
                          right_of(change.key)});
        change.made->writer = static_cast<std::uint32_t>(fresh_.size());
      } else {
        // The bound tells, mostly, whether the pair can be in the index with a count that still matters.
        const bool may_be_indexed = sketch_->bound(change.counter) >= index.threshold();
        sketch_->subtract(change.counter, change.weight);
        if (!may_be_indexed || change.key == merged.key) continue;
        const auto number = index.find(change.key);
        if (number != kNoPair) index.pair(number).count -= change.weight;
      }
    }
  }

  // made: where the neighbour of a pair that came is counted; null for a pair that went.
  void note(const PairIndex& index, PairKey key, std::uint64_t weight, Neighbours::Entry* made) {
    const auto counter = sketch_->counter_of(key);
    sketch_->prefetch(counter);
    if (made == nullptr) index.prefetch(key);
    changes_.push_back({key, counter, weight, made});
  }

  // Every member's surroundings learn which lists member 0 decided on: those of neighbours that the member has seen.
  // It meets no others, and only what was seen is cleared after the merge.
  void give_writers() {
    for (std::uint32_t i = 0; i < fresh_.size(); ++i) {
      const bool made_right = right_is_made(fresh_[i]);
      for (unsigned member = 1; member < team_.members(); ++member) {
        auto& side = made_right ? around_[member].left : around_[member].right;
        auto& entry = side[made_right ? fresh_[i].left : fresh_[i].right];
        if (entry.positions != 0) entry.writer = i + 1;
      }
    }
  }
  struct Fresh {
    PairNumber pair;
    Symbol left, right;
  };
  bool right_is_made(const Fresh& fresh) const { return fresh.right == tokens_.next() - 1; }

  struct Change {
    PairKey key;
    std::size_t counter;
    std::uint64_t weight;
    Neighbours::Entry* made;
  };

  const MergeOptions& options_;
  const Limits limits_;
  Pulse pulse_;
  Team team_;
  Tokens tokens_;
  Corpus corpus_;
  std::optional<Sketch> sketch_;
  bool gaps_ = false;  // merges were made since the last compaction
  std::vector<std::uint32_t> spans_;  // by symbol: slots since the last compaction
  std::vector<PositionArena> arenas_;                // by shard
  std::vector<std::vector<Position>> positions_;     // by shard
  std::vector<std::vector<ListWriter>> writers_;     // by shard
  std::vector<Surroundings> around_;                 // by member
  std::vector<Fresh> fresh_;
  std::vector<Change> changes_;
  MergeResult result_;
};

}  // namespace
}  // namespace merge

MergeResult MergeEngine::run(const MergeOptions& options, const MergePoll& poll) {
  if (used_) throw std::invalid_argument("run() can be called once");
  if (options.min_frequency == 0) throw std::invalid_argument("min_frequency must be at least 1");
  if (options.threads == 0) throw std::invalid_argument("threads must be at least 1");
  if (options.narrow_symbols > 65536) throw std::invalid_argument("narrow_symbols must be at most 65536");
  if (options.thread_bytes == 0) throw std::invalid_argument("thread_bytes must be at least 1");
  used_ = true;
  std::uint64_t bytes = source_bytes_;
  for (const auto& batch : batches_) bytes += static_cast<std::uint64_t>(batch.offsets.back() - batch.offsets.front());
  MergeOptions chosen = options;
  chosen.threads = static_cast<unsigned>(std::min<std::uint64_t>(options.threads, 1 + bytes / options.thread_bytes));
  if (source_) return merge::Training(chosen, poll).run(std::exchange(source_, nullptr));
  // The source owns the batches, and goes when they are taken in.
  return merge::Training(chosen, poll).run(
      [batches = std::make_shared<std::vector<PieceBatch>>(std::move(batches_))](const auto& take) {
        for (const auto& batch : *batches) take(batch);
      });
}

}  // namespace bpe
