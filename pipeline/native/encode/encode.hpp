// Encoder: text to token ids. Special tokens are found, the text between them is cut into pre-tokens, each pre-token is merged
// by rank.
//
// Contract: exact byte-pair encoding by rank (rank_merge.hpp); a special token ends the document before it, so that
// each stretch between special tokens is cut by itself. With `whole_pre_tokens`, a pre-token that is itself a token is that
// token, also where no chain of merges reaches it. Text must be valid UTF-8.
//
// Ideas: pre-tokens are cut some hundred at a time. A small table of frequent pre-tokens is asked for all of them, without a
// branch; of the others, the slots in a larger table, which all threads share, are fetched ahead; then each is looked
// up, and only unknown ones are merged. When all are known, their ids are written end to end. Where pre-tokens are long,
// they are looked up in parts that no merge joins (borders.hpp): more of these are known. Threads may call at the same
// time: each call takes a state of its own from a pool, without a lock; a child of a fork makes those again that threads
// of its parent used. The threads of a batch (batch.cpp) share its long texts.
// Memory: at most `cache_bytes` for the ids of known pre-tokens, taken as it is used; `threads` use them at a time (0: as many
// as there are cores, at least four), further ones merge what is not frequent.
#pragma once

#include "count/columns.hpp"
#include "encode/hot_ids.hpp"
#include "encode/id_buffer.hpp"
#include "encode/known_ids.hpp"
#include "encode/rank_merge.hpp"
#include "text/automaton.hpp"
#include "text/forks.hpp"
#include "text/specials.hpp"

namespace bpe {

// Bytes that no token of a vocabulary stands for, and what a text has instead: nothing, so that their neighbours are merged;
// or an id, which is not merged, for each of them or for each run of them in a pre-token.
struct LostBytes {
  static constexpr uint32_t kRefused =
      UINT32_MAX;  // instead of an id: std::runtime_error for a pre-token with such a byte

  std::string_view bytes;
  std::optional<uint32_t> unknown;
  bool fused = false;
};

class Encoder {
 public:
  // `automaton` may be null (pre-tokens then come from the caller) and must outlive the encoder otherwise. Throws
  // std::invalid_argument where a byte has no token or a merge names none.
  Encoder(const Automaton* automaton, std::span<const Token> tokens, std::span<const Merge> merges,
          bool whole_pre_tokens, size_t cache_bytes, size_t threads = 0, const LostBytes& lost = {});
  ~Encoder();
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  // Appends the ids of `text`, in which `specials` (may be null) are recognised. Without `at_end` more text follows:
  // only ids that it cannot change are appended. Returns where the rest starts, which the caller puts before what
  // follows. std::logic_error without an automaton; std::runtime_error for a pre-token above RankMerger::kMaxPieceBytes.
  size_t encode(std::string_view text, const SpecialTokens* specials, bool at_end, IdBuffer& out);

  // The number of the ids of a whole text; memory does not grow with it.
  size_t count(std::string_view text, const SpecialTokens* specials);

  // The ids of a text, in one part or several.
  using Parts = std::span<const std::span<const uint32_t>>;
  // What a thread takes at once, and what makes one more thread worth starting.
  static constexpr size_t kTurnBytes = 32 << 10;
  // Encodes many texts by up to `threads` threads, which share long ones. Meanwhile and at the end the caller's thread
  // calls `give` with the ids of the next texts, in order, until it has given all. `turn_bytes`: >= 1; the ids are the
  // same for any.
  void encode_batch(std::span<const std::string_view> texts, const SpecialTokens* specials, size_t threads,
                    size_t turn_bytes, const std::function<void(std::span<const Parts> texts)>& give);

  // Appends the ids of the pre-tokens of `text` that end at `ends`, which rise up to its size.
  void encode_cut(std::string_view text, std::span<const uint32_t> ends, IdBuffer& out);

