// InMemory: merges by the most frequent pair, in words that are all in memory. Resident is what it has in common with
// on_disk.hpp: an index of the pairs of a phase, and merging them in the words that are in memory.
#pragma once
#include <numeric>

#include "merge/exchange.hpp"
#include "merge/indexed.hpp"
#include "merge/known_merges.hpp"
#include "merge/phases.hpp"

namespace bpe::merge {

class Resident : public MostFrequent {
 public:
  Resident(const MergeOptions& options, MergeResult known, const MergePoll& poll, const PhaseEnd& phase_end)
      : MostFrequent(options, std::move(known)),
        phase_end_(phase_end),
        pulse_(poll),
        team_(options.threads, pulse_),
        spans_(tokens_.next(), 1) {
    pulse_.progress.max_merges = options.max_merges;
    pulse_.progress.merges = result_.counts.size();
    forget_facts();
  }

 protected:
  // After all pre-tokens were read and what held them is freed.
  void start(const Corpus& corpus, size_t shards, uint64_t most_sketch_bytes) {
    give_back_memory();
    sketch_.emplace(corpus.slots, corpus.mass, most_sketch_bytes);
    work_.arenas = std::vector<PositionArena>(shards);
    work_.batches.resize(shards);
    work_.members.resize(team_.members());
    if (!is_of_bytes()) return;
    for (Symbol left = 0; left < 256; ++left)
      for (Symbol right = 0; right < 256; ++right)
        if (const auto count = corpus.byte_pairs[256 * left + right]; count != 0 && !tokens_.forbids(left, right))
          sketch_->add(sketch_->counter_of(key_of(left, right)), count);
  }
  bool is_of_bytes() const { return result_.counts.empty() && !options_.start; }

  // Compacts the words, if they may have gaps, and indexes the pairs that reach the threshold.
  template <class S>
  void index(std::vector<Shard<S>>& shards, bool gaps) {
    merging_.reset();
    index_.reset();
    index_.emplace(compact_and_index(shards, work_.arenas, *sketch_, threshold_, gaps, tokens_, team_, pulse_));
    forget_spans<S>();
    ++result_.phases;
    merging_.emplace(*index_, learned(), work_, options_.share_from, team_, pulse_);
  }
  // The next batch of indexed pairs; false when none reaches the threshold, or the lists of new pairs have grown far beyond
  // those that the phase began with.
  template <class S>
  bool merge_indexed(std::vector<Shard<S>>& shards) {
    if (listed_words() > most_words_ || merging_->merge_batch(shards, possible(), max_merges_) == 0) return false;
    index_->narrow(enough());
    return true;
  }
  // After compaction.
  template <class S>
  void forget_spans() {
    for (Symbol symbol = 0; symbol < spans_.size(); ++symbol) spans_[symbol] = Slots<S>::span(symbol);
  }
  uint64_t listed_words() const {
    return std::accumulate(work_.arenas.begin(), work_.arenas.end(), uint64_t{0},
                           [](auto sum, const PositionArena& arena) { return sum + arena.words(); });
  }
  Learned learned() { return {tokens_, spans_, *sketch_, result_}; }

  const PhaseEnd& phase_end_;
  Pulse pulse_;
  Team team_;
  std::vector<uint32_t> spans_;  // by symbol: slots since the last compaction
  Workspace work_;
  std::optional<IndexedMerging> merging_;  // in index_
  uint64_t most_words_ = 0;                // of the lists in this phase
};

class InMemory : public PhaseLoop<InMemory, Resident> {
 public:
  // `slots`: of all pre-tokens, about.
  InMemory(const MergeOptions& options, MergeResult known, const MergePoll& poll, const PhaseEnd& phase_end,
           PreTokenSource source, uint64_t slots)
      : PhaseLoop(options, std::move(known), poll, phase_end) {
    Corpus corpus;
    const KnownMerges made(merges());
    const Taking taking{options_.rules.min_pre_token_count, slots, made,
                        options_.start ? options_.start->tokens.size() : 0};
    const auto take = [&]<class S>(std::vector<Shard<S>> none) {
      corpus = {};
      forget_facts();
      none = take_words<S>(source, taking, team_, pulse_, corpus, result_);
      const bool taken = !none.empty();
      words_ = std::move(none);
      return taken;
    };
    // One byte a slot is enough for compact words of text and their first merges.
    const bool narrow = !options_.start && is_narrow(options_, tokens_.next());
    const bool compact = options_.compact && narrow && is_of_bytes() && take(std::vector<Shard<uint8_t>>());
    if (!compact && narrow) take(std::vector<Shard<uint16_t>>());
    if (!narrow) take(std::vector<Shard<uint32_t>>());
    source = nullptr;
    std::visit(
        [&]<class S>(std::vector<Shard<S>>& shards) {
          start(corpus, shards.size(), kNeverReached);
          if constexpr (sizeof(S) > 1)
            if (!is_of_bytes()) sketch_->set(sums_of(shards, sketch_->size(), tokens_, team_));
        },
        words_);
  }
  MergeResult run() {
    merge_while([] { return true; });
    return std::move(result_);
  }

 private:
  friend PhaseLoop<InMemory, Resident>;
  void widen() {
    for (auto& arena : work_.arenas) arena = {};
    merge::widen(words_, team_);
    std::visit([this]<class S>(std::vector<Shard<S>>&) { forget_spans<S>(); }, words_);
  }
  bool open_phase() {
    return std::visit(
        [this]<class S>(std::vector<Shard<S>>& shards) {
          uint64_t slots = 0;
          for (const auto& shard : shards) slots += shard.size;
          const auto most_positions = max_positions(slots, options_.compact ? 6 : 4);
          threshold_ = next_threshold(threshold_, index_, *sketch_, max_pairs(), most_positions, [&](auto&& note) {
            constexpr uint64_t kSmall = uint64_t{1} << 18;
            for (const auto& shard : shards)
              sample_pairs(std::span(&shard, 1), spans_, 64, shard.size < kSmall ? 1 : 256, note);
          });
          if (threshold_ == 0) return false;
          index(shards, gaps_);
          gaps_ = false;
          most_words_ = most_listed(listed_words(), work_.arenas.size());
          return true;
        },
        words_);
  }
  bool merge_next() {
    const bool any = std::visit([this](auto& shards) { return merge_indexed(shards); }, words_);
    gaps_ |= any;
    return any;
  }
  void phase_ended() {
    if (!gaps_) return;
    merging_.reset();
    index_.reset();
    phase_end_(result_);
  }

  std::variant<std::vector<Shard<uint8_t>>, std::vector<Shard<uint16_t>>, std::vector<Shard<uint32_t>>> words_;
  bool gaps_ = false;  // merges were made since the last compaction
};

}  // namespace bpe::merge
