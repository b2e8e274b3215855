// ParityTraining: merges that languages choose in turn, each by the counts of its own texts; all are made in all texts.
//
// Idea: one numbering of pairs for all languages. A pair has a cell for each shard in which it occurs: where it is listed
// there, and its number in the queue of the shard's language, if it reaches that language's threshold. So a change of a
// count takes one lookup, and a merge costs nothing in languages that do not have its pair. Phases as in merge.cpp: what
// reaches the threshold of any language is listed in all shards, so that all can make its merges. The sketches that choose
// thresholds are made from the words when a phase begins. Counts of a language only fall, whichever chooses, since a
// merge makes pairs that occur no more often in it than the merged pair.
//
// While all languages choose together, first, they share one queue. Texts after those of the languages are only measured.
#pragma once
#include <chrono>
#include <iterator>
#include <numeric>
#include <variant>

#include "merge/exchange.hpp"
#include "merge/join.hpp"
#include "merge/known_merges.hpp"
#include "merge/parity.hpp"
#include "merge/scan.hpp"

namespace bpe::merge {

class ParityTraining : public Phases {
 public:
  static constexpr uint32_t kGlobal = LanguageChoice::kNone;

  // texts: of each language, then those that are measured in their place. known: merges that were made, chosen_by: by which
  // language. `options` without start and resident_bytes.
  ParityTraining(const MergeOptions& options, MergeResult known, const ParityOptions& parity,
                 std::vector<uint32_t> chosen_by, const std::vector<PieceSource>& texts)
      : Phases(options, std::move(known)), languages_(static_cast<uint32_t>(parity.languages)),
        measured_from_(parity.dev ? languages_ : 0), global_merges_(parity.global_merges), choice_(parity),
        team_(options.threads, pulse_), around_(team_.members()), listed_(team_.members()), chosen_by_(std::move(chosen_by)) {
    if (languages_ == 0 || texts.size() != languages_ + measured_from_)
      throw std::invalid_argument("parity needs the texts of each language");
    if (chosen_by_.size() != result_.counts.size())
      throw std::invalid_argument("known merges need the language that chose each");
    const KnownMerges made(merges());
    result_.bytes = result_.left_out_pieces = result_.left_out_bytes = 0;
    if (is_narrow())
      words_ = take<uint16_t>(texts, made);
    else
      words_ = take<uint32_t>(texts, made);
    give_back_memory();
    arenas_ = std::vector<PositionArena>(language_of_.size());
    work_.resize(language_of_.size());
  }
  const std::vector<uint32_t>& chosen_by() const { return chosen_by_; }  // kGlobal: all languages together
  const LanguageChoice& choice() const { return choice_; }

  // Makes merges until it is that late; false when no merge is left.
  bool merge_until(std::chrono::steady_clock::time_point end) {
    while (std::chrono::steady_clock::now() < end) {
      if (!in_phase_ && !open_phase()) return false;
      in_phase_ = std::visit([this](auto& shards) { return merge_next(shards); }, words_);
    }
    return true;
  }

 private:
  static constexpr uint64_t kSampled = uint64_t{1} << 16;     // positions of all texts together, about
  static constexpr uint32_t kNone = LanguageChoice::kNone;

  // Pairs of one language, or of all, that may be chosen.
  struct Queue {
    uint64_t slots = 0, mass = 0;  // of its shards, as they were read
    size_t first = 0, end = 0;     // shards
    uint64_t threshold = kNeverReached;   // of the phase; 0: no pair reaches min_frequency
    std::optional<Sketch> sketch;
    std::optional<PairQueue> pairs;

    uint64_t reached_from() const { return pairs ? pairs->threshold() : kNeverReached; }
  };
  struct Cell {
    uint32_t shard;
    ListHandle list;
    PairNumber number;  // in the queue of the shard; kNoPair: below its threshold
  };
  // A pair in a shard; in order of the shards.
  struct Found {
    size_t pair;  // among those that are added
    uint32_t shard;
    ListWriter::List list;
    uint64_t count;
  };
  struct Appeared {
    PairKey key;
    uint64_t weight;
  };
  struct Vanished {
    PairKey key;
    uint64_t weight;
    PairNumber pair;
    uint32_t shard, queue;
  };
  // What the merge that made a token has met on one of its sides.
  struct Mark {
    uint64_t sum = 0;  // of the weights in the queue below
    Symbol made = 0;
    uint32_t queue = 0;
    uint32_t fresh = 0;  // 1 + the number of the pair among those that reach a threshold; 0: it does not
  };
  // Of a shard, while a merge is made in it.
  struct ShardWork {
    std::vector<Neighbour> left, right;
    std::vector<Appeared> appeared;
    std::vector<ListWriter> writers;
    std::vector<Found> found;
    uint64_t most_words = 0;  // of the shard's lists in this phase
  };

