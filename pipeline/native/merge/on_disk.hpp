// OnDisk: merges by the most frequent pair, where only the words that a phase needs are in memory, all others on disk.
//
// Idea: exchange.hpp brings the words of a phase to memory. Where these are too many, or allow hardly any merge, a phase has
// a ledger in place of an index, and its batches are made while words are streamed (streamed.hpp).
#pragma once
#include "merge/in_memory.hpp"
#include "merge/streamed.hpp"

namespace bpe::merge {

inline constexpr uint64_t kPairBytes = 256;  // of an indexed pair, about
inline constexpr size_t kFewMerges = 16;     // so few that a phase is hardly worth its pass over the disk

class OnDisk : public PhaseLoop<OnDisk, Resident> {
 public:
  OnDisk(const MergeOptions& options, MergeResult known, const MergePoll& poll, const PhaseEnd& phase_end,
         PreTokenSource source)
      : PhaseLoop(options, std::move(known), poll, phase_end) {
    for (size_t s = 0; s < team_.members(); ++s) stored_.emplace_back(options_.scratch + "." + std::to_string(s));
    if (!is_narrow(options_, tokens_.next())) words_ = std::vector<Shard<uint32_t>>();
    Corpus corpus;
    std::visit(
        [&]<class S>(std::vector<Shard<S>>& shards) {
          const KnownMerges made(merges());
          make_empty(shards);
          const Taking taking{.min_count = options_.rules.min_pre_token_count, .slots = 0, .known = made};
          store_words<S>(source, taking, stored_, team_, pulse_, corpus, result_);
        },
        words_);
    source = nullptr;
    start(corpus, stored_.size(), options_.resident_bytes / 8);
    std::visit(
        [&]<class S>(std::vector<Shard<S>>&) {
          if (!is_of_bytes()) sketch_words<S>();
        },
        words_);
  }
  MergeResult run() {
    merge_while([] { return true; });
    return std::move(result_);
  }

 private:
  friend PhaseLoop<OnDisk, Resident>;
  void widen() {
    std::visit([this](auto& shards) { put_all_away(shards); }, words_);
    std::vector<Shard<uint32_t>> wide;
    make_empty(wide);
    words_ = std::move(wide);
  }
  bool open_phase() {
    before_ = result_.counts.size();
    merging_.reset();
    index_.reset();
    ledger_.reset();
    return std::visit([this](auto& shards) { return bring_in(shards) || open_ledger(shards); }, words_) &&
           threshold_ != 0;
  }
  // Indexes the pairs that reach a threshold, with their words in memory; false where there are none, or none that fits.
  template <class S>
  bool bring_in(std::vector<Shard<S>>& shards) {
    threshold_ = prefer_streaming_ ? kNeverReached : affordable(shards);
    prefer_streaming_ = false;
    const auto best = before_ == 0 ? kNeverReached - 1 : result_.counts.back();  // no pair has a higher count
    while (threshold_ != 0 && threshold_ <= best) {
      const auto asked = std::exchange(threshold_, exchange(shards, threshold_));
      if (threshold_ != kNeverReached) {
        index(shards, false);
        most_words_ = listed_words() + options_.resident_bytes / 8 / sizeof(Position);
        if (!index_->pairs().empty()) return true;
      }
      if (threshold_ > asked) break;
      threshold_ = lower(threshold_);
    }
    return threshold_ == 0;
  }
  template <class S>
  bool open_ledger(std::vector<Shard<S>>& shards) {
    put_all_away(shards);
    index_.reset();
    ledger_.emplace(count_ledger<S>(stored_, learned(), max_pairs(), options_, team_, pulse_));
    most_ledger_pairs_ = 8 * max_pairs() + 4096;
    return !ledger_->pairs().empty();
  }
  bool merge_next() {
    return std::visit([this](auto& shards) { return ledger_ ? merge_streamed(shards) : merge_indexed(shards); },
                      words_);
  }
  // The next batch of the ledger; false when none is left, or a phase in memory would make many merges.
  template <class S>
  bool merge_streamed(std::vector<Shard<S>>& shards) {
    if (ledger_->pairs().size() > most_ledger_pairs_ || worth_bringing_in(shards)) return false;
    HighestNeighbours highest(*ledger_);
    batch_.choose(*ledger_, &highest, learned(), std::min<uint64_t>(possible(), kMostBatch));
    if (batch_.joins().empty()) return false;
    ++result_.phases;
    merge_batch<S>(stored_, *ledger_, batch_.joins(), learned(), team_, pulse_);
    pulse_.progress.merges = result_.counts.size();
    pulse_.progress.best_count = result_.counts.back();
    phase_end_(result_);
    return true;
  }
  // Asked after a batch.
  template <class S>
  bool worth_bringing_in(std::vector<Shard<S>>& shards) {
    if (result_.counts.size() == before_) return false;
    const auto threshold = affordable(shards);
    if (threshold == kNeverReached) return false;
    const auto& known = ledger_->pairs();
    const auto reaching = static_cast<size_t>(
        std::count_if(known.begin(), known.end(), [&](const auto& pair) { return pair.count >= threshold; }));
    return threshold <= ledger_->threshold() || reaching >= std::max(2 * kFewMerges, 2 * batch_.joins().size());
  }
  void phase_ended() {
    if (ledger_) return;
    prefer_streaming_ = result_.counts.size() - before_ < kFewMerges;
    phase_end_(result_);
  }

