// SharedTraining: coordinates the parts of a counter, whose words are on several nodes; it has no words itself.
//
// Idea: as one engine, in phases (merge.cpp), but over sums: a sketch of the counts of all parts together, and an index
// of the pairs that reach the phase's threshold, without positions. It guesses the next merges, the first pairs of its
// queue, and the parts make them (part.hpp). Then it makes them itself, one after the other, with what all parts found
// next to their occurrences: a guess holds as long as it is what the queue, which is exact, says next. The first always is.
// The result is that of one engine, for any guesses.
//
// Parity: each of the first parts is a language, whose counts are not added to those of others: each has a sketch and an
// index of its own, and LanguageChoice says whose best pair is next. What reaches the threshold of any language is listed
// in all parts, so that all can make its merges. Parts after these, one a language, are only measured. Counts of a
// language only fall, whichever chooses, since a merge makes pairs that occur no more often in it than the merged pair.
#pragma once
#include <array>
#include <numeric>

#include "merge/index.hpp"
#include "merge/parity.hpp"
#include "merge/part.hpp"

namespace bpe::merge {

inline constexpr size_t kMostGuessed = 256;

// Slots, their mass, bytes, pieces left out, their bytes, tokens.
using PartFacts = std::array<uint64_t, 6>;

class SharedTraining {
 public:
  static constexpr uint32_t kGlobal = LanguageChoice::kNone;

  SharedTraining(const MergeOptions& options, MergeResult known, const std::optional<ParityOptions>& parity,
                 std::vector<uint32_t> chosen_by)
      : options_(options), tokens_(options_), result_(std::move(known)), chosen_by_(std::move(chosen_by)) {
    for (size_t rank = 0; rank < result_.counts.size(); ++rank)
      tokens_.add(symbol_of(result_.left[rank]), symbol_of(result_.right[rank]));
    if (!parity) return;
    if (parity->languages == 0) throw std::invalid_argument("parity needs a language");
    if (chosen_by_.size() != result_.counts.size())
      throw std::invalid_argument("known merges need the language that chose each");
    languages_ = static_cast<uint32_t>(parity->languages);
    measured_from_ = parity->dev ? languages_ : 0;
    global_merges_ = parity->global_merges;
    choice_.emplace(*parity);
  }
  SharedTraining(const SharedTraining&) = delete;
  SharedTraining& operator=(const SharedTraining&) = delete;
  const MergeResult& result() const { return result_; }
  const std::vector<uint32_t>& chosen_by() const { return chosen_by_; }  // kGlobal: all languages together
  const std::optional<LanguageChoice>& choice() const { return choice_; }
  std::vector<PairKey> merges() const {
    std::vector<PairKey> keys;
    for (size_t rank = 0; rank < result_.counts.size(); ++rank)
      keys.push_back(key_of(symbol_of(result_.left[rank]), symbol_of(result_.right[rank])));
    return keys;
  }
  // Returns the size of a sketch for all parts together, or for the largest group.
  size_t start(const std::vector<PartFacts>& parts) {
    make_groups(parts.size());
    for (size_t p = 0; p < parts.size(); ++p) {
      const auto& [slots, mass, bytes, left_out_pieces, left_out_bytes, tokens] = parts[p];
      if (choice_ && p >= measured_from_ && p < measured_from_ + languages_)
        choice_->start(static_cast<uint32_t>(p) - measured_from_, bytes, tokens);
      if (choice_ && p >= languages_) continue;
      if (mass > (uint64_t{1} << 63) - 1 - mass_)
        throw std::overflow_error("the counts add up to a corpus of 2^63 bytes or more");
      mass_ += mass;
      result_.bytes += bytes;
      result_.left_out_pieces += left_out_pieces;
      result_.left_out_bytes += left_out_bytes;
      each_group_of(p, [&](Group& group) {
        group.slots += slots;
        group.mass += mass;
      });
    }
    size_t largest = 0;
    for (auto& group : groups_) {
      group.sketch.emplace(group.slots, group.mass, kNeverReached);
      group.sums.assign(group.sketch->size(), 0);
      largest = std::max(largest, group.sketch->size());
    }
    return largest;
  }
  // Takes the sums of the next part.
  void add_up(std::span<const uint64_t> sums) {
    each_group_of(turn(), [&](Group& group) {
      for (size_t counter = 0; counter < sums.size(); ++counter)
        group.sums[counter & (group.sums.size() - 1)] += sums[counter];
    });
  }

