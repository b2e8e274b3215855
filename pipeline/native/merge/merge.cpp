// Trains in phases. Each phase indexes only the pairs whose count reaches a threshold, merges as long as the best
// indexed pair reaches it, then compacts the words and continues with a lower threshold.
//
// Why phases are exact: a pair contains a token that some merge made (or only bytes, and then all its occurrences are
// there from the start), and once that merge has ended no new occurrence of the token appears, since no two merges make
// the same bytes; so from then on the pair's count only falls. A pair below the threshold when the phase's index is
// made therefore stays below it. A pair that a merge of this phase makes has its exact count when that merge ends, and
// is indexed then if it reaches the threshold. So the index holds every pair that reaches the threshold with its exact
// count, and while the best of them reaches it, it is the best of all.
#include "merge/merge.hpp"

#include <numeric>

#include "merge/indexed.hpp"
#include "merge/known_merges.hpp"
#include "merge/scan.hpp"
#include "merge/streamed.hpp"
#include "count/pages.hpp"

namespace bpe {
namespace merge {
namespace {

constexpr uint64_t kPairBytes = 256;  // of an indexed pair, about
constexpr size_t kFewMerges = 16;  // so few that a phase is hardly worth its pass over the disk

class Training : Phases {
 public:
  Training(const MergeOptions& options, MergeResult known, const MergePoll& poll, const PhaseEnd& phase_end)
      : Phases(options, std::move(known)), phase_end_(phase_end), pulse_(poll), team_(options.threads, pulse_), known_(merges()), spans_(tokens_.next(), 1) {
    pulse_.progress.max_merges = options.max_merges;
    pulse_.progress.merges = result_.counts.size();
  }

  // `slots`: of all pieces, about.
  MergeResult run(PieceSource source, uint64_t slots) {
    slots_ = slots;
    const auto end_narrow = options_.start ? 0 : std::min(options_.narrow_symbols, Slots<uint16_t>::kEndSymbol);
    if (end_narrow > tokens_.next() && end_narrow > kFirstMerge) {
      if (auto shards = take_narrow(source); !shards.empty() && !train(shards, end_narrow))
        train_wide(widen<uint32_t>(shards));
    } else {
      train_wide(take<uint32_t>(source));
    }
    return std::move(result_);
  }

 private:
  // Words in two bytes a slot; compact ones of text after their first merges, for which one byte is enough. Nothing if no
  // merge is left after these.
  std::vector<Shard<uint16_t>> take_narrow(PieceSource& source) {
    if (!options_.compact || options_.resident_bytes != 0 || !result_.counts.empty()) return take<uint16_t>(source);
    auto shards = take<uint8_t>(source);
    if (shards.empty()) return take<uint16_t>(source);
    const bool done = train(shards, std::min(options_.narrow_symbols, Slots<uint8_t>::kEndSymbol));
    return done ? std::vector<Shard<uint16_t>>() : widen<uint16_t>(shards);
  }

  void train_wide(std::vector<Shard<uint32_t>> shards) { train(shards, Slots<uint32_t>::kEndSymbol); }

  // Reads all pieces, frees what held them, and prepares what training needs. Returns nothing if they cannot be read so.
  template <class S>
  std::vector<Shard<S>> take(PieceSource& source) {
    Corpus corpus;
    result_.bytes = result_.left_out_pieces = result_.left_out_bytes = 0;
    auto shards = take_as<S>(source, corpus);
    if (shards.empty()) return shards;
    source = nullptr;
    give_back_memory();
    const auto most_bytes = options_.resident_bytes != 0 ? options_.resident_bytes / 8 : kNeverReached;
    sketch_.emplace(corpus.slots, corpus.mass, most_bytes);
    if (result_.counts.empty() && !options_.start) {
      for (Symbol left = 0; left < 256; ++left)
        for (Symbol right = 0; right < 256; ++right)
          if (const auto count = corpus.byte_pairs[256 * left + right];
              count != 0 && !tokens_.forbids(left, right))
            sketch_->add(sketch_->counter_of(key_of(left, right)), count);
    } else {
      if constexpr (sizeof(S) > 1) sketch_words(shards);
    }
    known_ = {};
    work_.arenas = std::vector<PositionArena>(shards.size());
    work_.batches.resize(shards.size());
    work_.members.resize(team_.members());
    return shards;
  }

