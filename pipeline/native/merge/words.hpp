// The words that are merged: all pieces, as symbols, in shards.
//
// Idea: a shard is one array of symbols: a boundary, then word after word, each closed by a boundary. Words are in runs
// of equal count, highest first, so that a position's weight follows from its run and no word carries one. Within a
// long run words that start alike are neighbours: a pair then occurs, mostly, in one stretch of the array, and the walk
// over it finds its lists in the cache. Words go to the shard that is shortest so far; shards share nothing, so each
// may be worked on by a thread of its own. Pieces of one byte are left out: no merge can change them.
//
// Invariant: tokens are spans: a token of several slots has its symbol in the first, the symbol with the tail bit in
// the last, and holes between, which have the tail bit too. Its length in slots is a property of the symbol (`span`),
// the same everywhere, since a token is always made of the same two. So both neighbours of a token are found without
// links: the right one starts where the span ends, the left one ends in the slot before. Compaction keeps the slots
// without tail bit: every span is one slot again.
//
// Cost: 2 bytes a slot while symbols fit 15 bits, 4 after. Positions are 32 bits: a shard holds fewer than 2^32 slots,
// and a corpus that needs more has more shards than threads.
#pragma once
#include "merge/merge.hpp"
#include "count/pages.hpp"
#include "merge/team.hpp"
#include "merge/tokens.hpp"

namespace bpe::merge {

using Position = uint32_t;

// Adds numbers to others of the same length.
inline void add_to(std::vector<uint64_t>& sums, const std::vector<uint64_t>& more) {
  std::transform(sums.begin(), sums.end(), more.begin(), sums.begin(), std::plus<>());
}

template <class S>
inline constexpr S kTail = S{1} << (8 * sizeof(S) - 1);
template <class S>
inline constexpr S kHole = std::numeric_limits<S>::max();
// The first symbol that S cannot hold.
template <class S>
inline constexpr Symbol kEndSymbol = kTail<S> - (sizeof(S) > 2);

struct Run {
  Position begin;  // of its first word
  uint64_t weight;
};

template <class S>
struct Shard {
  Array<S> symbols;
  Position size = 0;
  std::vector<Run> runs;  // ends with a guard that starts at `size`
};

class KnownMerges;
class StoredWords;

struct Corpus {
  uint64_t slots = 0;
  uint64_t mass = 0;                  // slots weighted with counts: no sum of pair counts exceeds it
  std::vector<uint64_t> byte_pairs;  // count of the pair (left, right) at 256 * left + right
};

// Deals the pieces to shards: one a member of the team, or as many as `shard_slots` asks for. Pieces counted less often
// than `min_count` are left out. All columns are read three times, one after the other. Bytes and what is left out are
// noted in `result`. `start_tokens`: 0 where pieces are bytes; else they are 32-bit numbers below it, and byte_pairs
// stay 0.
template <class S>
std::vector<Shard<S>> take_words(const PieceSource& source, uint64_t min_count, uint64_t shard_slots,
                                 size_t start_tokens, Team& team, Pulse& pulse, Corpus& corpus, MergeResult& result);

// The same pieces as words that go to disk, one StoredWords a shard, with the merges that are known made in them. All
// columns are read once.
template <class S>
void store_words(const PieceSource& source, uint64_t min_count, const KnownMerges& known, std::vector<StoredWords>& stored,
                 Team& team, Pulse& pulse, Corpus& corpus, MergeResult& result);

// The same words, compacted, in wide symbols.
std::vector<Shard<uint32_t>> widen(std::vector<Shard<uint16_t>> narrow, Team& team);

}  // namespace bpe::merge