  // The pairs of the next phase, chosen by samples of one position in `step` of each part; empty when no merge is left.
  PairFilter begin_phase(const std::vector<std::vector<PairKey>>& samples, double step) {
    turn_ = 0;
    if (result_.counts.size() == options_.max_merges) return {};
    const bool narrow = tokens_.next() < end_narrow(options_);
    end_symbol_ = narrow ? end_narrow(options_) : Slots<uint32_t>::kEndSymbol;
    for (auto& group : groups_)
      if (!group.sums.empty()) group.sketch->set(std::exchange(group.sums, {}));
    if (choice_ && !is_global(0) && groups_.size() > languages_) groups_.pop_back();
    std::vector<std::pair<uint64_t, uint64_t>> reaching;  // counters, and how many their sketch has
    result_.exhausted = true;
    for (auto& group : asked()) {
      choose_threshold(group, samples, step);
      if (group.threshold == 0) continue;
      result_.exhausted = false;
      const auto lowest = group.sketch->lowest_reaching(group.threshold);
      for (size_t counter = 0; counter < group.sketch->size(); ++counter)
        if (group.sketch->reaches(counter, lowest)) reaching.emplace_back(counter, group.sketch->size());
    }
    return result_.exhausted ? PairFilter{} : filter_of(reaching);
  }
  // Takes the counts that the next part has of the pairs that pass.
  void count(std::span<const PairKey> pairs, std::span<const uint64_t> counts) {
    each_group_of(turn(), [&](Group& group) {
      if (group.threshold == 0 || !is_asked(group)) return;
      for (size_t i = 0; i < pairs.size(); ++i) {
        group.tally.reserve(1);
        group.tally.at(pairs[i], group.tally.place_of(pairs[i])).count += counts[i];
      }
    });
  }
  void open_phase() {
    turn_ = 0;
    fresh_.clear();
    ++result_.phases;
    for (auto& group : asked()) {
      const auto tally = std::exchange(group.tally, {});
      group.index.reset();
      if (group.threshold == 0) continue;
      group.index.emplace(tokens_, options_.greatest_bytes, 0, group.threshold, tally.used());
      for (const auto& slot : tally.slots())
        if (slot.key != PairTally::kFree && slot.count >= group.threshold &&
            !tokens_.forbids(left_of(slot.key), right_of(slot.key)))
          group.index->add(slot.key, slot.count, 0);
    }
  }
  // What passes in a part that is made again during a phase.
  PairFilter indexed() {
    constexpr uint64_t all = uint64_t{1} << 24;
    std::vector<std::pair<uint64_t, uint64_t>> places;
    for (const auto& group : asked())
      if (group.index)
        for (const auto& pair : group.index->pairs())
          if (pair.count >= group.index->threshold())
            places.emplace_back(Sketch::spread(Sketch::product(pair.key)), all);
    return filter_of(places);
  }

