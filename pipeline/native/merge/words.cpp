#include "merge/words.hpp"

#include "merge/known_merges.hpp"
#include "merge/stored_words.hpp"

namespace bpe::merge {
namespace {

constexpr uint64_t kDirectCounts = uint64_t{1} << 16;
constexpr uint64_t kMaxMass = (uint64_t{1} << 63) - 1;
constexpr uint64_t kMaxShardSlots = 0xFFFFFF00;
constexpr uint64_t kSplitRun = uint64_t{1} << 15;  // slots from which a run is ordered by how words start
constexpr size_t kBeginnings = 256;
constexpr Position kSlotsPerRelease = Position{1} << 22;
constexpr size_t kPiecesPerBeat = size_t{1} << 14;
constexpr size_t kBytesPerBeat = size_t{1} << 22;

// The first pass over all pieces: how many there are, and the lanes that words are written to, from the highest count:
// one a count, or one a first byte where a count has many words.
class Census {
 public:
  Census(uint64_t min_count, unsigned shift) : min_count_(min_count), shift_(shift), direct_(kDirectCounts, 0) {}
  void add(const ColumnsView& batch, Corpus& corpus, MergeResult& result, Pulse& pulse) {
    for (size_t i = 0; i < batch.rows; ++i) {
      if (i % kPiecesPerBeat == 0) pulse.beat(0);
      const auto count = batch.counts[i];
      const uint64_t bytes = batch.piece_size(i) >> shift_;
      if (bytes << shift_ != batch.piece_size(i)) throw std::invalid_argument("a piece that is no row of numbers");
      if (count > (kMaxMass - seen_) / (bytes + 1))
        throw std::overflow_error("the counts add up to a corpus of 2^63 bytes or more");
      seen_ += count * (bytes + 1);
      if (count < min_count_) {
        result.left_out_pieces += count != 0 && bytes != 0;
        result.left_out_bytes += count * bytes;
        continue;
      }
      corpus.mass += count * (bytes + 1);
      result.bytes += count * bytes;
      if (count == 0 || bytes < 2) continue;
      corpus.slots += bytes + 1;
      (count < kDirectCounts ? direct_[count] : high_[count]) += bytes + 1;
    }
  }
  // Call when all batches were added.
  void number_lanes() {
    std::vector<uint64_t> high_counts;
    for (const auto& [count, unused] : high_) high_counts.push_back(count);
    std::sort(high_counts.begin(), high_counts.end(), std::greater<>());
    for (const auto count : high_counts) number(count, high_[count]);
    for (uint64_t count = kDirectCounts; count-- > 1;)
      if (direct_[count] != 0) number(count, direct_[count]);
  }
  size_t lanes() const { return counts_.size(); }
  uint64_t count(size_t lane) const { return counts_[lane]; }
  // The lane of a piece of at least two tokens.
  size_t lane_of(std::span<const uint8_t> piece, uint64_t count) const {
    const auto lane = count < kDirectCounts ? direct_[count] : high_.find(count)->second;
    const auto beginning = piece[0] == ' ' ? piece[1] : piece[0];
    return static_cast<size_t>((lane & kSplit) != 0 ? (lane ^ kSplit) + beginning : lane);
  }

