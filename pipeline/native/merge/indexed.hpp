// Merging the indexed pairs of a phase, a batch at a time, in words that are in memory.
//
// Idea: threads meet a few times a batch, not a few times a merge. Each makes all merges of a batch in its shards, one
// after the other, and notes the neighbours that each merge has met; adds up those of some merges over all shards;
// enters the changes of the counts whose counters are its own; and writes its shards' lists of the pairs that are new
// in the index. Changes of one counter are entered by one thread, in the order of the merges. One thread needs no
// batches: its batches are single merges. What is around a merge when its lists are written may have been joined by a
// later merge of the batch: that pair is gone then, and the one that took its place is listed by the later merge.
#pragma once
#include "merge/batch.hpp"
#include "merge/scan.hpp"

namespace bpe::merge {

inline constexpr size_t kMostInBatch = 64;
inline constexpr uint32_t kCountersTogether = 16;  // that one member enters: those of a cache line
inline constexpr size_t kChangesAhead = 32;

// What the merges of a batch have met in one shard, and what is listed there afterwards. Kept from batch to batch for
// its memory.
struct ShardBatch {
  struct Ends {
    size_t left, right;
  };
  std::vector<Neighbour> neighbours;
  std::vector<Ends> ends;           // of each merge's left neighbours, then right ones
  std::vector<ListWriter> writers;  // of the pairs that get a list

  void clear() {
    neighbours.clear();
    ends.assign(1, {0, 0});
  }
  std::span<const Neighbour> left(size_t merge) const {
    return {neighbours.data() + ends[merge].right, ends[merge + 1].left - ends[merge].right};
  }
  std::span<const Neighbour> right(size_t merge) const {
    return {neighbours.data() + ends[merge + 1].left, ends[merge + 1].right - ends[merge + 1].left};
  }
};

// How a merge has changed the count of a pair.
struct Change {
  PairKey key;
  uint64_t weight;
  uint32_t counter;    // in the sketch
  uint32_t positions;  // of a pair that appeared; 0 for one that disappeared
  uint32_t merge;      // in the batch
};

// What one member of the team works with.
struct MemberWork {
  Surroundings around;
  std::vector<Position> listed;              // some of those of a list
  std::vector<Neighbour> left, right;        // of a merge, in all shards
  std::vector<std::vector<Change>> changes;  // by the member that enters them
  std::vector<size_t> entered;               // by the member that noted them
  std::vector<Change> appeared;              // of those that this member has entered: pairs that reach the threshold
};

// What merging a phase needs for its time.
struct Workspace {
  std::vector<PositionArena> arenas;  // by shard
  std::vector<ShardBatch> batches;    // by shard
  std::vector<MemberWork> members;
};

class IndexedMerging {
 public:
  IndexedMerging(PairIndex& index, const Learned& learned, Workspace& work, uint64_t share_from, Team& team,
                 Pulse& pulse)
      : index_(index), learned_(learned), work_(work), share_from_(share_from), team_(team), pulse_(pulse) {
    if (team.members() > 1) highest_.emplace(index);
  }

  // Makes the next merges, `most` at the most: those of one batch. Returns how many they were, and adds to `again`
  // those that made a token which had an id.
  template <class S>
  size_t merge_batch(std::vector<Shard<S>>& shards, uint64_t most, uint64_t& again) {
    again += batch_.choose(index_, highest_ ? &*highest_ : nullptr, learned_, std::min<uint64_t>(most, kMostInBatch));
    const auto& joins = batch_.joins();
    if (joins.empty()) return 0;
    pulse_.progress.best_count = learned_.result.counts.back();
    pulse_.progress.merges = learned_.result.counts.size();
    parts_ = batch_.positions() >= share_from_ ? team_.members() : 1;
    const auto on_shards = [&](auto&& work) {
      if (parts_ > 1) return team_.each(shards.size(), work);
      for (size_t s = 0; s < shards.size(); ++s) work(s, 0);
    };
    on_shards([&](size_t s, unsigned member) { join(shards[s], s, member); });
    learned_.result.joined.resize(learned_.result.counts.size());
    on_parts([&](unsigned part) { note_changes(part); });
    on_parts([&](unsigned part) { enter_changes(part); });
    index_appeared();
    if (fresh_.empty()) return joins.size();
    on_shards([&](size_t s, unsigned member) { list(shards[s], s, member); });
    for (size_t s = 0; s < shards.size(); ++s)
      for (size_t i = 0; i < fresh_.size(); ++i)
        index_.list(fresh_[i].pair, s) = work_.batches[s].writers[i].finish(work_.arenas[s]).handle;
    return joins.size();
  }

 private:
  struct Fresh {
    PairNumber pair;
    PairKey key;
    uint32_t merge;
  };

  // Makes the batch's merges in a shard.
  template <class S>
  void join(Shard<S>& shard, size_t s, unsigned member) {
    auto& batch = work_.batches[s];
    auto& around = work_.members[member].around;
    auto& arena = work_.arenas[s];
    batch.clear();
    around.make_space(learned_.tokens.next());
    for (size_t merge = 0; merge < batch_.pairs().size(); ++merge) {
      read_list(arena, index_.list(batch_.pairs()[merge], s), work_.members[member].listed,
                [&](std::span<Position> positions) {
                  join_listed(shard, batch_.joins()[merge], learned_.spans, positions, around, pulse_, member);
                });
      around.left.move_to(batch.neighbours);
      const auto left = batch.neighbours.size();
      around.right.move_to(batch.neighbours);
      batch.ends.push_back({left, batch.neighbours.size()});
    }
  }

