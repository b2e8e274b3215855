// The merge engine: byte-pair encoding trained exactly on weighted pre-tokens.
//
// Idea (Gage 1994; Sennrich, Haddow and Birch 2016): every pre-token starts as its bytes; the pair of adjacent tokens with
// the highest count becomes a new token, everywhere, left to right and not overlapping; repeat. A pair's count is the
// number of adjacent positions where it occurs, each weighted with its pre-token's count (`aaa` has the pair (a, a) twice).
// Among equal counts the tie-break decides.
//
// Token ids: 0..255 are the bytes in GPT-2's order (byte_of_id), 256 + rank is the merge of that rank. No two ids ever
// have the same bytes: while no merge crosses the ends of a stretch of text, what the merges make of it depends on its
// bytes alone, so all its copies become one token in the same merge.
//
// The result depends on the multiset of (pre-token, count) alone: not on the order of pre-tokens, the batches, the number of
// threads, or the tuning. Errors: std::invalid_argument for wrong input or options,
// std::overflow_error when the corpus holds 2^63 bytes or more. Whatever `poll` throws leaves run().
#pragma once
#include "count/columns.hpp"
#include "text/merge_rules.hpp"

namespace bpe {

// What a stage starts from if not from bytes: pre-tokens are rows of 32-bit numbers of these tokens. Results name tokens by
// number; those that merges make are numbered on from the last of these.
struct MergeStart {
  std::vector<std::string> tokens;     // bytes by number, 256 or more
  std::vector<uint32_t> ids;           // by number; the tie-break compares ids
  uint32_t first_new_id = 0;           // further ones follow
  std::vector<std::string> forbidden;  // bytes that no merge may make
  std::vector<uint32_t> again;         // numbers of tokens that may be made: they keep their id and are no new token
};

inline constexpr auto kEngineRules = obeyed("min_frequency", "min_pre_token_count", "tie_break");  // and kTokenRules

struct MergeOptions {
  uint64_t max_merges = 0;  // that make a new token
  MergeRules rules;
  unsigned threads = 1;
  const MergeStart* start = nullptr;  // null: bytes
  // Tuning; none of it changes the result.
  uint32_t narrow_symbols = 65536;  // symbols below this are held in 16 bits; at most 65536
  uint64_t index_positions = 0;     // positions indexed in one phase; 0 chooses by the corpus
  uint64_t thread_bytes = 4 << 20;  // bytes of pre-tokens for each thread beyond the first
  uint64_t share_from = 1500;       // occurrences from which a merge is shared by the threads
  bool compact = false;             // less memory for words and lists: a fifth more time
  // Bytes for the words, their lists and pairs; 0: all of them stay in memory. Otherwise words that a phase does not need
  // are in scratch files, whose names begin with `scratch`.
  uint64_t resident_bytes = 0;
  std::string scratch;
};

struct MergeProgress {
  uint64_t merges;
  uint64_t max_merges;
  uint64_t best_count;  // count of the last merge, an upper bound for all that follow
};

struct MergeResult {
  std::vector<uint32_t> left, right;  // ids, in rank order
  std::vector<uint64_t> counts;       // of the pair at the moment of merging
  std::vector<uint64_t> joined;       // occurrences that became one token: counts, less overlaps as in `aaa`
  uint64_t bytes = 0;                 // of all pre-tokens, each as often as it was found: the tokens before merging
  uint64_t left_out_pre_tokens = 0;   // different ones, for min_pre_token_count
  uint64_t left_out_bytes = 0;        // of them, each as often as it was found
  bool exhausted = false;             // no pair's count reaches min_frequency; otherwise max_merges were made
  uint64_t phases = 0;                // times the pre-tokens were scanned and indexed
};

// Calls `take` with all columns, one after the other and always in the same order; called once, or twice.
using PreTokenSource = std::function<void(const std::function<void(const ColumnsView&)>& take)>;

// Called on the calling thread at least every tenth of a second or so of work, also inside long scans.
using MergePoll = std::function<void(const MergeProgress&)>;

// Called on the calling thread when a phase has ended, with the merges so far.
using PhaseEnd = std::function<void(const MergeResult&)>;

class MergeEngine {
 public:
  // Columns in any order; a pre-token may come in several. Pre-tokens of count 0 and empty pre-tokens are ignored. `owner` keeps
  // the columns alive; the engine drops it as soon as it has taken the pre-tokens in.
  void add(const ColumnsView& columns, std::shared_ptr<void> owner);
  // Instead of adding: pre-tokens of about that many bytes, and one more each, that are read while run() takes them in, so that they
  // need not be in memory all at once. `source` is called on the thread that calls run().
  void stream(PreTokenSource source, uint64_t slots);
  // Takes up a merging that was interrupted: the merges that were made, as a PhaseEnd was given them. They may also come
  // from other pre-tokens: they are made in these, and what they join is counted here; their counts stay.
  void resume(MergeResult known);
  // Trains on everything added and forgets it: run once.
  MergeResult run(const MergeOptions& options, const MergePoll& poll, const PhaseEnd& phase_end);

 private:
  std::vector<std::pair<ColumnsView, std::shared_ptr<void>>> batches_;
  PreTokenSource source_;
  MergeResult known_;
  uint64_t slots_ = 0;  // of all pre-tokens, about: their bytes and one more each
  bool used_ = false;
};

}  // namespace bpe