  template <class S>
  std::vector<Shard<S>> take_as(const PieceSource& source, Corpus& corpus) {
    if (options_.resident_bytes == 0)
      return take_words<S>(source,
                           {.min_count = options_.rules.min_piece_count, .slots = slots_, .shard_slots = kShardSlots,
                            .start_tokens = start_tokens(), .known = &known_},
                           team_, pulse_, corpus, result_);
    std::vector<Shard<S>> shards;
    if constexpr (sizeof(S) > 1) {
      for (size_t s = 0; s < team_.members(); ++s) {
        stored_.emplace_back(options_.scratch + "." + std::to_string(s));
        shards.push_back(empty_shard<S>(shard_bytes()));
      }
      store_words<S>(source, options_.rules.min_piece_count, known_, stored_, team_, pulse_, corpus, result_);
    }
    return shards;
  }

  // Fills the sketch from the words, where these are not bytes any more. Counters are fetched ahead, some pairs at once:
  // hardly any is in a cache.
  template <class S>
  void sketch_words(std::vector<Shard<S>>& shards) {
    std::vector<uint64_t> sums(sketch_->size(), 0);
    const auto add = [&](const S* word, size_t size, uint64_t weight) {
      std::array<uint64_t*, 64> places;
      for (size_t i = 0, n = 0; i + 1 < size; n = 0) {
        for (const auto end = std::min(size - 1, i + places.size()); i < end; ++i) {
          if (tokens_.forbids(word[i], word[i + 1])) continue;
          places[n] = &sums[sketch_->counter_of(key_of(word[i], word[i + 1]))];
          __builtin_prefetch(places[n++], 1);
        }
        for (size_t k = 0; k < n; ++k) std::atomic_ref(*places[k]).fetch_add(weight, std::memory_order_relaxed);
      }
      return true;
    };
    team_.each(shards.size(), [&](size_t s, unsigned) { filter_words(shards[s], add); });
    for (auto& stored : stored_)
      stored.look<S>(0, [&](WordBlock<S>& block) {
        pulse_.beat(0);
        block.each_word(add);
      });
    sketch_->set(sums);
  }

  // The same words in wider slots.
  template <class To, class From>
  std::vector<Shard<To>> widen(std::vector<Shard<From>>& shards) {
    std::vector<Shard<To>> wide;
    if (stored_.empty()) {
      for (auto& arena : work_.arenas) arena = {};
      wide = merge::widen<From, To>(std::move(shards), team_);
    } else if constexpr (sizeof(From) > 1) {
      put_all_away(shards);
      for (size_t s = 0; s < stored_.size(); ++s) wide.push_back(empty_shard<To>(shard_bytes()));
    }
    shards.clear();
    forget_spans<To>();
    return wide;
  }

  // After compaction.
  template <class S>
  void forget_spans() {
    for (Symbol symbol = 0; symbol < spans_.size(); ++symbol) spans_[symbol] = Slots<S>::span(symbol);
  }

  // Phase after phase; false when the next symbol would pass `end_symbol`.
  template <class S>
  bool train(std::vector<Shard<S>>& shards, Symbol end_symbol) {
    end_symbol_ = end_symbol;
    while (result_.counts.size() < max_merges_) {
      // A phase for the last few symbols of a width would cost more than it gains.
      const Symbol left = end_symbol - tokens_.next();
      if (left == 0 || (left < remaining() && left < end_symbol / 8)) return false;
      if (!phase(shards)) {
        result_.exhausted = true;
        return true;
      }
      phase_end_(result_);
    }
    return true;
  }

  // False when no pair is left to be merged.
  template <class S>
  bool phase(std::vector<Shard<S>>& shards) {
    if constexpr (sizeof(S) > 1)
      if (!stored_.empty()) return stored_phase(shards);
    return resident_phase(shards);
  }

  // With all words in memory; false when no pair is left to be merged.
  template <class S>
  bool resident_phase(std::vector<Shard<S>>& shards) {
    auto threshold = choose_threshold(*sketch_, max_pairs(), max_positions(shards),
                                      [&](auto&& note) { sample_pairs(shards, spans_, note); });
    while (threshold != 0) {
      gaps_ = merge_above(shards, threshold, gaps_);
      if (gaps_) return true;
      threshold = lower(threshold);
    }
    return false;
  }