  // The next merges, as far as can be guessed; none when the phase has ended. Pairs that an earlier one of them takes
  // apart are left out: they will hardly be next.
  const std::vector<PairKey>& guess() {
    guess_.clear();
    const auto most = std::min<uint64_t>({remaining(), end_symbol_ - tokens_.next(), guesses_});
    std::vector<std::pair<Group*, PairNumber>> taken;
    auto choice = choice_;
    uint64_t occurrences = 0;  // a part keeps their positions until the next guess
    while (guess_.size() < most && taken.size() < 2 * most && occurrences <= mass_ / 32) {
      const auto [group, best] = take_next(choice, guess_.size());
      if (best == kNoPair) break;
      taken.emplace_back(group, best);
      const auto key = group->index->pair(best).key;
      if (std::none_of(guess_.begin(), guess_.end(), [key](PairKey earlier) {
            return key == earlier || left_of(key) == right_of(earlier) || right_of(key) == left_of(earlier);
          })) {
        guess_.push_back(key);
        occurrences += group->index->pair(best).count;
        if (choice) expect(*choice, *group, key);
      }
    }
    for (const auto& [group, number] : taken) group->index->put_back(number);
    return guess_;
  }
  // Makes the guessed merges that hold; returns the pairs that reached the threshold.
  std::vector<PairKey> enter(const std::vector<JoinedAround>& parts) {
    fresh_.clear();
    std::vector<std::pair<size_t, size_t>> next(parts.size());  // of its sizes, of its symbols
    size_t made = 0;
    for (const auto key : guess_) {
      const auto [group, best] = take_next(choice_, 0);
      if (best == kNoPair) break;
      if (group->index->pair(best).key != key) {
        group->index->put_back(best);
        break;
      }
      around_.make_space(tokens_.next() + 1);
      left_.clear();
      right_.clear();
      for (size_t p = 0; p < parts.size(); ++p) {
        left_.push_back(next_of(parts[p], next[p]));
        right_.push_back(next_of(parts[p], next[p]));
      }
      merge(*group, best);
      ++made;
    }
    // Half as many again as hold, on average: what does not hold is work and bytes for nothing.
    guesses_ = std::clamp<size_t>((6 * guesses_ + 3 * made + 7) / 8, 4, kMostGuessed);
    for (auto& group : asked())
      if (group.index) group.index->narrow(remaining() + remaining() / 4 + 1024);
    if (choice_) {  // a pair may be new in several languages
      std::sort(fresh_.begin(), fresh_.end());
      fresh_.erase(std::unique(fresh_.begin(), fresh_.end()), fresh_.end());
    }
    return fresh_;
  }

  // Makes merges of a phase with parts that are in this process, until it is that late; false when the phase has ended.
  bool merge_with(const std::vector<Part*>& parts, Team& team, std::chrono::steady_clock::time_point end) {
    std::vector<JoinedAround> answers(parts.size());
    while (std::chrono::steady_clock::now() < end) {
      if (guess().empty()) return false;
      team.each(parts.size(), [&](size_t p, unsigned) {
        answers[p] = parts[p]->join(result_.counts.size(), fresh_, guess_);
      });
      enter(answers);
      if (std::any_of(answers.begin(), answers.end(), [](const auto& one) { return one.full; })) return false;
    }
    return true;
  }

 private:
  static constexpr uint64_t kMostPairs = uint64_t{1} << 19;
  static constexpr uint64_t kNeverReached = std::numeric_limits<uint64_t>::max();

  // Parts whose counts are added up, and the pairs that are best there.
  struct Group {
    Group(size_t first_part, size_t end_part) : first(first_part), end(end_part) {}
    size_t first, end;  // parts
    uint64_t slots = 0, mass = 0;
    std::vector<uint64_t> sums;
    std::optional<Sketch> sketch;
    PairTally tally;
    std::optional<PairIndex> index;
    uint64_t threshold = kNeverReached;  // of the phase; 0: no pair reaches min_frequency
  };
  // What a part has on one side of a merge.
  struct Side {
    std::span<const Symbol> symbols;
    std::span<const uint64_t> weights;
  };

  static Symbol symbol_of(uint32_t id) { return id < kBoundary ? id : id + 1; }
  uint64_t remaining() const { return options_.max_merges - result_.counts.size(); }

  // A group of all parts; with parity, one for each language, and one more of all languages where these choose first.
  void make_groups(size_t parts) {
    if (!choice_) {
      groups_.emplace_back(0, parts);
      return;
    }
    if (parts != languages_ + measured_from_) throw std::invalid_argument("parity needs a part for each language");
    for (uint32_t language = 0; language < languages_; ++language)
      groups_.emplace_back(language, language + size_t{1});
    if (is_global(0)) groups_.emplace_back(0, languages_);
  }
  template <class Use>
  void each_group_of(size_t part, Use&& use) {
    for (auto& group : groups_)
      if (group.first <= part && part < group.end) use(group);
  }
  // The part whose answer this is: answers are in the order of the parts.
  size_t turn() { return turn_++; }
  // Whether all languages together choose, that many merges later.
  bool is_global(size_t later) const { return choice_ && result_.counts.size() + later < global_merges_; }
  // Those that may choose now.
  std::span<Group> asked() {
    if (!choice_) return groups_;
    return is_global(0) ? std::span(groups_).last(1) : std::span(groups_).first(languages_);
  }
  bool is_asked(const Group& group) {
    const auto all = asked();
    return &group >= all.data() && &group < all.data() + all.size();
  }

