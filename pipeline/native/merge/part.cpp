#include "merge/part.hpp"

#include "merge/exchange.hpp"
#include "merge/known_merges.hpp"

namespace bpe::merge {
namespace {

constexpr size_t kLongList = size_t{1} << 16;  // positions

// Splits what join_listed has joined.
template <class S>
void take_apart(S* symbols, const Join& join, const std::vector<uint32_t>& spans, const std::vector<Position>& joined) {
  const uint32_t left_span = spans[join.left], right_span = spans[join.right];
  for (const Position first : joined) {
    const Position second = first + left_span, after = second + right_span;
    symbols[after - 1] = static_cast<S>(join.right | kTail<S>);
    symbols[second] = static_cast<S>(join.right);
    symbols[second - 1] = static_cast<S>(join.left | kTail<S>);
    symbols[first] = static_cast<S>(join.left);
  }
}

}  // namespace

Part::Part(const MergeOptions& options, const PieceSource& source, uint64_t slots, const std::vector<PairKey>& known)
    : options_(options), team_(options_.threads, pulse_), tokens_(options_) {
  const KnownMerges merges(known);
  for (const auto key : known) tokens_.add(left_of(key), right_of(key));
  const Taking taking{.min_count = options_.rules.min_piece_count, .slots = slots, .shard_slots = kShardSlots, .known = &merges};
  if (is_narrow(options_, tokens_.next()))
    words_ = take_words<uint16_t>(source, taking, team_, pulse_, corpus_, facts_);
  else
    words_ = take_words<uint32_t>(source, taking, team_, pulse_, corpus_, facts_);
  give_back_memory();
  std::visit([this](auto& shards) { lists_ = std::vector<Lists>(shards.size()); }, words_);
  spans_.assign(tokens_.next(), 1);
}

std::vector<uint64_t> Part::sums(size_t sketch_size) {
  if (tokens_.next() > kFirstMerge)
    return std::visit([&](auto& shards) { return sums_of(shards, sketch_size, tokens_, team_); }, words_);
  std::vector<uint64_t> sums(sketch_size, 0);
  each_byte_pair(corpus_, tokens_, [&](PairKey pair, uint64_t count) { sum_of(sums, pair) += count; });
  return sums;
}

std::vector<PairKey> Part::sample(uint64_t version, size_t step) {
  settle(version);
  forget_guess();
  std::vector<PairKey> found;
  std::visit(
      [&]<class S>(const std::vector<Shard<S>>& shards) {
        sample_pairs(std::span(shards), spans_, 1, step, [&](PairKey key, double) { found.push_back(key); });
      },
      words_);
  return found;
}

PairTally Part::index(uint64_t version, const PairFilter& filter) {
  settle(version);
  forget_guess();
  if (words_.index() == 0 && !is_narrow(options_, tokens_.next())) widen(words_, team_);
  const Filter passing(filter);
  std::vector<PairTally> tallies(lists_.size());
  each_shard([&](auto& shard, Lists& lists, unsigned member) {
    auto& tally = tallies[static_cast<size_t>(&lists - lists_.data())];
    lists.arena.clear();
    tally = passing.with([&](auto&& passes) {
      return tally_shard(shard, lists.arena, nullptr, passes, true, pulse_, member);
    });
    lists.of = PairMap<false>(tally.used());
    tally.each([&](const PairTally::Slot& slot) {
      lists.of.insert(left_of(slot.key()), right_of(slot.key()), slot.value.list.finish(lists.arena).handle);
    });
    lists.most_words = most_listed(lists.arena.words());
  });
  std::fill(spans_.begin(), spans_.end(), 1);
  for (size_t s = 1; s < tallies.size(); ++s) add_to(tallies[0], tallies[s]);
  tallies[0].keep_if([](const auto& slot) { return left_of(slot.key()) != kBoundary && right_of(slot.key()) != kBoundary; });
  return std::move(tallies[0]);
}

JoinedAround Part::join(uint64_t version, const std::vector<PairKey>& fresh, const std::vector<PairKey>& guess) {
  settle(version);
  const Symbol first_made = tokens_.next() - static_cast<Symbol>(certain_);
  std::vector<std::vector<PairKey>> by_join(certain_);
  for (const auto key : fresh)
    if (const auto made = std::max(left_of(key), right_of(key)); made >= first_made && made < tokens_.next())
      by_join[made - first_made].push_back(key);
  each_shard([&](auto& shard, Lists& lists, unsigned member) { list_fresh(shard, lists, by_join, member); });
  forget_guess();
  for (const auto key : guess) {
    const auto made = static_cast<Symbol>(spans_.size());
    if (left_of(key) >= tokens_.next() || right_of(key) >= tokens_.next())
      throw std::invalid_argument("a guess joins a token that does not exist");
    guess_.push_back({left_of(key), right_of(key), made});
    spans_.push_back(spans_[left_of(key)] + spans_[right_of(key)]);
  }
  each_shard([&](auto& shard, Lists& lists, unsigned member) { make_guess(shard, lists, member); });
  JoinedAround sum;
  if (lists_.size() == 1) sum = std::move(lists_[0].found);
  std::vector<size_t> next(lists_.size(), 0);
  around_.make_space(static_cast<Symbol>(spans_.size()));
  for (size_t i = 0; lists_.size() > 1 && i < 2 * guess_.size(); ++i) {
    for (size_t s = 0; s < lists_.size(); ++s)
      for (auto n = lists_[s].found.sizes[i]; n != 0; --n, ++next[s])
        around_.add({lists_[s].found.symbols[next[s]], 1, lists_[s].found.weights[next[s]]});
    sum.add(around_);
  }
  for (const auto& lists : lists_) sum.full |= lists.arena.words() > lists.most_words;
  return sum;
}

// Takes back what was guessed beyond the version.
void Part::settle(uint64_t version) {
  const uint64_t before = tokens_.next() - kFirstMerge - certain_;
  if (version < before + certain_ || version > before + guess_.size())
    throw std::invalid_argument("a part of version " + std::to_string(before) + " cannot go to " +
                                std::to_string(version));
  const auto certain = static_cast<size_t>(version - before);
  each_shard([&]<class S>(Shard<S>& shard, Lists& lists, unsigned) {
    for (size_t i = guess_.size(); i-- > certain;) take_apart(shard.symbols.data(), guess_[i], spans_, lists.joined[i]);
  });
  for (size_t i = certain_; i < certain; ++i) tokens_.add(guess_[i].left, guess_[i].right);
  certain_ = certain;
  guess_.resize(certain);
  spans_.resize(tokens_.next());
}

void Part::forget_guess() {
  guess_.clear();
  certain_ = 0;
}

template <class S>
void Part::list_fresh(Shard<S>& shard, Lists& lists, const std::vector<std::vector<PairKey>>& fresh, unsigned member) {
  for (size_t i = 0; i < fresh.size(); ++i) {
    if (fresh[i].empty() || lists.joined[i].empty()) continue;
    lists.around.make_space(static_cast<Symbol>(spans_.size()));
    lists.writers.assign(fresh[i].size(), {});
    list_pairs(shard, guess_[i], spans_, 0, fresh[i].size(), [&](size_t pair) { return fresh[i][pair]; },
               [&](auto&& use) { use(lists.joined[i]); }, lists.around, lists.arena, lists.writers, pulse_, member);
    for (size_t w = 0; w < fresh[i].size(); ++w) {
      if (const auto list = lists.writers[w].finish(lists.arena).handle; list != 0)  // most occur in few parts
        lists.of.insert(left_of(fresh[i][w]), right_of(fresh[i][w]), list);
    }
  }
}

template <class S>
void Part::make_guess(Shard<S>& shard, Lists& lists, unsigned member) {
  lists.found = {};
  lists.joined.resize(guess_.size());
  for (size_t i = 0; i < guess_.size(); ++i) {
    auto& positions = lists.joined[i];
    if (positions.capacity() > kLongList) std::vector<Position>().swap(positions);
    positions.clear();
    const auto list = lists.of.find(guess_[i].left, guess_[i].right);
    if (list == PairMap<false>::kNone) {
      lists.found.sizes.insert(lists.found.sizes.end(), 2, 0);
      continue;
    }
    lists.around.make_space(static_cast<Symbol>(spans_.size()));
    read_list(lists.arena, list, lists.listed, [&](std::span<Position> listed) {
      const auto n = join_listed(shard, guess_[i], spans_, listed, lists.around, pulse_, member);
      positions.insert(positions.end(), listed.begin(), listed.begin() + static_cast<std::ptrdiff_t>(n));
    });
    lists.found.add(lists.around.left);
    lists.found.add(lists.around.right);
  }
}

}  // namespace bpe::merge