  // Pairs of a queue that will hardly all be merged: a merge that one language chooses takes apart pairs of others.
  uint64_t enough_of_one() const { return remaining() / 2 + 1024; }
  bool is_global() const { return result_.counts.size() < global_merges_; }
  // kNone: of a text that is only measured.
  uint32_t queue_of(uint32_t shard) const {
    const auto language = language_of_[shard];
    return language >= languages_ ? kNone : global_ ? 0 : language;
  }

  template <class S>
  std::vector<Shard<S>> take(const std::vector<PieceSource>& texts, const KnownMerges& merges) {
    std::vector<Shard<S>> all;
    Team alone(1, pulse_);
    for (uint32_t text = 0; text < texts.size(); ++text) {
      Corpus corpus;
      MergeResult facts;
      const uint64_t least = text < languages_ ? options_.rules.min_piece_count : 1;
      auto shards = take_merged<S>(texts[text], least, kShardSlots, merges, alone, pulse_, corpus, facts);
      const auto tokens = std::accumulate(facts.joined.begin(), facts.joined.end(), facts.bytes, std::minus<>());
      if (text >= measured_from_) choice_.start(text - measured_from_, facts.bytes, tokens);
      language_of_.insert(language_of_.end(), shards.size(), text);
      std::move(shards.begin(), shards.end(), std::back_inserter(all));
      if (text >= languages_) continue;
      take_in(corpus.mass, facts.bytes, facts.left_out_pieces, facts.left_out_bytes);
      sizes_.emplace_back(corpus.slots, corpus.mass);
    }
    return all;
  }

