// MergeReplay: checks a merge list the plain way, sharing no code with the merge engine: a second opinion.
//
// Idea: every piece with its count is a row of token ids, cut into blocks of a few hundred. A map holds each pair's
// count and the blocks in which its left token may occur, an ordered set the pairs by count and tie-break. One merge
// after the other is compared with the set's first pair, then carried out from left to right: each block of the pair is
// rewritten, and each join removes the pairs next to it and adds two new ones. A right token may be the first of the
// next block, from which it is then taken.
// Invariant: the map holds exactly the pairs that occur somewhere, each with its count; the set those that may be
// merged. A pair's list of blocks holds, in order, all in which its left token occurs, perhaps more. Tokens do not move
// from block to block: one that was joined is where its left part was. A block may become empty.
// Cost: two operations on the set for each pair that a merge changes, and for each position of the pair its block read,
// so that a piece of millions of bytes costs no more than as many bytes of short ones. Memory is mostly tokens and
// lists of blocks: pipeline/merges forecasts it before it starts.
#pragma once
#include <set>

#include "text/base.hpp"

namespace bpe {

struct ReplayRules {
  bool greatest_bytes = false;  // the tie-break; otherwise lowest ids
  uint64_t min_frequency = 1;
  uint64_t max_token_bytes = std::numeric_limits<uint64_t>::max();
};

class MergeReplay {
 public:
  struct Pair {
    uint32_t left, right;
    uint64_t count;
  };

  // byte_order: the byte of each of the ids 0..255.
  MergeReplay(ReplayRules rules, const std::array<uint8_t, 256>& byte_order);

  // Before the first merge. Throws std::overflow_error where the bytes of all pieces are 2^63 or more.
  void add(std::string_view piece, uint64_t count);
  // The pair that is to be merged now; nothing where no pair may be.
  std::optional<Pair> best();
  // Carries out a merge of tokens that exist; returns how many occurrences became one token.
  uint64_t merge(uint32_t left, uint32_t right);

  size_t tokens() const { return token_bytes_.size(); }
  uint64_t bytes() const { return bytes_; }  // of all pieces, each as often as it was found
  const std::string& token(uint32_t id) const { return token_bytes_.at(id); }

 private:
  using Key = std::pair<uint32_t, uint32_t>;
  struct KeyHash {
    size_t operator()(const Key& key) const {
      return (static_cast<uint64_t>(key.first) << 32 | key.second) * 0x9e3779b97f4a7c15u;
    }
  };
  struct Standing {
    uint64_t count = 0;
    std::vector<uint32_t> blocks;
  };
  struct Change {
    int64_t count = 0;
    std::vector<uint32_t> blocks;  // of a new pair
  };
  using Changes = std::unordered_map<Key, Change, KeyHash>;
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  struct Ranked {
    uint64_t count;
    Key key;
  };
  struct Before {
    const MergeReplay* replay;
    bool operator()(const Ranked& a, const Ranked& b) const { return replay->is_before(a, b); }
  };

  bool is_before(const Ranked& a, const Ranked& b) const;
  bool may_be_merged(const Key& key, uint64_t count) const;
  void begin();
  // The nearest block of the same piece that is not empty, after this one or before it; kNone where there is none.
  uint32_t block_behind(uint32_t block) const;
  uint32_t block_before(uint32_t block) const;
  // Joins left and right in a block and, where its last token is a left one, with the next; returns how many times.
  uint64_t join_in(uint32_t block, uint32_t left, uint32_t right, uint32_t made, Changes& changes);

  ReplayRules rules_;
  std::vector<std::string> token_bytes_;
  std::array<uint32_t, 256> id_of_byte_{};
  std::vector<std::vector<uint32_t>> blocks_;
  std::vector<uint64_t> counts_;  // of the piece of each block
  std::vector<bool> continues_;   // whether a block continues the piece of the one before
  uint64_t bytes_ = 0;
  std::unordered_map<Key, Standing, KeyHash> pairs_;
  std::set<Ranked, Before> queue_;
  bool begun_ = false;
};

// What a counter holds, in numbers that add up over counters: so a sum of counters is checked without combining.
struct CounterSum {
  uint64_t rows = 0;
  uint64_t pieces = 0;  // the sum of counts, modulo 2^64
  uint64_t bytes = 0;   // of pieces, each as often as it was found, modulo 2^64
  uint64_t digest = 0;  // the sum of count * (a hash of the piece), modulo 2^64
  bool ascending = true;  // in order of hash64, then of bytes, and no piece twice
};

struct ColumnsView;
CounterSum counter_sum(const ColumnsView& counter);

}  // namespace bpe
