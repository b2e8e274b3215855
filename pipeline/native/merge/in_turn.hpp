// LanguagesInTurn: languages choose the next merge in turn, each by the counts of its own texts.
//
// Idea: a queue of pairs for each language. Counts of a language only fall, whichever chooses, since a merge makes pairs that
// occur no more often in it than the merged pair. While all languages choose together, first, they share one queue.
#pragma once
#include "merge/parity.hpp"
#include "merge/phases.hpp"

namespace bpe::merge {

class LanguagesInTurn : public Phases {
 public:
  static constexpr uint32_t kGlobal = LanguageChoice::kNone;

  LanguagesInTurn(const MergeOptions& options, MergeResult known, const ParityOptions& parity,
                  std::vector<uint32_t> chosen_by)
      : Phases(options, std::move(known)),
        languages_(static_cast<uint32_t>(parity.languages)),
        global_merges_(parity.global_merges),
        choice_(parity),
        chosen_by_(std::move(chosen_by)) {
    if (chosen_by_.size() != result_.counts.size())
      throw std::invalid_argument("known merges need the language that chose each");
    forget_facts();
  }
  const std::vector<uint32_t>& chosen_by() const { return chosen_by_; }  // kGlobal: all languages together
  const LanguageChoice& choice() const { return choice_; }

 protected:
  static constexpr uint32_t kNone = LanguageChoice::kNone;

  // Pairs of one language, or of all, that may be chosen.
  struct Queue {
    uint64_t slots = 0, mass = 0;        // of its shards, as they were read
    size_t first = 0, end = 0;           // shards
    uint64_t threshold = kNeverReached;  // of the phase; 0: no pair reaches min_frequency
    std::optional<Sketch> sketch;
    std::optional<PairQueue> pairs;

    uint64_t reached_from() const { return pairs ? pairs->threshold() : kNeverReached; }
  };

  // Pairs of a queue that will hardly all be merged: a merge that one language chooses takes apart pairs of others.
  uint64_t enough_of_one() const { return remaining() / 2 + 1024; }
  bool is_global() const { return result_.counts.size() < global_merges_; }
  // kNone: of a text that is only measured.
  uint32_t queue_of(uint32_t shard) const {
    const auto language = language_of_[shard];
    return language >= languages_ ? kNone : global_ ? 0 : language;
  }
  // The queues of who chooses now.
  void make_queues() {
    if (!queues_.empty() && global_ == is_global()) return;
    global_ = is_global();
    queues_ = std::vector<Queue>(global_ ? 1 : languages_);
    for (size_t s = 0; s < language_of_.size(); ++s)
      if (const auto q = queue_of(static_cast<uint32_t>(s)); q != kNone) {
        if (queues_[q].end == 0) queues_[q].first = s;
        queues_[q].end = s + 1;
      }
    for (uint32_t language = 0; language < languages_; ++language) {
      queues_[global_ ? 0 : language].slots += sizes_[language].first;
      queues_[global_ ? 0 : language].mass += sizes_[language].second;
    }
  }
  // The queue that chooses, and its best pair; kNoPair where the phase has ended or no merge is left. Languages without a
  // pair are spent.
  std::pair<uint32_t, PairNumber> take_next() {
    if (global_ != is_global()) return {0, kNoPair};
    if (global_) return {0, queues_[0].pairs->take_best()};
    while (true) {
      const auto language = choice_.next();
      if (language == LanguageChoice::kNone) return {0, kNoPair};
      if (auto& pairs = queues_[language].pairs) {
        if (const auto best = pairs->take_best(); best != kNoPair) return {language, best};
        if (pairs->threshold() > options_.rules.min_frequency) return {0, kNoPair};
      }
      choice_.spend(language);
    }
  }
  void chosen(uint32_t chooser) {
    chosen_by_.push_back(global_ ? kGlobal : chooser);
    if (!global_) choice_.note(chooser);
  }

  const uint32_t languages_;
  const uint64_t global_merges_;
  LanguageChoice choice_;
  std::vector<uint32_t> language_of_;                 // by shard; beyond languages_: a text that is only measured
  std::vector<std::pair<uint64_t, uint64_t>> sizes_;  // by language: slots and mass
  bool global_ = false;
  std::vector<Queue> queues_;        // by language; while all choose together, one
  std::vector<uint32_t> chosen_by_;  // by rank
};

}  // namespace bpe::merge