  template <class Work>
  void on_parts(Work&& work) {
    parts_ > 1 ? team_.run(work) : work(0);
  }

  // Finds what every `parts`-th merge changed.
  void note_changes(unsigned part) {
    auto& mine = work_.members[part];
    mine.changes.resize(parts_);
    for (auto& changes : mine.changes) changes.clear();
    mine.around.make_space(learned_.tokens.next());
    const auto first_rank = learned_.result.joined.size() - batch_.pairs().size();
    for (auto merge = part; merge < batch_.pairs().size(); merge += parts_) {
      const auto left = in_all_shards(merge, &ShardBatch::left, mine.around.left, mine.left);
      const auto right = in_all_shards(merge, &ShardBatch::right, mine.around.right, mine.right);
      learned_.result.joined[first_rank + merge] =
          merge::note_changes(batch_.joins()[merge], batch_.count(merge), left, right,
                              [&](auto... change) { note(change..., merge, mine); });
    }
  }

  void note(PairKey key, uint64_t weight, uint32_t positions, uint32_t merge, MemberWork& mine) const {
    const auto counter = static_cast<uint32_t>(learned_.sketch.counter_of(key));
    const uint32_t spread = counter / kCountersTogether * 0x9E3779B1u;
    const auto part = uint64_t{spread} * parts_ >> 32;
    mine.changes[part].push_back({key, weight, counter, positions, merge});
  }

  // The neighbours on one side of a merge, in all shards together.
  template <class OfShard>
  std::span<const Neighbour> in_all_shards(size_t merge, OfShard&& of_shard, Neighbours& side,
                                           std::vector<Neighbour>& sum) const {
    if (work_.batches.size() == 1) return (work_.batches[0].*of_shard)(merge);
    sum.clear();
    for (const auto& batch : work_.batches)
      for (const auto& neighbour : (batch.*of_shard)(merge)) side.add(neighbour);
    side.move_to(sum);
    return sum;
  }

  // Enters the changes of this part's counters into sketch and index, merge after merge.
  void enter_changes(unsigned part) {
    auto& mine = work_.members[part];
    mine.appeared.clear();
    mine.entered.assign(parts_, 0);
    for (uint32_t merge = 0; merge < batch_.pairs().size(); ++merge) {
      const auto& changes = work_.members[merge % parts_].changes[part];
      auto& at = mine.entered[merge % parts_];
      for (; at < changes.size() && changes[at].merge == merge; ++at) {
        if (at + kChangesAhead < changes.size()) {
          const auto& next = changes[at + kChangesAhead];
          learned_.sketch.prefetch(next.counter);
          if (next.positions == 0) index_.prefetch(next.key);
        }
        enter(changes[at], mine.appeared);
      }
    }
  }

  void enter(const Change& change, std::vector<Change>& appeared) {
    auto& [tokens, spans, sketch, result] = learned_;
    if (tokens.forbids(left_of(change.key), right_of(change.key))) return;
    if (change.positions != 0) {
      sketch.add(change.counter, change.weight);
      if (change.weight >= index_.threshold()) appeared.push_back(change);
      return;
    }
    // The bound mostly shows whether the pair can be in the index with a count that still matters.
    const bool may_be_indexed = sketch.bound(change.counter) >= index_.threshold();
    sketch.subtract(change.counter, change.weight);
    if (!may_be_indexed) return;
    if (const auto number = index_.find(change.key); number != kNoPair) {
      if (index_.pair(number).count != 0) index_.pair(number).count -= change.weight;
    } else if (std::max(left_of(change.key), right_of(change.key)) >= batch_.joins().front().made) {
      for (auto& pair : appeared)  // the batch made it
        if (pair.key == change.key) pair.weight -= change.weight;
    }
  }

  // Indexes the pairs that appeared and reach the threshold.
  void index_appeared() {
    fresh_.clear();
    for (unsigned part = 0; part < parts_; ++part)
      for (const auto& pair : work_.members[part].appeared) {
        if (pair.weight < index_.threshold()) continue;
        const auto number = index_.add(pair.key, pair.weight, pair.positions);
        if (highest_) highest_->add(index_, number);
        fresh_.push_back({number, pair.key, pair.merge});
      }
    std::sort(fresh_.begin(), fresh_.end(), [](const Fresh& a, const Fresh& b) { return a.merge < b.merge; });
  }

  // Writes the lists of the pairs that are new in the index, for a shard.
  template <class S>
  void list(const Shard<S>& shard, size_t s, unsigned member) {
    auto& batch = work_.batches[s];
    auto& around = work_.members[member].around;
    auto& arena = work_.arenas[s];
    batch.writers.assign(fresh_.size(), {});
    for (size_t first = 0, end; first < fresh_.size(); first = end) {
      const auto merge = fresh_[first].merge;
      for (end = first + 1; end < fresh_.size() && fresh_[end].merge == merge;) ++end;
      list_pairs(
          shard, batch_.joins()[merge], learned_.spans, first, end, [this](size_t pair) { return fresh_[pair].key; },
          [&](auto&& use) {
            read_list(arena, index_.list(batch_.pairs()[merge], s), work_.members[member].listed, use);
          },
          around, arena, batch.writers, pulse_, member);
    }
  }

  PairIndex& index_;
  const Learned learned_;
  Workspace& work_;
  const uint64_t share_from_;
  Team& team_;
  Pulse& pulse_;
  std::optional<HighestNeighbours> highest_;  // null: batches of one merge
  Batch batch_;
  unsigned parts_ = 1;  // members that work on the batch
  std::vector<Fresh> fresh_;
};

}  // namespace bpe::merge
