#include "merge_words.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <stdexcept>
#include <string>
#include <unordered_map>

namespace bpe::merge {
namespace {

constexpr std::uint64_t kDirectCounts = std::uint64_t{1} << 16;
constexpr std::int64_t kMaxPieceBytes = std::int64_t{1} << 30;
constexpr std::size_t kPiecesPerBeat = std::size_t{1} << 14;
constexpr std::size_t kBytesPerBeat = std::size_t{1} << 22;

// Numbers the different counts of the corpus, highest first: the runs.
class CountClasses {
 public:
  explicit CountClasses(std::span<const PieceBatch> batches, Pulse& pulse) : direct_(kDirectCounts, 0) {
    for (const auto& batch : batches)
      for (std::size_t i = 0; i < batch.counts.size(); ++i) {
        if (i % kPiecesPerBeat == 0) pulse.beat(0);
        if (batch.counts[i] < kDirectCounts)
          direct_[batch.counts[i]] = 1;
        else
          high_[batch.counts[i]] = 0;
      }
    for (const auto& [count, unused] : high_) counts_.push_back(count);
    std::sort(counts_.begin(), counts_.end(), std::greater<>());
    for (std::uint32_t i = 0; i < counts_.size(); ++i) high_[counts_[i]] = i;
    for (std::uint64_t count = kDirectCounts; count-- > 1;)
      if (direct_[count] != 0) {
        direct_[count] = static_cast<std::uint32_t>(counts_.size());
        counts_.push_back(count);
      }
  }
  std::size_t size() const { return counts_.size(); }
  std::uint64_t count(std::size_t number) const { return counts_[number]; }
  std::uint32_t number(std::uint64_t count) const {
    return count < kDirectCounts ? direct_[count] : high_.find(count)->second;
  }

 private:
  std::vector<std::uint32_t> direct_;
  std::unordered_map<std::uint64_t, std::uint32_t> high_;
  std::vector<std::uint64_t> counts_;
};

// Calls visit(piece, count, shard) for every piece worth keeping, always in the same order and to the same
// shards: the shortest shard so far takes it.
template <class Visit>
void deal(std::span<const PieceBatch> batches, std::size_t n_shards, unsigned member, Pulse& pulse,
          Visit&& visit) {
  std::vector<std::uint64_t> slots(n_shards, 1);
  std::size_t bytes_since_beat = 0;
  for (const auto& batch : batches)
    for (std::size_t i = 0; i < batch.counts.size(); ++i) {
      const auto begin = batch.offsets[i];
      const auto bytes = static_cast<std::size_t>(batch.offsets[i + 1] - begin);
      if (i % kPiecesPerBeat == 0 || (bytes_since_beat += bytes) > kBytesPerBeat) {
        bytes_since_beat = 0;
        pulse.beat(member);
      }
      if (bytes < 2 || batch.counts[i] == 0) continue;
      std::size_t shard = 0;
      for (std::size_t s = 1; s < n_shards; ++s)
        if (slots[s] < slots[shard]) shard = s;
      slots[shard] += bytes + 1;
      visit(batch.data.subspan(static_cast<std::size_t>(begin), bytes), batch.counts[i], shard);
    }
}

Corpus measure(std::span<const PieceBatch> batches, Pulse& pulse) {
  Corpus corpus;
  deal(batches, 1, 0, pulse, [&](std::span<const std::uint8_t> piece, std::uint64_t count, std::size_t) {
    const std::uint64_t slots = piece.size() + 1;
    if (count > ((std::uint64_t{1} << 63) - 1 - corpus.mass) / slots)
      throw std::overflow_error("the counts add up to a corpus of 2^63 bytes or more");
    corpus.mass += count * slots;
    corpus.slots += slots;
  });
  return corpus;
}

}  // namespace

void check_batch(const PieceBatch& batch) {
  const auto& [offsets, data, counts, owner] = batch;
  if (offsets.size() != counts.size() + 1)
    throw std::invalid_argument("offsets must hold one number more than counts: " +
                                std::to_string(offsets.size()) + " and " + std::to_string(counts.size()));
  if (offsets.front() < 0) throw std::invalid_argument("the first offset is negative");
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (offsets[i + 1] < offsets[i])
      throw std::invalid_argument("offsets decrease at piece " + std::to_string(i));
    if (offsets[i + 1] - offsets[i] > kMaxPieceBytes)
      throw std::invalid_argument("piece " + std::to_string(i) + " is longer than 1 GiB");
  }
  if (static_cast<std::uint64_t>(offsets.back()) > data.size())
    throw std::invalid_argument("the last offset lies beyond the data");
}