  // Appends the ids of each pre-token of a counter, and says after each row where they end.
  template <class Ended>
  void encode_rows(const ColumnsView& columns, IdBuffer& out, Ended&& ended) {
    const Lease state = lease();
    for (size_t row = 0; row < columns.rows; ++row) {
      encode_pre_token(columns.text(row), *state, out);
      ended(row);
    }
  }

  const RankMerger& merger() const { return merger_; }

 private:
  friend class ChunkIds;
  static constexpr size_t kBlockPreTokens = 512;

  // What one thread needs: frequent pre-tokens and working memory, kept from call to call.
  struct State {
    HotIds hot;
    KnownIds::Reader reader;
    RankMerger::Scratch scratch;
    std::array<uint32_t, kBlockPreTokens> ends, part_ends;
    std::array<HotIds::Ids, kBlockPreTokens> ids;  // of a block's pre-tokens
    // Of those that are not frequent: which they are, and where the ids are of those that have more than few; those of
    // unknown pre-tokens follow one another in `aside`.
    std::array<uint32_t, kBlockPreTokens + 1> missed;
    std::array<MissedPreToken, kBlockPreTokens> pre_tokens;
    std::vector<const uint32_t*> others;
    IdBuffer aside;
  };
  // A state for one call, which then returns to the pool; beyond the pool, one of its own.
  struct Return {
    KnownIds* known_ids;
    std::atomic<uintptr_t>* slot;  // null: not of the pool
    uintptr_t mark;
    void operator()(State* state) const;
  };
  using Lease = std::unique_ptr<State, Return>;
  Lease lease();
  class Batch;

  // With `counted`, ids are counted there and `out` stays empty.
  size_t encode_text(std::string_view text, const SpecialTokens* specials, bool at_end, State& state, IdBuffer& out,
                     size_t* counted);
  size_t encode_document(std::string_view text, size_t begin, size_t end, bool at_end, State& state, IdBuffer& out,
                         size_t* counted);
  // The first border in [from, to) of a text: ids before it and behind are those of two texts. npos if there is none.
  size_t find_border(std::string_view text, const SpecialTokens* specials, size_t from, size_t to) const;
  // At most kBlockPreTokens pre-tokens of `text`, the first from `begin` on, that end at `ends`; the text may be read up to
  // `readable`.
  void encode_block(const uint8_t* text, size_t begin, std::span<const uint32_t> ends, size_t readable, State& state,
                    IdBuffer& out);
  // The same without the search for borders.
  void encode_parts(const uint8_t* text, size_t begin, std::span<const uint32_t> ends, size_t readable, State& state,
                    IdBuffer& out);
  // The same of text that may be read up to 16 bytes behind the start of any pre-token.
  void encode_padded(const uint8_t* text, size_t begin, std::span<const uint32_t> ends, State& state, IdBuffer& out);
  // Finds or makes the ids of the pre-tokens of a block that are not among the frequent ones; returns how many ids have
  // those that have more than a few.
  size_t find_missed(const uint8_t* text, size_t begin, std::span<const uint32_t> ends, size_t misses, State& state);
  void encode_pre_token(std::string_view pre_token, State& state, IdBuffer& out) const;
  // The same of a pre-token that may have lost bytes.
  void encode_lossy(std::string_view pre_token, State& state, IdBuffer& out) const;

  const Automaton* automaton_;
  RankMerger merger_;
  bool lossy_, fused_;
  std::array<bool, 256> lost_{};
  std::optional<uint32_t> unknown_;
  std::string token_bytes_;  // the text that the keys of whole_pre_tokens_ point to
  std::unordered_map<std::string_view, uint32_t> whole_pre_tokens_;  // empty unless asked for
  // The pool: 0, the address of an idle state, or while one is on lease an odd mark of the process that took it.
  std::vector<std::atomic<uintptr_t>> pool_;
  KnownIds known_ids_;
};

}  // namespace bpe