  // Indexes the pairs that reach the threshold and merges them; false when there are none.
  template <class S>
  bool merge_above(std::vector<Shard<S>>& shards, uint64_t threshold, bool gaps) {
    auto index = compact_and_index(shards, work_.arenas, *sketch_, threshold, gaps, tokens_, team_, pulse_);
    forget_spans<S>();
    ++result_.phases;
    return merge_indexed(shards, index);
  }

  // With the words in memory that the phase needs. Where these are too many, or allow hardly any merge, merges are made
  // while words are streamed.
  template <class S>
  bool stored_phase(std::vector<Shard<S>>& shards) {
    const auto before = result_.counts.size();
    auto threshold = prefer_streaming_ ? kNeverReached : affordable(shards);
    prefer_streaming_ = false;
    const auto best = before == 0 ? kNeverReached - 1 : result_.counts.back();  // no pair has a higher count
    while (threshold != 0 && threshold <= best) {
      const auto reached = exchange(shards, threshold);
      if (reached != kNeverReached && merge_above(shards, reached, false)) {
        prefer_streaming_ = result_.counts.size() - before < kFewMerges;
        return true;
      }
      if (reached > threshold) break;
      threshold = lower(threshold);
    }
    return threshold != 0 && streamed_phase(shards);
  }

  template <class S>
  uint64_t affordable(std::vector<Shard<S>>& shards) {
    return affordable_threshold(shards, stored_, *sketch_, max_pairs(),
                                shard_bytes() * shards.size() / 8 * 7, options_.rules.min_frequency);
  }

  // For the words of a shard and the lists that a phase starts with; as much is left for all else.
  uint64_t shard_bytes() const { return options_.resident_bytes * 5 / 8 / team_.members(); }

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

  // Makes at least one batch of merges while streaming, and more until a phase in memory would make many.
  template <class S>
  bool streamed_phase(std::vector<Shard<S>>& shards) {
    put_all_away(shards);
    const auto pairs = max_pairs();
    auto ledger = count_ledger<S>(stored_, learned(), pairs, options_, team_, pulse_);
    Batch batch;
    bool any = false;
    while (possible() != 0) {
      HighestNeighbours highest(ledger);
      batch.choose(ledger, &highest, learned(), std::min<uint64_t>(possible(), kMostBatch));
      if (batch.joins().empty()) break;
      any = true;
      ++result_.phases;
      merge_batch<S>(stored_, ledger, batch.joins(), learned(), team_, pulse_);
      pulse_.progress.merges = result_.counts.size();
      pulse_.progress.best_count = result_.counts.back();
      if (result_.counts.size() == max_merges_ || ledger.pairs().size() > 8 * pairs + 4096) break;
      phase_end_(result_);
      const auto threshold = affordable(shards);
      if (threshold == kNeverReached) continue;
      const auto& known = ledger.pairs();
      const auto reaching = static_cast<size_t>(
          std::count_if(known.begin(), known.end(), [&](const auto& pair) { return pair.count >= threshold; }));
      if (threshold <= ledger.threshold() || reaching >= std::max(2 * kFewMerges, 2 * batch.joins().size())) break;
    }
    return any;
  }

  Learned learned() { return {tokens_, spans_, *sketch_, result_}; }
  size_t start_tokens() const { return options_.start ? options_.start->tokens.size() : 0; }

  uint64_t max_pairs() const {
    const auto most = options_.resident_bytes == 0 ? kMaxPairs : options_.resident_bytes / 8 / kPairBytes + 64;
    return std::min(Phases::max_pairs(), most);
  }

  template <class S>
  uint64_t max_positions(const std::vector<Shard<S>>& shards) const {
    uint64_t slots = 0;
    for (const auto& shard : shards) slots += shard.size;
    return Phases::max_positions(slots, options_.compact ? 6 : 4);
  }