 private:
  static constexpr uint64_t kSplit = uint64_t{1} << 63;
  // Turns a count's slots into its first lane.
  void number(uint64_t count, uint64_t& entry) {
    const bool split = entry >= kSplitRun;
    entry = counts_.size() | (split ? kSplit : 0);
    counts_.insert(counts_.end(), split ? kBeginnings : 1, count);
  }
  const uint64_t min_count_;
  const unsigned shift_;
  uint64_t seen_ = 0;  // mass, with what is left out
  std::vector<uint64_t> direct_;
  std::unordered_map<uint64_t, uint64_t> high_;
  std::vector<uint64_t> counts_;  // by lane
};

// Calls visit(piece, count, shard) for every piece worth keeping, always to the same shards where the batches come in
// the same order: the shortest shard so far takes it. `slots`: of each shard so far. `shift`: a token is 1 << shift bytes.
template <class Visit>
void deal(const ColumnsView& batch, uint64_t min_count, unsigned shift, std::vector<uint64_t>& slots, unsigned member,
          Pulse& pulse, Visit&& visit) {
  size_t bytes_since_beat = 0;
  for (size_t i = 0; i < batch.rows; ++i) {
    const size_t bytes = batch.piece_size(i), tokens = bytes >> shift;
    if (i % kPiecesPerBeat == 0 || (bytes_since_beat += bytes) > kBytesPerBeat) {
      bytes_since_beat = 0;
      pulse.beat(member);
    }
    if (tokens < 2 || batch.counts[i] < min_count) continue;
    size_t shard = 0;
    for (size_t s = 1; s < slots.size(); ++s)
      if (slots[s] < slots[shard]) shard = s;
    slots[shard] += tokens + 1;
    visit(std::span(batch.piece(i), bytes), batch.counts[i], shard);
  }
}

// Allocates one shard's words; next[r] becomes where the first word of lane r goes.
template <class S>
void lay_out(Shard<S>& shard, const Census& census, std::vector<uint64_t>& next) {
  uint64_t end = 1;
  for (size_t r = 0; r < next.size(); ++r) {
    const auto slots = next[r];
    next[r] = end;
    if (slots != 0 && (shard.runs.empty() || shard.runs.back().weight != census.count(r)))
      shard.runs.push_back({static_cast<Position>(end), census.count(r)});
    end += slots;
  }
  if (end > kMaxShardSlots) throw std::length_error("a shard of the pieces passes 2^32 slots");
  shard.size = static_cast<Position>(end);
  shard.runs.push_back({shard.size, 0});
  shard.symbols = Array<S>(shard.size);
  shard.symbols.data()[0] = static_cast<S>(kBoundary);
}

}  // namespace

template <class S>
std::vector<Shard<S>> take_words(const PieceSource& source, uint64_t min_count, uint64_t shard_slots,
                                 size_t start_tokens, Team& team, Pulse& pulse, Corpus& corpus, MergeResult& result) {
  min_count = std::max<uint64_t>(min_count, 1);
  const unsigned shift = start_tokens == 0 ? 0 : 2;
  Census census(min_count, shift);
  source([&](const ColumnsView& batch) { census.add(batch, corpus, result, pulse); });
  census.number_lanes();
  corpus.byte_pairs.assign(256 * 256, 0);
  const auto n_shards = std::max<size_t>(team.members(), static_cast<size_t>(corpus.slots / shard_slots) + 1);
  std::array<S, 256> symbol_of{};
  for (unsigned id = 0; id < 256; ++id) symbol_of[byte_of_id(id)] = static_cast<S>(id);
  const auto numbered = [start_tokens](const uint8_t* at) {
    uint32_t number;
    std::memcpy(&number, at, sizeof number);
    if (number >= start_tokens) throw std::invalid_argument("a piece names a token that does not exist");
    return static_cast<S>(number < kBoundary ? number : number + 1);
  };

  std::vector<Shard<S>> shards(n_shards);
  // A member reads all columns, and takes what is dealt to its own shards.
  std::vector<std::vector<uint64_t>> dealt(team.members(), std::vector<uint64_t>(n_shards, 1));
  // By shard and lane: first how many slots, then where the next word goes.
  std::vector<std::vector<uint64_t>> next(n_shards);
  std::vector<std::vector<uint64_t>> byte_pairs(team.members());
  team.each(n_shards, [&](size_t s, unsigned) { next[s].assign(census.lanes(), 0); });
  source([&](const ColumnsView& batch) {
    team.run([&](unsigned member) {
      deal(batch, min_count, shift, dealt[member], member, pulse,
           [&](std::span<const uint8_t> piece, uint64_t count, size_t s) {
             if (s % team.members() == member) next[s][census.lane_of(piece, count)] += (piece.size() >> shift) + 1;
           });
    });
  });
  team.each(n_shards, [&](size_t s, unsigned) { lay_out(shards[s], census, next[s]); });
  team.run([&](unsigned member) {
    byte_pairs[member].assign(256 * 256, 0);
    dealt[member].assign(n_shards, 1);
  });
  source([&](const ColumnsView& batch) {
    team.run([&](unsigned member) {
      uint64_t* const pairs = byte_pairs[member].data();
      deal(batch, min_count, shift, dealt[member], member, pulse,
           [&](std::span<const uint8_t> piece, uint64_t count, size_t s) {
             if (s % team.members() != member) return;
             auto& at = next[s][census.lane_of(piece, count)];
             S* const out = shards[s].symbols.data() + at;
             const size_t tokens = piece.size() >> shift;
             out[tokens] = static_cast<S>(kBoundary);
             at += tokens + 1;
             if (shift != 0) {
               for (size_t i = 0; i < tokens; ++i) out[i] = numbered(&piece[4 * i]);
               return;
             }
             S left = out[0] = symbol_of[piece[0]];
             for (size_t i = 1; i < piece.size(); ++i) {
               const S right = out[i] = symbol_of[piece[i]];
               pairs[256 * size_t{left} + right] += count;
               left = right;
             }
           });
    });
  });
  for (const auto& pairs : byte_pairs) add_to(corpus.byte_pairs, pairs);
  return shards;
}

template std::vector<Shard<uint16_t>> take_words(const PieceSource&, uint64_t, uint64_t, size_t, Team&, Pulse&,
                                                 Corpus&, MergeResult&);
template std::vector<Shard<uint32_t>> take_words(const PieceSource&, uint64_t, uint64_t, size_t, Team&, Pulse&,
                                                 Corpus&, MergeResult&);

namespace {

// Lanes by which words that go to disk are kept together, so that few runs have few words: one for each low count, with
// words that start alike together where they are many; one for each doubling above.
constexpr unsigned kExactLanes = 32, kBeginningLanes = 16, kSplitCounts = 3;
constexpr size_t kLanes = kExactLanes + 64 + kSplitCounts * kBeginningLanes;
size_t storing_lane(std::span<const uint8_t> piece, uint64_t count) {
  if (count <= kSplitCounts)
    return kExactLanes + 64 + (count - 1) * kBeginningLanes + (piece[0] == ' ' ? piece[1] : piece[0]) / 16u;
  return count < kExactLanes ? count : kExactLanes + static_cast<unsigned>(std::bit_width(count)) - 1;
}

}  // namespace

template <class S>
void store_words(const PieceSource& source, uint64_t min_count, const KnownMerges& known, std::vector<StoredWords>& stored,
                 Team& team, Pulse& pulse, Corpus& corpus, MergeResult& result) {
  min_count = std::max<uint64_t>(min_count, 1);
  Census census(min_count, 0);
  std::array<S, 256> symbol_of{};
  for (unsigned id = 0; id < 256; ++id) symbol_of[byte_of_id(id)] = static_cast<S>(id);
  struct Member {
    std::vector<uint64_t> dealt, byte_pairs = std::vector<uint64_t>(256 * 256, 0);
    std::vector<S> word;
  };
  std::vector<Member> members(team.members());
  std::vector<KnownMerges::Memory> memories(team.members(), KnownMerges::Memory(known));
  for (auto& member : members) member.dealt.assign(stored.size(), 1);
  std::vector<std::vector<WordBlock<S>>> lanes(stored.size(), std::vector<WordBlock<S>>(kLanes));
  source([&](const ColumnsView& batch) {
    census.add(batch, corpus, result, pulse);
    team.run([&](unsigned m) {
      auto& [dealt, byte_pairs, word] = members[m];
      deal(batch, min_count, 0, dealt, m, pulse, [&](std::span<const uint8_t> piece, uint64_t count, size_t s) {
        if (s % team.members() != m) return;
        word.resize(piece.size());
        for (size_t i = 0; i < piece.size(); ++i) word[i] = symbol_of[piece[i]];
        for (size_t i = 1; i < piece.size(); ++i) byte_pairs[256 * size_t{word[i - 1]} + word[i]] += count;
        const auto size = known.apply(word.data(), word.size(), count, memories[m]);
        if (size < 2) return;
        auto& block = lanes[s][storing_lane(piece, count)];
        block.add(word.data(), size, count);
        if (block.symbols.size() >= kBlockSymbols / 2) stored[s].append(block);
      });
    });
  });
  for (size_t s = 0; s < stored.size(); ++s)
    for (auto& block : lanes[s]) stored[s].append(block);
  corpus.byte_pairs.assign(256 * 256, 0);
  for (const auto& member : members) add_to(corpus.byte_pairs, member.byte_pairs);
  result.joined = known.joined(memories);
}

template void store_words<uint16_t>(const PieceSource&, uint64_t, const KnownMerges&, std::vector<StoredWords>&, Team&,
                                    Pulse&, Corpus&, MergeResult&);
template void store_words<uint32_t>(const PieceSource&, uint64_t, const KnownMerges&, std::vector<StoredWords>&, Team&,
                                    Pulse&, Corpus&, MergeResult&);

std::vector<Shard<uint32_t>> widen(std::vector<Shard<uint16_t>> narrow, Team& team) {
  std::vector<Shard<uint32_t>> wide(narrow.size());
  team.each(narrow.size(), [&](size_t s, unsigned) {
    auto& [from, size, runs] = narrow[s];
    Array<uint32_t> to(size);
    to.data()[0] = kBoundary;
    Position in = 1, out = 1;
    for (auto& run : runs) {
      for (; in < run.begin; ++in) {
        if (in % kSlotsPerRelease == 0) from.release_front(in);
        to.data()[out] = from.data()[in];
        out += from.data()[in] < kTail<uint16_t>;
      }
      run.begin = out;
    }
    wide[s] = {std::move(to), out, std::move(runs)};
    from = {};
  });
  return wide;
}

}  // namespace bpe::merge
