// The merge engine: byte-pair encoding trained exactly on weighted pieces.
//
// Idea (Gage 1994; Sennrich, Haddow and Birch 2016): every piece starts as its bytes; the pair of adjacent
// tokens with the highest count becomes a new token, everywhere, left to right and not overlapping; repeat.
// A pair's count is the number of adjacent positions where it stands, each weighted with its piece's count
// (`aaa` holds the pair (a, a) twice). Among equal counts the tie-break decides.
//
// Token ids: 0..255 are the bytes in GPT-2's order (byte_of_id), 256 + rank is the merge of that rank. No two
// ids ever have the same bytes: while a stretch of text keeps both its ends, what the merges make of it
// depends on its bytes alone, so all its copies become one token in the same merge.
//
// The result depends on the multiset of (piece, count) alone: not on the order of pieces, the batches, the
// number of threads, or the tuning. Errors: std::invalid_argument for wrong input or options,
// std::overflow_error when the corpus holds 2^63 bytes or more. Whatever `poll` throws leaves run().
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <vector>

namespace bpe {

enum class TieBreak {
  lowest_ids,      // the smaller (left id, right id): the choice of Hugging Face's BpeTrainer
  greatest_bytes,  // the greater (left bytes, right bytes), compared as a tuple: the choice of Stanford's CS336
};

enum class StopReason {
  limit,          // max_merges were made
  min_frequency,  // no pair's count reaches min_frequency
};

struct MergeOptions {
  std::uint64_t max_merges = 0;
  std::uint64_t min_frequency = 1;
  std::uint64_t min_piece_count = 1;  // pieces counted less often are left out, as if they were not there
  std::uint64_t max_token_bytes = std::numeric_limits<std::uint64_t>::max();  // longer pairs are never merged
  TieBreak tie_break = TieBreak::lowest_ids;
  unsigned threads = 1;
  // Tuning; none of it changes the result.
  std::uint32_t narrow_symbols = 65536;  // symbols below this are held in 16 bits; at most 65536
  std::uint64_t index_positions = 0;     // positions indexed in one phase; 0 chooses by the corpus
  std::uint64_t thread_bytes = 4 << 20;  // bytes of pieces for each thread beyond the first: fewer do not repay it
  std::uint64_t share_from = 1500;       // occurrences from which a merge is shared by the threads
};

struct MergeProgress {
  std::uint64_t merges;
  std::uint64_t max_merges;
  std::uint64_t best_count;  // count of the last merge, an upper bound for all that follow
};

struct MergeResult {
  std::vector<std::uint32_t> left, right;  // ids, in rank order
  std::vector<std::uint64_t> counts;       // of the pair at the moment of merging
  std::vector<std::uint64_t> joined;       // occurrences that became one token: counts, less overlaps as in `aaa`
  std::uint64_t bytes = 0;                 // of all pieces, each as often as it was found: the tokens before merging
  std::uint64_t left_out_pieces = 0;       // different ones, for min_piece_count
  std::uint64_t left_out_bytes = 0;        // of them, each as often as it was found
  StopReason stop = StopReason::limit;
  std::uint64_t phases = 0;  // times the pieces were scanned and indexed
};

// Pieces in Arrow's layout: piece i is data[offsets[i], offsets[i + 1]), found counts[i] times. `owner` keeps
// the three arrays alive; the engine drops it as soon as it has taken the pieces in.
struct PieceBatch {
  std::span<const std::int64_t> offsets;
  std::span<const std::uint8_t> data;
  std::span<const std::uint64_t> counts;
  std::shared_ptr<void> owner;
};

// Gives all batches to `take`, one after the other and always in the same order; called three times.
using PieceSource = std::function<void(const std::function<void(const PieceBatch&)>& take)>;

// Called on the calling thread at least every tenth of a second or so of work, also inside long scans.
using MergePoll = std::function<void(const MergeProgress&)>;

// Checks one batch; throws std::invalid_argument.
void check_batch(const PieceBatch& batch);

class MergeEngine {
 public:
  // Batches in any order; a piece may come in several. Pieces of count 0 and empty pieces are ignored.
  void add(PieceBatch batch);
  // Instead of adding: pieces of so many bytes in all that are read while run() takes them in, so that they need not be
  // in memory all at once. `source` is called on the thread that calls run().
  void stream(PieceSource source, std::uint64_t bytes);
  // Trains on everything added and forgets it: run once.
  MergeResult run(const MergeOptions& options, const MergePoll& poll);

 private:
  std::vector<PieceBatch> batches_;
  PieceSource source_;
  std::uint64_t source_bytes_ = 0;
  bool used_ = false;
};

// The byte that token `id` (0..255) stands for, in GPT-2's order.
std::uint8_t byte_of_id(unsigned id);

}  // namespace bpe