  template <class S>
  uint64_t affordable(std::vector<Shard<S>>& shards) {
    return affordable_threshold(shards, stored_, *sketch_, max_pairs(), shard_bytes() * shards.size() / 8 * 7,
                                options_.rules.min_frequency);
  }
  // For the words of a shard and the lists that a phase starts with; as much is left for all else.
  uint64_t shard_bytes() const { return options_.resident_bytes * 5 / 8 / team_.members(); }
  uint64_t max_pairs() const { return std::min(Phases::max_pairs(), options_.resident_bytes / 8 / kPairBytes + 64); }

  // Brings the words to memory that hold a pair at or above the threshold; returns the one that they are complete for.
  template <class S>
  uint64_t exchange(std::vector<Shard<S>>& shards, uint64_t threshold) {
    std::vector<uint64_t> reached(shards.size());
    team_.each(shards.size(), [&](size_t s, unsigned member) {
      work_.arenas[s] = {};
      work_.batches[s] = {};
      reached[s] = Exchange<S>(shards[s], stored_[s], *sketch_, shard_bytes(), pulse_, member).run(threshold);
    });
    forget_spans<S>();
    return *std::max_element(reached.begin(), reached.end());
  }
  template <class S>
  void put_all_away(std::vector<Shard<S>>& shards) {
    team_.each(shards.size(), [&](size_t s, unsigned) {
      work_.arenas[s] = {};
      put_away(shards[s], stored_[s]);
    });
    forget_spans<S>();
  }
  template <class S>
  void make_empty(std::vector<Shard<S>>& shards) const {
    for (size_t s = 0; s < stored_.size(); ++s) shards.push_back(empty_shard<S>(shard_bytes()));
  }
  template <class S>
  void sketch_words() {
    std::vector<uint64_t> sums(sketch_->size(), 0);
    for (auto& stored : stored_)
      stored.look<S>(0, [&](WordBlock<S>& block) {
        pulse_.beat(0);
        block.each_word([&](const S* word, size_t size, uint64_t weight) {
          add_pairs(word, size, weight, tokens_, sums, add_alone);
        });
      });
    sketch_->set(sums);
  }

  std::variant<std::vector<Shard<uint16_t>>, std::vector<Shard<uint32_t>>> words_;  // by shard, like stored_
  std::vector<StoredWords> stored_;
  std::optional<PairIndex> ledger_;  // of a phase that streams
  Batch batch_;
  uint64_t before_ = 0;  // merges before the phase
  uint64_t most_ledger_pairs_ = 0;
  bool prefer_streaming_ = true;  // as long as no phase in memory was worth it
};

}  // namespace bpe::merge