template <class S>
std::vector<Shard<S>> take_words(std::span<const PieceBatch> batches, std::uint64_t shard_slots, Team& team,
                                 Pulse& pulse, Corpus& corpus) {
  const CountClasses classes(batches, pulse);
  corpus = measure(batches, pulse);
  const auto n_shards =
      std::max<std::size_t>(team.members(), static_cast<std::size_t>(corpus.slots / shard_slots) + 1);

  // Where the next word of each run goes, by shard.
  std::vector<std::vector<std::uint64_t>> next(n_shards, std::vector<std::uint64_t>(classes.size(), 0));
  deal(batches, n_shards, 0, pulse,
       [&](std::span<const std::uint8_t> piece, std::uint64_t count, std::size_t shard) {
         next[shard][classes.number(count)] += piece.size() + 1;
       });
  std::vector<Shard<S>> shards(n_shards);
  for (std::size_t s = 0; s < n_shards; ++s) {
    std::uint64_t end = 1;
    for (std::size_t c = 0; c < classes.size(); ++c) {
      const auto slots = next[s][c];
      next[s][c] = end;
      if (slots != 0) shards[s].runs.push_back({static_cast<Position>(end), classes.count(c)});
      end += slots;
    }
    if (end > std::uint64_t{0xFFFFFF00})
      throw std::invalid_argument("a shard of pieces passes 2^32 bytes: use more threads");
    shards[s].size = static_cast<Position>(end);
    shards[s].runs.push_back({shards[s].size, 0});
  }

  std::array<S, 256> symbol_of{};
  for (unsigned id = 0; id < 256; ++id) symbol_of[byte_of_id(id)] = static_cast<S>(id);
  team.run([&](unsigned member) {
    for (std::size_t s = member; s < n_shards; s += team.members()) {
      shards[s].symbols.resize(shards[s].size);
      shards[s].symbols.data()[0] = static_cast<S>(kBoundary);
    }
    deal(batches, n_shards, member, pulse,
         [&](std::span<const std::uint8_t> piece, std::uint64_t count, std::size_t s) {
           if (s % team.members() != member) return;
           auto& at = next[s][classes.number(count)];
           S* out = shards[s].symbols.data() + at;
           for (std::size_t i = 0; i < piece.size(); ++i) out[i] = symbol_of[piece[i]];
           out[piece.size()] = static_cast<S>(kBoundary);
           at += piece.size() + 1;
         });
  });
  return shards;
}

template std::vector<Shard<std::uint16_t>> take_words(std::span<const PieceBatch>, std::uint64_t, Team&,
                                                      Pulse&, Corpus&);
template std::vector<Shard<std::uint32_t>> take_words(std::span<const PieceBatch>, std::uint64_t, Team&,
                                                      Pulse&, Corpus&);

std::vector<Shard<std::uint32_t>> widen(std::vector<Shard<std::uint16_t>> narrow, Team& team) {
  std::vector<Shard<std::uint32_t>> wide(narrow.size());
  team.each(narrow.size(), [&](std::size_t s, unsigned) {
    wide[s].size = narrow[s].size;
    wide[s].runs = std::move(narrow[s].runs);
    wide[s].symbols.resize(wide[s].size);
    std::copy_n(narrow[s].symbols.data(), narrow[s].size, wide[s].symbols.data());
    narrow[s].symbols = {};
  });
  return wide;
}

}  // namespace bpe::merge
