// ParityTraining: merges that languages choose in turn (in_turn.hpp); all are made in all texts, which are in memory.
//
// Idea: one numbering of pairs for all languages. A pair has a cell for each shard in which it occurs: where it is listed
// there, and its number in the queue of the shard's language, if it reaches that language's threshold. So a change of a
// count takes one lookup, and a merge costs nothing in languages that do not have its pair. What reaches the threshold of
// any language is listed in all shards, so that all can make its merges. The sketches that choose thresholds are made from
// the words when a phase begins. Texts after those of the languages are only measured.
#pragma once
#include <chrono>
#include <iterator>
#include <numeric>

#include "merge/exchange.hpp"
#include "merge/in_turn.hpp"
#include "merge/known_merges.hpp"

namespace bpe::merge {

class ParityTraining : public PhaseLoop<ParityTraining, LanguagesInTurn> {
 public:
  // texts: of each language, then those that are measured in their place. known: merges that were made, chosen_by: by which
  // language. `options` without start and resident_bytes.
  ParityTraining(const MergeOptions& options, MergeResult known, const ParityOptions& parity,
                 std::vector<uint32_t> chosen_by, const std::vector<PreTokenSource>& texts)
      : PhaseLoop(options, std::move(known), parity, std::move(chosen_by)),
        measured_from_(parity.dev ? languages_ : 0),
        team_(options.threads, pulse_),
        around_(team_.members()),
        listed_(team_.members()) {
    if (languages_ == 0 || texts.size() != languages_ + measured_from_)
      throw std::invalid_argument("parity needs the texts of each language");
    const KnownMerges made(merges());
    if (is_narrow(options_, tokens_.next()))
      words_ = take<uint16_t>(texts, made);
    else
      words_ = take<uint32_t>(texts, made);
    give_back_memory();
    arenas_ = std::vector<PositionArena>(language_of_.size());
    work_.resize(language_of_.size());
  }
  // Makes merges until it is that late; false when no merge is left.
  bool merge_until(std::chrono::steady_clock::time_point end) {
    return merge_while([end] { return std::chrono::steady_clock::now() < end; });
  }

 private:
  friend PhaseLoop<ParityTraining, LanguagesInTurn>;
  static constexpr uint64_t kSampled = uint64_t{1} << 16;  // positions of all texts together, about

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

  template <class S>
  std::vector<Shard<S>> take(const std::vector<PreTokenSource>& texts, const KnownMerges& merges) {
    std::vector<Shard<S>> all;
    Team alone(1, pulse_);
    for (uint32_t text = 0; text < texts.size(); ++text) {
      Corpus corpus;
      MergeResult facts;
      const uint64_t least = text < languages_ ? options_.rules.min_pre_token_count : 1;
      uint64_t slots = 0;
      texts[text]([&](const ColumnsView& batch) {
        slots += static_cast<uint64_t>(batch.offsets[batch.rows] - batch.offsets[0]) + batch.rows;
      });
      const Taking taking{.min_count = least, .slots = slots, .known = merges};
      auto shards = take_words<S>(texts[text], taking, alone, pulse_, corpus, facts);
      const auto tokens = std::accumulate(facts.joined.begin(), facts.joined.end(), facts.bytes, std::minus<>());
      if (text >= measured_from_) choice_.start(text - measured_from_, facts.bytes, tokens);
      language_of_.insert(language_of_.end(), shards.size(), text);
      std::move(shards.begin(), shards.end(), std::back_inserter(all));
      if (text >= languages_) continue;
      take_in(corpus.mass, facts.bytes, facts.left_out_pre_tokens, facts.left_out_bytes);
      sizes_.emplace_back(corpus.slots, corpus.mass);
    }
    return all;
  }

  void widen() { merge::widen(words_, team_); }
  void phase_ended() const {}
  bool open_phase() {
    make_queues();
    return std::visit([this](auto& shards) { return index(shards); }, words_);
  }
  bool merge_next() {
    return std::visit([this](auto& shards) { return merge_next(shards); }, words_);
  }