  // Merges until no indexed pair reaches the threshold, or the lists of new pairs have grown far beyond those that the
  // phase began with; false when there was no merge at all.
  template <class S>
  bool merge_indexed(std::vector<Shard<S>>& shards, PairIndex& index) {
    IndexedMerging<S> merging(shards, index, learned(), work_, options_.share_from, team_, pulse_);
    bool any = false;
    const auto most_words = stored_.empty() ? most_listed(listed_words(), work_.arenas.size())
                                            : listed_words() + options_.resident_bytes / 8 / sizeof(Position);
    while (possible() != 0 && listed_words() <= most_words) {
      if (merging.merge_batch(possible(), max_merges_) == 0) break;
      any = true;
      index.narrow(enough());
    }
    return any;
  }

  uint64_t listed_words() const {
    return std::accumulate(work_.arenas.begin(), work_.arenas.end(), uint64_t{0},
                           [](auto sum, const PositionArena& arena) { return sum + arena.words(); });
  }

  const PhaseEnd& phase_end_;
  Pulse pulse_;
  Team team_;
  uint64_t slots_ = 0;
  std::optional<Sketch> sketch_;
  KnownMerges known_;
  std::vector<StoredWords> stored_;  // by shard; none where all words are in memory
  bool prefer_streaming_ = true;  // as long as no phase in memory was worth it
  bool gaps_ = false;  // merges were made since the last compaction
  std::vector<uint32_t> spans_;  // by symbol: slots since the last compaction
  Workspace work_;
};

}  // namespace
}  // namespace merge

void MergeEngine::add(const ColumnsView& columns, std::shared_ptr<void> owner) {
  if (used_ || source_) throw std::invalid_argument("pieces cannot be added after run() or together with stream()");
  slots_ += static_cast<uint64_t>(columns.offsets[columns.rows] - columns.offsets[0]) + columns.rows;
  batches_.emplace_back(columns, std::move(owner));
}

void MergeEngine::stream(PieceSource source, uint64_t slots) {
  if (used_ || source_ || !batches_.empty())
    throw std::invalid_argument("stream() is called once, without add(), before run()");
  source_ = std::move(source);
  slots_ = slots;
}

void MergeEngine::resume(MergeResult known) {
  const auto merges = known.counts.size();
  if (known.left.size() != merges || known.right.size() != merges || known.joined.size() != merges)
    throw std::invalid_argument("known merges need a left, a right, a count and a number of joins each");
  for (size_t rank = 0; rank < merges; ++rank)
    if (known.left[rank] >= 256 + rank || known.right[rank] >= 256 + rank)
      throw std::invalid_argument("a known merge joins a token that comes after it");
  known_ = std::move(known);
}

MergeResult MergeEngine::run(const MergeOptions& options, const MergePoll& poll, const PhaseEnd& phase_end) {
  if (used_) throw std::invalid_argument("run() can be called once");
  if (options.rules.min_frequency == 0) throw std::invalid_argument("min_frequency must be at least 1");
  if (options.threads == 0) throw std::invalid_argument("threads must be at least 1");
  if (options.narrow_symbols > 65536) throw std::invalid_argument("narrow_symbols must be at most 65536");
  if (options.thread_bytes == 0) throw std::invalid_argument("thread_bytes must be at least 1");
  if (options.resident_bytes != 0 && options.scratch.empty())
    throw std::invalid_argument("resident_bytes needs scratch, a path");
  if (options.resident_bytes != 0 && options.start)
    throw std::invalid_argument("words that start from tokens are all kept in memory");
  if (options.start && !known_.counts.empty()) throw std::invalid_argument("merges that are known start from bytes");
  if (known_.counts.size() > options.max_merges) throw std::invalid_argument("more merges are known than asked for");
  used_ = true;
  MergeOptions chosen = options;
  chosen.threads = static_cast<unsigned>(std::min<uint64_t>(options.threads, 1 + slots_ / options.thread_bytes));
  // The source owns the columns, and is destroyed when they are taken in.
  if (!source_)
    source_ = [batches = std::make_shared<decltype(batches_)>(std::move(batches_))](const auto& take) {
      for (const auto& [columns, owner] : *batches) take(columns);
    };
  return merge::Training(chosen, std::move(known_), poll, phase_end).run(std::exchange(source_, nullptr), slots_);
}

}  // namespace bpe