  void choose_threshold(Group& group, const std::vector<std::vector<PairKey>>& samples, double step) const {
    if (group.threshold == 0) return;
    if (group.index && group.index->pairs().empty()) {  // counters promised a count that no pair has
      const auto lower = std::max(group.threshold / 2, options_.min_frequency);
      group.threshold = group.threshold > options_.min_frequency ? lower : 0;
      return;
    }
    BoundHistogram histogram(*group.sketch);
    for (size_t p = group.first; p < group.end; ++p)
      for (const auto key : samples[p])
        if (const auto bound = group.sketch->bound(group.sketch->counter_of(key)); bound != 0)
          histogram.add_positions(bound, step);
    const auto groups = choice_ && !is_global(0) ? languages_ : 1;  // that share the merges still to make
    const auto most_pairs = std::min<uint64_t>(4 * remaining() / (groups + 1) + 256, kMostPairs);
    const auto most_positions = options_.index_positions != 0 ? options_.index_positions
                                                              : std::max<uint64_t>(uint64_t{1} << 20, group.slots / 4);
    group.threshold = histogram.threshold(most_pairs, most_positions, options_.min_frequency);
  }

  // Of places in sketches, each with the size of its sketch.
  static PairFilter filter_of(const std::vector<std::pair<uint64_t, uint64_t>>& places) {
    size_t size = size_t{1} << 14, most = 0;
    for (const auto& [place, all] : places) most = std::max<size_t>(most, all);
    while (size < most && size < 32 * places.size()) size *= 2;
    PairFilter filter(size / 64, 0);
    for (const auto& [place, all] : places)
      for (auto at = place & (size - 1); at < size; at += all) filter[at >> 6] |= uint64_t{1} << (at & 63);
    return filter;
  }

  // Takes the next pair off the queue of the group that chooses, that many merges later; kNoPair where the phase has
  // ended or no merge is left. Languages without a pair are spent in `choice`.
  std::pair<Group*, PairNumber> take_next(std::optional<LanguageChoice>& choice, size_t later) {
    if (!choice || is_global(later)) {
      auto& group = groups_.back();
      return {&group, group.index ? group.index->take_best() : kNoPair};
    }
    while (true) {
      const auto language = choice->next();
      if (language == LanguageChoice::kNone || is_global(0)) return {nullptr, kNoPair};
      auto& group = groups_[language];
      if (group.index) {
        if (const auto best = group.index->take_best(); best != kNoPair) return {&group, best};
        if (group.index->threshold() > options_.min_frequency) return {&group, kNoPair};
      } else if (group.threshold != 0) {
        return {&group, kNoPair};  // no phase has asked the languages yet
      }
      choice->spend(language);
    }
  }
  // Notes what a guessed merge will change in the choice, about.
  void expect(LanguageChoice& choice, const Group& chooser, PairKey key) const {
    if (&chooser >= groups_.data() + languages_) return;
    choice.chose(static_cast<uint32_t>(&chooser - groups_.data()));
    for (uint32_t language = 0; language < languages_; ++language) {
      const auto& group = groups_[language];
      const auto number = group.index ? group.index->find(key) : kNoPair;
      if (number == kNoPair) continue;
      const auto share = measured_from_ == 0 ? 1.0
                                             : static_cast<double>(choice.bytes(language)) /
                                                   static_cast<double>(std::max<uint64_t>(group.mass, 1));
      choice.joined(language, static_cast<uint64_t>(static_cast<double>(group.index->pairs()[number].count) * share));
    }
  }