  // False when no merge is left.
  bool open_phase() {
    if (remaining() == 0) return false;
    if (queues_.empty() || global_ != is_global()) make_queues();
    end_symbol_ = end_symbol();
    if (auto* const words = std::get_if<0>(&words_); words != nullptr && !is_narrow()) words_ = widen<uint16_t, uint32_t>(std::move(*words), team_);
    return std::visit([this](auto& shards) { return index(shards); }, words_);
  }
  void make_queues() {
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

  // Compacts the words and lists the pairs that may reach a threshold; false when none does.
  template <class S>
  bool index(std::vector<Shard<S>>& shards) {
    team_.each(shards.size(), [&](size_t s, unsigned) {
      filter_words(shards[s], [](const S*, size_t size, uint64_t) { return size > 1; });
      arenas_[s].clear();
    });
    spans_.assign(tokens_.next(), 1);
    team_.each(queues_.size(), [&](size_t q, unsigned) { choose_threshold(queues_[q], shards); });
    result_.exhausted = std::all_of(queues_.begin(), queues_.end(), [](const auto& one) { return one.threshold == 0; });
    if (result_.exhausted) return false;
    ++result_.phases;
    std::vector<std::pair<const Sketch*, uint64_t>> thresholds;
    for (const auto& queue : queues_)
      if (queue.threshold != 0) thresholds.emplace_back(&*queue.sketch, queue.threshold);
    const auto filter = filter_above(thresholds);
    std::vector<PairTally> tallies(shards.size());
    team_.each(shards.size(), [&](size_t s, unsigned member) {
      tallies[s] = tally_shard(shards[s], arenas_[s], nullptr, passing(filter), false, pulse_, member);
    });
    begins_.assign(1, 0);
    cells_.clear();
    std::vector<PairKey> keys;
    std::vector<Found> found;
    numbers_ = PairMap<true>();
    for (uint32_t s = 0; s < shards.size(); ++s) {
      tallies[s].each([&](const PairTally::Slot& slot) {
        const auto left = left_of(slot.key), right = right_of(slot.key);
        if (left == kBoundary || right == kBoundary || tokens_.forbids(left, right)) return;
        if (numbers_.insert(left, right, static_cast<uint32_t>(keys.size()))) keys.push_back(slot.key);
        found.push_back({numbers_.find(left, right), s, slot.list.finish(arenas_[s]), slot.count});
      });
      tallies[s] = {};
      work_[s].most_words = most_listed(arenas_[s].words());
    }
    add(keys, found);
    full_ = false;
    return true;
  }

  template <class S>
  void choose_threshold(Queue& queue, const std::vector<Shard<S>>& shards) const {
    const bool none_found = queue.pairs && queue.pairs->pairs().empty();  // counters promised a count that no pair has
    queue.pairs.reset();
    if (queue.threshold == 0) return;
    queue.sketch.emplace(queue.slots, queue.mass, kNeverReached);
    std::vector<uint64_t> sums(queue.sketch->size(), 0);
    each_pair(queue, shards, 1, [&](PairKey key, uint64_t weight) { sums[queue.sketch->counter_of(key)] += weight; });
    queue.sketch->set(sums);
    if (none_found) {
      queue.threshold = lower(queue.threshold);
    } else {
      const auto step = static_cast<Position>(queue.slots / (kSampled / queues_.size()) + 1);
      const auto most_pairs = std::min(enough_of_one(), kMaxPairs);
      queue.threshold = Phases::choose_threshold(*queue.sketch, most_pairs, max_positions(queue.slots), [&](auto&& note) {
        each_pair(queue, shards, step, [&](PairKey key, uint64_t) { note(key, step); });
      });
    }
    if (queue.threshold != 0) queue.pairs.emplace(tokens_, queue.threshold);
  }
  // use(pair, weight) for one position in `step` of the queue's words, which are compact.
  template <class S, class Use>
  void each_pair(const Queue& queue, const std::vector<Shard<S>>& shards, Position step, Use&& use) const {
    for (size_t s = queue.first; s < queue.end; ++s) {
      const auto& [symbols, size, runs] = shards[s];
      for (size_t r = 0; r + 1 < runs.size(); ++r)
        for (uint64_t i = runs[r].begin; i + 1 < runs[r + 1].begin; i += step) {
          const Symbol left = symbols.data()[i], right = symbols.data()[i + 1];
          if (left != kBoundary && right != kBoundary && !tokens_.forbids(left, right)) use(key_of(left, right), runs[r].weight);
        }
    }
  }
  // Adds pairs, which numbers_ has already, with their cells.
  void add(const std::vector<PairKey>& keys, const std::vector<Found>& found) {
    const auto first = begins_.size() - 1, base = cells_.size();
    next_.assign(keys.size() + 1, 0);
    for (const auto& one : found) ++next_[one.pair + 1];
    std::partial_sum(next_.begin(), next_.end(), next_.begin());
    for (size_t pair = 1; pair <= keys.size(); ++pair) begins_.push_back(static_cast<uint32_t>(base + next_[pair]));
    cells_.resize(base + found.size());
    order_.resize(found.size());
    for (const auto& one : found) {
      order_[next_[one.pair]] = &one;
      cells_[base + next_[one.pair]++] = {one.shard, one.list.handle, kNoPair};
    }
    for (size_t pair = 0; pair < keys.size(); ++pair) {
      const auto end = begins_[first + pair + 1];
      for (size_t at = begins_[first + pair], next; at < end; at = next) {
        const auto queue = queue_of(cells_[at].shard);
        uint64_t count = 0, positions = 0;
        for (next = at; next < end && queue_of(cells_[next].shard) == queue; ++next) {
          count += order_[next - base]->count;
          positions += order_[next - base]->list.positions;
        }
        if (queue == kNone || count < queues_[queue].reached_from()) continue;
        const auto number = queues_[queue].pairs->add(keys[pair], count, positions);
        for (auto cell = at; cell < next; ++cell) cells_[cell].number = number;
      }
    }
  }

  // The queue that chooses, and its best pair; kNoPair where the phase has ended or no merge is left. Languages without a
  // pair are spent.
  std::pair<uint32_t, PairNumber> take_next() {
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

  // Makes the next merge; false when the phase has ended.
  template <class S>
  bool merge_next(std::vector<Shard<S>>& shards) {
    if (full_ || possible() == 0 || global_ != is_global()) return false;
    const auto [chooser, best] = take_next();
    if (best == kNoPair) return false;
    const auto [key, count, positions, unused] = queues_[chooser].pairs->pair(best);
    const Symbol left = left_of(key), right = right_of(key);
    const Join join{left, right, tokens_.add(left, right)};
    spans_.push_back(spans_[left] + spans_[right]);
    for (auto& marks : marks_)
      if (marks.size() <= join.made) marks.resize(2 * join.made);
    const auto number = numbers_.find(left, right);
    merged_.assign(cells_.begin() + begins_[number], cells_.begin() + begins_[number + 1]);
    const bool together = positions >= options_.share_from && team_.members() > 1;
    const auto on_cells = [&](auto&& use) {
      if (together) return team_.each(merged_.size(), [&](size_t c, unsigned member) { use(merged_[c], member); });
      for (const auto& cell : merged_) use(cell, 0);
    };
    on_cells([&](const Cell& cell, unsigned member) {
      auto& work = work_[cell.shard];
      auto& around = around_[member];
      work.left.clear();
      work.right.clear();
      around.make_space(tokens_.next());
      read_list(arenas_[cell.shard], cell.list, listed_[member], [&](std::span<Position> listed) {
        join_listed(shards[cell.shard], join, spans_, listed, around, pulse_, member);
      });
      around.left.move_to(work.left);
      around.right.move_to(work.right);
    });
    append(join, count, note(join, key));
    chosen_by_.push_back(global_ ? kGlobal : chooser);
    if (!global_) choice_.chose(chooser);
    if (!fresh_.empty()) {
      on_cells([&](const Cell& cell, unsigned member) { list(shards[cell.shard], cell, join, member); });
      add_fresh();
    }
    queues_[chooser].pairs->narrow(enough_of_one());
    return true;
  }

  // Enters how the merge of that pair has changed the counts; returns how many occurrences in the languages it joined.
  uint64_t note(const Join& join, PairKey merged) {
    uint64_t joined_in_all = 0;
    fresh_.clear();
    vanished_.clear();
    for (const auto& cell : merged_) {
      auto& work = work_[cell.shard];
      const auto queue = queue_of(cell.shard), language = language_of_[cell.shard];
      if (cell.number != kNoPair) queues_[queue].pairs->pair(cell.number).count = 0;
      work.appeared.clear();
      const auto joined = note_changes(join, 0, work.left, work.right, [&](PairKey key, uint64_t weight, uint32_t positions) {
        if (positions != 0) return appear(join, key, weight, queue, work);
        if (queue == kNone || key == merged) return;
        vanished_.push_back({key, weight, kNoPair, cell.shard, queue});
        numbers_.prefetch(left_of(key), right_of(key));
      });
      if (language >= measured_from_) choice_.joined(language - measured_from_, joined);
      if (language < languages_) joined_in_all += joined;
    }
    enter_vanished();
    return joined_in_all;
  }
  // Enters the pairs that are gone, all of the merge in steps, so that they wait for memory together.
  void enter_vanished() {
    for (auto& one : vanished_)
      if ((one.pair = numbers_.find(left_of(one.key), right_of(one.key))) != kNoPair) __builtin_prefetch(&begins_[one.pair]);
    std::erase_if(vanished_, [](const Vanished& one) { return one.pair == kNoPair; });
    for (const auto& one : vanished_) __builtin_prefetch(&cells_[begins_[one.pair]]);
    for (auto& one : vanished_) {
      auto cell = begins_[one.pair];
      const auto end = begins_[one.pair + 1];
      while (cell < end && cells_[cell].shard < one.shard) ++cell;
      one.pair = cell < end && cells_[cell].shard == one.shard ? cells_[cell].number : kNoPair;
      if (one.pair != kNoPair) queues_[one.queue].pairs->prefetch(one.pair);
    }
    for (const auto& one : vanished_) {
      if (one.pair == kNoPair) continue;
      auto& count = queues_[one.queue].pairs->pair(one.pair).count;
      if (count != 0) count -= one.weight;
    }
  }
  Mark& mark_of(const Join& join, PairKey key) {
    return right_of(key) == join.made ? marks_[0][left_of(key)] : marks_[1][right_of(key)];
  }
  void appear(const Join& join, PairKey key, uint64_t weight, uint32_t queue, ShardWork& work) {
    if (tokens_.forbids(left_of(key), right_of(key))) return;
    work.appeared.push_back({key, weight});
    if (queue == kNone) return;
    auto& mark = mark_of(join, key);
    if (mark.made != join.made)
      mark = {0, join.made, queue, 0};
    else if (mark.queue != queue)
      mark = {0, join.made, queue, mark.fresh};
    mark.sum += weight;
    if (mark.fresh != 0 || mark.sum < queues_[queue].reached_from()) return;
    fresh_.push_back(key);
    numbers_.prefetch(left_of(key), right_of(key));
    mark.fresh = static_cast<uint32_t>(fresh_.size());
  }

  // Lists the pairs that are fresh, where the merge has joined in a shard.
  template <class S>
  void list(const Shard<S>& shard, const Cell& cell, const Join& join, unsigned member) {
    const auto s = cell.shard;
    auto& work = work_[s];
    auto& around = around_[member];
    work.found.clear();
    std::erase_if(work.appeared, [&](const Appeared& one) {
      const auto& mark = mark_of(join, one.key);
      return mark.made != join.made || mark.fresh == 0;
    });
    if (work.appeared.empty()) return;
    work.writers.assign(work.appeared.size(), {});
    for (size_t w = 0; w < work.appeared.size(); ++w) around.writer(join.made, work.appeared[w].key) = static_cast<uint32_t>(w + 1);
    read_list(arenas_[s], cell.list, listed_[member], [&](std::span<Position> listed) {
      list_neighbours(shard, join, spans_, listed, around, arenas_[s], work.writers, pulse_, member);
    });
    for (size_t w = 0; w < work.appeared.size(); ++w) {
      const auto& [key, weight] = work.appeared[w];
      around.writer(join.made, key) = 0;
      work.found.push_back({mark_of(join, key).fresh - size_t{1}, s, work.writers[w].finish(arenas_[s]), weight});
    }
  }
  void add_fresh() {
    for (size_t i = 0; i < fresh_.size(); ++i)
      numbers_.insert(left_of(fresh_[i]), right_of(fresh_[i]), static_cast<uint32_t>(begins_.size() - 1 + i));
    found_.clear();
    for (const auto& cell : merged_) {
      const auto& work = work_[cell.shard];
      found_.insert(found_.end(), work.found.begin(), work.found.end());
      full_ |= arenas_[cell.shard].words() > work.most_words;
    }
    add(fresh_, found_);
  }

  const uint32_t languages_, measured_from_;  // the first text that is measured
  const uint64_t global_merges_;
  LanguageChoice choice_;
  const MergePoll poll_ = [](const MergeProgress&) {};
  Pulse pulse_{poll_};
  Team team_;
  std::vector<uint32_t> spans_, language_of_;  // by symbol; by shard
  std::vector<std::pair<uint64_t, uint64_t>> sizes_;  // by language: slots and mass
  std::variant<std::vector<Shard<uint16_t>>, std::vector<Shard<uint32_t>>> words_;
  std::vector<PositionArena> arenas_;  // by shard
  std::vector<ShardWork> work_;
  std::vector<Surroundings> around_;  // by member
  std::vector<std::vector<Position>> listed_;  // by member: some of those of a list
  bool global_ = false, in_phase_ = false, full_ = false;
  std::vector<Queue> queues_;  // by language; while all choose together, one
  PairMap<true> numbers_;      // of the pairs of the phase
  std::vector<uint32_t> begins_;  // by pair: its first cell; then the end of all
  std::vector<Cell> cells_, merged_;
  std::array<std::vector<Mark>, 2> marks_;  // by what is on the left and on the right
  std::vector<Vanished> vanished_;          // by the merge
  std::vector<PairKey> fresh_;              // pairs that reach a threshold since the merge
  std::vector<Found> found_;
  std::vector<const Found*> order_;  // what was found, by pair
  std::vector<uint32_t> next_;
  std::vector<uint32_t> chosen_by_;  // by rank
};

}  // namespace bpe::merge