  // Compacts the words and lists the pairs that may reach a threshold; false when none does.
  template <class S>
  bool index(std::vector<Shard<S>>& shards) {
    std::vector<std::vector<uint64_t>> sums(queues_.size() + 1);  // the last of none
    for (size_t q = 0; q < queues_.size(); ++q)
      if (queues_[q].threshold != 0) {
        queues_[q].sketch.emplace(queues_[q].slots, queues_[q].mass, kNeverReached);
        sums[q].assign(queues_[q].sketch->size(), 0);
      }
    team_.each(shards.size(), [&](size_t s, unsigned) {
      const auto queue = std::min<size_t>(queue_of(static_cast<uint32_t>(s)), queues_.size());
      const auto read = [&](auto&& add) {
        filter_words(shards[s], [&](const S* word, size_t size, uint64_t weight) {
          if (!sums[queue].empty()) add_pairs(word, size, weight, tokens_, sums[queue], add);
          return size > 1;
        });
      };
      const bool alone = queue == queues_.size() || queues_[queue].end - queues_[queue].first == 1;
      alone ? read(add_alone) : read(add_shared);
      arenas_[s].clear();
    });
    spans_.assign(tokens_.next(), 1);
    team_.each(queues_.size(),
               [&](size_t q, unsigned) { choose_threshold(queues_[q], std::exchange(sums[q], {}), shards); });
    if (std::all_of(queues_.begin(), queues_.end(), [](const auto& one) { return one.threshold == 0; })) return false;
    ++result_.phases;
    std::vector<std::pair<const Sketch*, uint64_t>> thresholds;
    for (const auto& queue : queues_)
      if (queue.threshold != 0) thresholds.emplace_back(&*queue.sketch, queue.threshold);
    const Filter filter(filter_above(thresholds));
    std::vector<PairTally> tallies(shards.size());
    team_.each(shards.size(), [&](size_t s, unsigned member) {
      tallies[s] = filter.with(
          [&](auto&& passes) { return tally_shard(shards[s], arenas_[s], nullptr, passes, false, pulse_, member); });
    });
    begins_.assign(1, 0);
    cells_.clear();
    std::vector<PairKey> keys;
    std::vector<Found> found;
    numbers_ = PairMap<true>();
    for (uint32_t s = 0; s < shards.size(); ++s) {
      tallies[s].each([&](const PairTally::Slot& slot) {
        const auto left = left_of(slot.key()), right = right_of(slot.key());
        if (left == kBoundary || right == kBoundary || tokens_.forbids(left, right)) return;
        if (numbers_.insert(left, right, static_cast<uint32_t>(keys.size()))) keys.push_back(slot.key());
        found.push_back({numbers_.find(left, right), s, slot.value.list.finish(arenas_[s]), slot.value.count});
      });
      tallies[s] = {};
      work_[s].most_words = most_listed(arenas_[s].words());
    }
    add(keys, found);
    full_ = false;
    return true;
  }

  template <class S>
  void choose_threshold(Queue& queue, const std::vector<uint64_t>& sums, const std::vector<Shard<S>>& shards) const {
    const auto before = std::exchange(queue.pairs, std::nullopt);
    if (queue.threshold == 0) return;
    queue.sketch->set(sums);
    const auto step = queue.slots / (kSampled / queues_.size()) + 1;
    queue.threshold = next_threshold(queue.threshold, before, *queue.sketch, std::min(enough_of_one(), kMaxPairs),
                                     max_positions(queue.slots), [&](auto&& note) {
                                       sample_pairs(std::span(shards).subspan(queue.first, queue.end - queue.first),
                                                    spans_, 1, step, note);
                                     });
    if (queue.threshold != 0) queue.pairs.emplace(tokens_, queue.threshold);
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

  // Makes the next merge; false when the phase has ended.
  template <class S>
  bool merge_next(std::vector<Shard<S>>& shards) {
    if (full_) return false;
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
    chosen(chooser);
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
      const auto joined =
          note_changes(join, 0, work.left, work.right, [&](PairKey key, uint64_t weight, uint32_t positions) {
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
      if ((one.pair = numbers_.find(left_of(one.key), right_of(one.key))) != kNoPair)
        __builtin_prefetch(&begins_[one.pair]);
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
    list_pairs(
        shard, join, spans_, 0, work.appeared.size(), [&](size_t pair) { return work.appeared[pair].key; },
        [&](auto&& use) { read_list(arenas_[s], cell.list, listed_[member], use); }, around, arenas_[s], work.writers,
        pulse_, member);
    for (size_t w = 0; w < work.appeared.size(); ++w) {
      const auto& [key, weight] = work.appeared[w];
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

  const uint32_t measured_from_;  // the first text that is measured
  const MergePoll poll_ = [](const MergeProgress&) {};
  Pulse pulse_{poll_};
  Team team_;
  std::vector<uint32_t> spans_;  // by symbol
  std::variant<std::vector<Shard<uint16_t>>, std::vector<Shard<uint32_t>>> words_;
  std::vector<PositionArena> arenas_;  // by shard
  std::vector<ShardWork> work_;
  std::vector<Surroundings> around_;           // by member
  std::vector<std::vector<Position>> listed_;  // by member: some of those of a list
  bool full_ = false;
  PairMap<true> numbers_;         // of the pairs of the phase
  std::vector<uint32_t> begins_;  // by pair: its first cell; then the end of all
  std::vector<Cell> cells_, merged_;
  std::array<std::vector<Mark>, 2> marks_;  // by what is on the left and on the right
  std::vector<Vanished> vanished_;          // by the merge
  std::vector<PairKey> fresh_;              // pairs that reach a threshold since the merge
  std::vector<Found> found_;
  std::vector<const Found*> order_;  // what was found, by pair
  std::vector<uint32_t> next_;
};

}  // namespace bpe::merge
