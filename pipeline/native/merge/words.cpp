#include "merge/words.hpp"

#include <numeric>

#include "merge/known_merges.hpp"
#include "merge/stored_words.hpp"

namespace bpe::merge {
namespace {

constexpr uint64_t kDirectCounts = uint64_t{1} << 16;
constexpr uint64_t kMaxMass = (uint64_t{1} << 63) - 1;
constexpr uint64_t kShardSlots = uint64_t{1} << 31;  // more shards than members where that many are not enough
constexpr uint64_t kMaxShardSlots = 0xFFFFFF00;
constexpr uint64_t kSplitBelow = 16;  // lower counts have a lane for each beginning
constexpr size_t kBeginnings = 256;
constexpr uint64_t kFewSlots = uint64_t{1} << 22, kSmallBlock = 32, kBlock = 256;
constexpr Position kSlotsPerRelease = Position{1} << 22;
constexpr size_t kPreTokensPerBeat = size_t{1} << 14;
constexpr size_t kBytesPerBeat = size_t{1} << 22;

// Notes how many bytes the pre-tokens have, and refuses those that are too many. `shift`: a token is 1 << shift bytes.
class Accounts {
 public:
  Accounts(uint64_t min_count, unsigned shift) : min_count_(min_count), shift_(shift) {}
  void add(const ColumnsView& batch, Corpus& corpus, MergeResult& result, Pulse& pulse) {
    for (size_t i = 0; i < batch.rows; ++i) {
      if (i % kPreTokensPerBeat == 0) pulse.beat(0);
      const auto count = batch.counts[i];
      const uint64_t bytes = batch.pre_token_size(i) >> shift_;
      if (bytes << shift_ != batch.pre_token_size(i))
        throw std::invalid_argument("a pre-token that is no row of numbers");
      if (count > (kMaxMass - seen_) / (bytes + 1))
        throw std::overflow_error("the counts add up to a corpus of 2^63 bytes or more");
      seen_ += count * (bytes + 1);
      if (count < min_count_) {
        result.left_out_pre_tokens += count != 0 && bytes != 0;
        result.left_out_bytes += count * bytes;
        continue;
      }
      corpus.mass += count * (bytes + 1);
      result.bytes += count * bytes;
      if (bytes > 1) corpus.slots += bytes + 1;
    }
  }

 private:
  const uint64_t min_count_;
  const unsigned shift_;
  uint64_t seen_ = 0;  // mass, with what is left out
};

// A shard while words are added to it: each goes to the last block of its lane. There is a lane for each count, and for
// low counts one for each first byte. At the end blocks are put in the order of their lanes, in place.
template <class S>
class Filling {
 public:
  explicit Filling(uint64_t slots)
      : block_slots_(slots < kFewSlots ? kSmallBlock : kBlock), lanes_(kSplitBelow * kBeginnings) {
    for (size_t lane = 0; lane < lanes_.size(); ++lane) lanes_[lane].count = lane / kBeginnings;
    reserve(slots / block_slots_ + slots / block_slots_ / 8 + 2 * lanes_.size());  // what is not used costs nothing
  }
  // Adds slots of a word to a lane.
  void add(uint32_t number, const S* word, size_t slots) {
    while (slots != 0) {
      Lane& lane = lanes_[number];
      if (lane.at == lane.end) begin_block(lane, number);
      const auto part = std::min<size_t>(slots, lane.end - lane.at);
      std::copy_n(word, part, symbols_.data() + lane.at);
      lane.at += part;
      word += part;
      slots -= part;
    }
  }
  uint32_t lane_of(std::span<const uint8_t> pre_token, uint64_t count) {
    if (count < kSplitBelow)
      return static_cast<uint32_t>(count * kBeginnings) + (pre_token[0] == ' ' ? pre_token[1] : pre_token[0]);
    auto& lane = count < kDirectCounts ? direct_[count] : high_[count];
    if (lane == 0) {
      lane = static_cast<uint32_t>(lanes_.size());
      lanes_.push_back({count});
    }
    return lane;
  }
  Shard<S> finish() {
    for (const Lane& lane : lanes_) std::fill(symbols_.data() + lane.at, symbols_.data() + lane.end, kEnd);
    std::fill_n(symbols_.data(), Slots<S>::kFirst, kEnd);
    const auto end = begin_of(blocks_.size());
    if (end > kMaxShardSlots) throw std::length_error("a shard of the pre-tokens passes 2^32 slots");
    symbols_.shrink(end + kSpare);
    Shard<S> shard;
    shard.size = static_cast<Position>(end);
    order(shard.runs);
    shard.runs.push_back({shard.size, 0});
    shard.symbols = std::move(symbols_);
    return shard;
  }