  static Side next_of(const JoinedAround& part, std::pair<size_t, size_t>& next) {
    const auto size = part.sizes.at(next.first++);
    const auto at = std::exchange(next.second, next.second + size);
    if (next.second > part.symbols.size() || next.second > part.weights.size())
      throw std::invalid_argument("an answer is shorter than it says");
    return {std::span(part.symbols).subspan(at, size), std::span(part.weights).subspan(at, size)};
  }
  std::vector<Neighbour> sum_of(const Group& group, const std::vector<Side>& sides) {
    std::vector<Neighbour> sum;
    for (size_t p = group.first; p < group.end; ++p)
      for (size_t i = 0; i < sides[p].symbols.size(); ++i) around_.add({sides[p].symbols[i], 1, sides[p].weights[i]});
    around_.move_to(sum);
    return sum;
  }
  // Occurrences in a part that became one token: each has something on its left.
  uint64_t joined_in(size_t part) const {
    return std::accumulate(left_[part].weights.begin(), left_[part].weights.end(), uint64_t{0});
  }

  // Whether a pair occurred in a group: most occur in few languages.
  bool occurs_in(const Group& group) const {
    return std::any_of(left_.begin() + static_cast<std::ptrdiff_t>(group.first),
                       left_.begin() + static_cast<std::ptrdiff_t>(group.end),
                       [](const Side& side) { return !side.symbols.empty(); });
  }

  // Makes a merge, next to whose occurrences is what is in left_ and right_.
  void merge(Group& chooser, PairNumber best) {
    const auto [key, count, unused, next] = chooser.index->pair(best);
    const Join join{left_of(key), right_of(key), tokens_.add(left_of(key), right_of(key))};
    uint64_t joined = 0;
    for (auto& group : groups_)
      if (occurs_in(group) && (!choice_ || group.end - group.first == 1 || is_global(0))) merge_in(group, join);
    for (size_t p = 0; p < (choice_ ? languages_ : left_.size()); ++p) joined += joined_in(p);
    if (choice_) {
      for (uint32_t language = 0; language < languages_; ++language)
        choice_->joined(language, joined_in(measured_from_ + language));
      const bool global = is_global(0);
      const auto language = static_cast<uint32_t>(&chooser - groups_.data());
      if (!global) choice_->chose(language);
      chosen_by_.push_back(global ? kGlobal : language);
    }
    result_.left.push_back(id_of(join.left));
    result_.right.push_back(id_of(join.right));
    result_.counts.push_back(count);
    result_.joined.push_back(joined);
  }
  void merge_in(Group& group, const Join& join) {
    const auto left = sum_of(group, left_), right = sum_of(group, right_);
    const auto number = group.index ? group.index->find(key_of(join.left, join.right)) : kNoPair;
    uint64_t count = 0;  // where it is not indexed: at least what was joined
    if (number != kNoPair)
      count = std::exchange(group.index->pair(number).count, 0);
    else
      for (const auto& neighbour : left) count += neighbour.weight;
    note_changes(join, count, left, right, [&](PairKey pair, uint64_t weight, uint32_t positions) {
      positions == 0 ? vanish(group, pair, weight) : appear(group, pair, weight);
    });
  }
  void vanish(Group& group, PairKey key, uint64_t weight) {
    if (tokens_.forbids(left_of(key), right_of(key))) return;
    group.sketch->subtract(group.sketch->counter_of(key), weight);
    if (!group.index) return;
    if (const auto number = group.index->find(key); number != kNoPair && group.index->pair(number).count != 0)
      group.index->pair(number).count -= weight;
  }
  void appear(Group& group, PairKey key, uint64_t weight) {
    if (tokens_.forbids(left_of(key), right_of(key))) return;
    group.sketch->add(group.sketch->counter_of(key), weight);
    if (!group.index || weight < group.index->threshold()) return;
    group.index->add(key, weight, 0);
    fresh_.push_back(key);
  }

  const MergeOptions options_;
  Tokens tokens_;
  uint64_t mass_ = 0, global_merges_ = 0;
  uint32_t languages_ = 0, measured_from_ = 0;  // the first part that is measured
  Symbol end_symbol_ = 0;
  std::optional<LanguageChoice> choice_;  // null: all parts choose together
  std::vector<Group> groups_;             // languages; or, last, all parts
  size_t turn_ = 0;
  std::vector<PairKey> guess_, fresh_;
  size_t guesses_ = 4;  // at most
  Neighbours around_;
  std::vector<Side> left_, right_;  // of the merge that is made, by part
  MergeResult result_;
  std::vector<uint32_t> chosen_by_;  // by rank, with parity
};

}  // namespace bpe::merge
