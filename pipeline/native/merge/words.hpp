// The words that are merged: all pre-tokens, as symbols, in shards.
//
// Idea: a shard is one array of slots: a boundary, then word after word, each closed by a boundary. Words are in runs
// of equal count, highest first, so that a position's weight follows from its run and no word carries one. Among words
// of a low count those that start alike are neighbours: a pair then occurs, mostly, in one stretch of the array, and the
// walk over it finds its lists in the cache. Words go to the shard that is shortest so far; shards share nothing, so each
// may be worked on by a thread of its own. Pre-tokens of one byte are left out: no merge can change them.
//
// Cost: 1 byte a slot for text and the first merges, 2 while symbols fit 15 bits, 4 after; slots.hpp says how tokens lie
// in them. Positions are 32 bits: a shard holds fewer than 2^32 slots, and a corpus that needs more has more shards than
// threads.
#pragma once
#include <variant>

#include "merge/merge.hpp"
#include "count/pages.hpp"
#include "merge/slots.hpp"
#include "merge/team.hpp"

namespace bpe::merge {

// Adds numbers to others of the same length.
inline void add_to(std::vector<uint64_t>& sums, const std::vector<uint64_t>& more) {
  std::transform(sums.begin(), sums.end(), more.begin(), sums.begin(), std::plus<>());
}

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
  uint64_t mass = 0;                 // slots weighted with counts: no sum of pair counts exceeds it
  std::vector<uint64_t> byte_pairs;  // count of the pair (left, right) at 256 * left + right
};

// Which pre-tokens become words, and how.
struct Taking {
  uint64_t min_count;        // those counted less often are left out
  uint64_t slots;            // of all words, about; 0 if unknown
  const KnownMerges& known;  // merges that are made at once
  size_t start_tokens = 0;   // pre-tokens are rows of 32-bit numbers below that; 0: of bytes
};

// Deals the pre-tokens to shards. All columns are read once. Bytes, what is left out, and how often known merges join are
// noted in `result`. No shards where S is one byte and pre-tokens are not text:
// then read again, with a wider S.
template <class S>
std::vector<Shard<S>> take_words(const PreTokenSource& source, const Taking& taking, Team& team, Pulse& pulse,
                                 Corpus& corpus, MergeResult& result);

// The same pre-tokens as words that go to disk, one StoredWords a shard, with the merges that are known made in them. All
// columns are read once.
template <class S>
void store_words(const PreTokenSource& source, const Taking& taking, std::vector<StoredWords>& stored, Team& team,
                 Pulse& pulse, Corpus& corpus, MergeResult& result);

// The same words, compacted, in wider slots.
template <class From, class To>
std::vector<Shard<To>> widen(std::vector<Shard<From>> narrow, Team& team);
template <class S>
using Wider = std::conditional_t<sizeof(S) == 1, uint16_t, uint32_t>;
// In the next width, where there is one.
template <class... S>
void widen(std::variant<std::vector<Shard<S>>...>& words, Team& team) {
  words = std::visit(
      [&team]<class From>(std::vector<Shard<From>>& narrow) -> std::variant<std::vector<Shard<S>>...> {
        if constexpr (sizeof(From) > 2)
          return std::move(narrow);
        else
          return widen<From, Wider<From>>(std::move(narrow), team);
      },
      words);
}

}  // namespace bpe::merge