 private:
  struct Lane {
    uint64_t count = 0, at = 0, end = 0;
  };
  static constexpr S kEnd = Slots<S>::kEnd;
  static constexpr uint64_t kSpare = 8;  // slots that may be read after the last
  uint64_t begin_of(uint64_t block) const { return Slots<S>::kFirst + block * block_slots_; }
  void begin_block(Lane& lane, uint32_t number) {
    if (blocks_.size() == capacity_) reserve(2 * capacity_);
    lane.at = begin_of(blocks_.size());
    lane.end = lane.at + block_slots_;
    blocks_.push_back(number);
  }
  void reserve(uint64_t blocks) {
    capacity_ = blocks;
    Array<S> larger(begin_of(blocks) + kSpare);
    const auto end = begin_of(blocks_.size());
    for (uint64_t copied = Slots<S>::kFirst, next; copied < end; copied = next) {
      next = std::min<uint64_t>(end, copied + kSlotsPerRelease);
      std::copy(symbols_.data() + copied, symbols_.data() + next, larger.data() + copied);
      symbols_.release_front(next);
    }
    symbols_ = std::move(larger);
  }
  // Moves the blocks of the highest count to the front, and so on.
  void order(std::vector<Run>& runs) {
    std::vector<uint32_t> lanes(lanes_.size()), next(lanes_.size() + 1, 0), destinations(blocks_.size());
    std::iota(lanes.begin(), lanes.end(), 0u);
    std::stable_sort(lanes.begin(), lanes.end(),
                     [&](auto one, auto other) { return lanes_[one].count > lanes_[other].count; });
    for (const auto lane : blocks_) ++next[lane];
    uint32_t begin = 0;
    for (const auto lane : lanes) {
      if (next[lane] != 0 && (runs.empty() || runs.back().weight != lanes_[lane].count))
        runs.push_back({static_cast<Position>(begin_of(begin)), lanes_[lane].count});
      begin += std::exchange(next[lane], begin);
    }
    for (size_t block = 0; block < blocks_.size(); ++block) destinations[block] = next[blocks_[block]]++;
    std::array<S, kBlock> held;
    std::vector<bool> placed(blocks_.size(), false);
    for (size_t block = 0; block < blocks_.size(); ++block) {
      if (placed[block]) continue;
      std::copy_n(symbols_.data() + begin_of(block), block_slots_, held.data());
      for (auto to = destinations[block]; !placed[to]; to = destinations[to]) {
        std::swap_ranges(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(block_slots_),
                         symbols_.data() + begin_of(to));
        placed[to] = true;
      }
    }
  }

  const uint64_t block_slots_;
  Array<S> symbols_;
  uint64_t capacity_ = 0;         // blocks
  std::vector<uint32_t> blocks_;  // the lane of each
  std::vector<Lane> lanes_;
  std::vector<uint32_t> direct_ = std::vector<uint32_t>(kDirectCounts, 0);
  std::unordered_map<uint64_t, uint32_t> high_;
};

constexpr auto kIdOfByte = [] {
  std::array<uint8_t, 256> ids{};
  for (unsigned id = 0; id < 256; ++id) ids[kByteOfId[id]] = static_cast<uint8_t>(id);
  return ids;
}();

// Makes a word of a pre-token of bytes, without its end, and adds its pairs; false if it cannot be one.
template <class S>
bool read_bytes(std::span<const uint8_t> pre_token, uint64_t count, std::vector<S>& word, uint64_t* pairs) {
  word.resize(pre_token.size());
  size_t left = kIdOfByte[pre_token[0]];
  bool text = true;
  for (size_t i = 0; i < pre_token.size(); ++i) {
    const size_t id = kIdOfByte[pre_token[i]];
    if (i != 0) pairs[256 * left + id] += count;
    left = id;
    if constexpr (sizeof(S) > 1) {
      word[i] = static_cast<S>(id);
    } else {
      word[i] = pre_token[i];
      text &= Slots<S>::is_text(pre_token[i]);
    }
  }
  return text;
}

// The same of a pre-token of numbers of tokens.
template <class S>
void read_numbers(std::span<const uint8_t> pre_token, size_t start_tokens, std::vector<S>& word) {
  word.clear();
  for (size_t i = 0; i < pre_token.size(); i += sizeof(uint32_t)) {
    uint32_t number;
    std::memcpy(&number, &pre_token[i], sizeof number);
    if (number >= start_tokens) throw std::invalid_argument("a pre-token names a token that does not exist");
    word.push_back(static_cast<S>(number < kBoundary ? number : number + 1));
  }
}

// Reads all columns once, and deals the pre-tokens worth keeping to shards: always to the same ones where the batches come in
// the same order, since the shortest shard so far takes a pre-token. A member of the team reads all, and makes words for its own
// shards: use(shard, pre-token, count, word). False where pre-tokens cannot be words.
template <class S, class Use>
bool read_pre_tokens(const PreTokenSource& source, const Taking& taking, size_t n_shards, Team& team, Pulse& pulse,
                     Corpus& corpus, MergeResult& result, Use&& use) {
  struct Reading {
    std::vector<uint64_t> slots, byte_pairs = std::vector<uint64_t>(256 * 256, 0);  // slots: of each shard so far
    std::vector<S> word;
    bool text = true;
  };
  const auto min_count = std::max<uint64_t>(taking.min_count, 1);
  const unsigned shift = taking.start_tokens == 0 ? 0 : 2;
  Accounts accounts(min_count, shift);
  std::vector<Reading> readings(team.members());
  for (auto& reading : readings) reading.slots.assign(n_shards, 1);
  std::vector<KnownMerges::Memory> memories;
  const bool any_known = !taking.known.empty();
  for (unsigned m = 0; any_known && m < team.members(); ++m) memories.emplace_back(taking.known);
  bool text = true;
  source([&](const ColumnsView& batch) {
    if (!text) return;
    accounts.add(batch, corpus, result, pulse);
    team.run([&](unsigned m) {
      auto& [slots, byte_pairs, word, member_text] = readings[m];
      size_t bytes_since_beat = 0;
      for (size_t i = 0; i < batch.rows; ++i) {
        const std::span pre_token(batch.pre_token(i), batch.pre_token_size(i));
        const auto count = batch.counts[i];
        if (i % kPreTokensPerBeat == 0 || (bytes_since_beat += pre_token.size()) > kBytesPerBeat) {
          bytes_since_beat = 0;
          pulse.beat(m);
        }
        if (pre_token.size() >> shift < 2 || count < min_count) continue;
        const auto s = static_cast<size_t>(std::min_element(slots.begin(), slots.end()) - slots.begin());
        slots[s] += (pre_token.size() >> shift) + 1;
        if (s % team.members() != m) continue;
        if (shift != 0)
          read_numbers(pre_token, taking.start_tokens, word);
        else if (!read_bytes(pre_token, count, word, byte_pairs.data()))
          member_text = false;
        if constexpr (sizeof(S) > 1)
          if (any_known) taking.known.apply(pre_token, count, memories[m], word);
        if (word.size() > 1) use(s, pre_token, count, word);
      }
    });
    for (const auto& reading : readings) text &= reading.text;
  });
  if (!text) return false;
  corpus.byte_pairs.assign(256 * 256, 0);
  for (const auto& reading : readings) add_to(corpus.byte_pairs, reading.byte_pairs);
  if (any_known) result.joined = taking.known.joined(memories);
  return true;
}

// Lanes by which words that go to disk are kept together, so that few runs have few words: one for each low count, with
// words that start alike together where they are many; one for each doubling above.
constexpr unsigned kExactLanes = 32, kBeginningLanes = 16, kSplitCounts = 3;
constexpr size_t kLanes = kExactLanes + 64 + kSplitCounts * kBeginningLanes;
size_t storing_lane(std::span<const uint8_t> pre_token, uint64_t count) {
  if (count <= kSplitCounts)
    return kExactLanes + 64 + (count - 1) * kBeginningLanes + (pre_token[0] == ' ' ? pre_token[1] : pre_token[0]) / 16u;
  return count < kExactLanes ? count : kExactLanes + static_cast<unsigned>(std::bit_width(count)) - 1;
}

}  // namespace

template <class S>
std::vector<Shard<S>> take_words(const PreTokenSource& source, const Taking& taking, Team& team, Pulse& pulse,
                                 Corpus& corpus, MergeResult& result) {
  const auto n_shards = std::max<size_t>(team.members(), static_cast<size_t>(taking.slots / kShardSlots) + 1);
  std::vector<std::optional<Filling<S>>> fillings(n_shards);
  for (auto& filling : fillings) filling.emplace(taking.slots / n_shards);
  const auto fill = [&](size_t s, std::span<const uint8_t> pre_token, uint64_t count, std::vector<S>& word) {
    word.push_back(Slots<S>::kEnd);
    fillings[s]->add(fillings[s]->lane_of(pre_token, count), word.data(), word.size());
  };
  if (!read_pre_tokens<S>(source, taking, n_shards, team, pulse, corpus, result, fill)) return {};
  std::vector<Shard<S>> shards(n_shards);
  team.each(n_shards, [&](size_t s, unsigned) {
    shards[s] = fillings[s]->finish();
    fillings[s].reset();
  });
  return shards;
}

template std::vector<Shard<uint8_t>> take_words(const PreTokenSource&, const Taking&, Team&, Pulse&, Corpus&,
                                                MergeResult&);
template std::vector<Shard<uint16_t>> take_words(const PreTokenSource&, const Taking&, Team&, Pulse&, Corpus&,
                                                 MergeResult&);
template std::vector<Shard<uint32_t>> take_words(const PreTokenSource&, const Taking&, Team&, Pulse&, Corpus&,
                                                 MergeResult&);

template <class S>
void store_words(const PreTokenSource& source, const Taking& taking, std::vector<StoredWords>& stored, Team& team,
                 Pulse& pulse, Corpus& corpus, MergeResult& result) {
  std::vector<std::vector<WordBlock<S>>> lanes(stored.size(), std::vector<WordBlock<S>>(kLanes));
  const auto store = [&](size_t s, std::span<const uint8_t> pre_token, uint64_t count, const std::vector<S>& word) {
    auto& block = lanes[s][storing_lane(pre_token, count)];
    block.add(word.data(), word.size(), count);
    if (block.symbols.size() >= kBlockSymbols / 2) stored[s].append(block);
  };
  read_pre_tokens<S>(source, taking, stored.size(), team, pulse, corpus, result, store);
  for (size_t s = 0; s < stored.size(); ++s)
    for (auto& block : lanes[s]) stored[s].append(block);
}

template void store_words<uint16_t>(const PreTokenSource&, const Taking&, std::vector<StoredWords>&, Team&, Pulse&,
                                    Corpus&, MergeResult&);
template void store_words<uint32_t>(const PreTokenSource&, const Taking&, std::vector<StoredWords>&, Team&, Pulse&,
                                    Corpus&, MergeResult&);

template <class From, class To>
std::vector<Shard<To>> widen(std::vector<Shard<From>> narrow, Team& team) {
  std::vector<Shard<To>> wide(narrow.size());
  team.each(narrow.size(), [&](size_t s, unsigned) {
    auto& [from, size, runs] = narrow[s];
    From* const symbols = from.data();
    Array<To> to(size);
    to.data()[0] = Slots<To>::kEnd;
    Position in = Slots<From>::kFirst, out = Slots<To>::kFirst;
    typename Slots<From>::Block block;
    for (auto& run : runs) {
      for (Position end; in < run.begin; in = end) {
        end = run.begin - in > kBlock ? Slots<From>::whole(symbols, in + kBlock) : run.begin;
        block.read(symbols, in, end, in, true);
        block.each([&](Symbol symbol) { to.data()[out++] = static_cast<To>(symbol); });
        from.release_front(in - 1);
      }
      run.begin = out;
    }
    wide[s] = {std::move(to), out, std::move(runs)};
    from = {};
  });
  return wide;
}

template std::vector<Shard<uint16_t>> widen(std::vector<Shard<uint8_t>>, Team&);
template std::vector<Shard<uint32_t>> widen(std::vector<Shard<uint16_t>>, Team&);

}  // namespace bpe::merge
