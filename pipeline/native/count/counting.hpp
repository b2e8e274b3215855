// ChunkCounter: counts the pre-tokens of one chunk, a row of texts (byte ranges of files) fed in blocks of any size.
//
// Idea: blocks are copied into one window, which is processed only when it is full or the text ends; so the answer
// cannot depend on the blocks. Processing a window: (1) check or repair UTF-8, (2) find special tokens, (3) cut the
// documents between them and count the pre-tokens. What later text could still change (an unfinished character, a possible
// start of a special token, the last pre-token) moves to the window's front, and where that is more than half of a window,
// the window doubles: a pre-token of n bytes costs O(n) in all.
// Semantics: the text is decoded first and split at special tokens then. `skip` judges each document whole: one that
// does not end within its window is counted in a table of its own, which joins the chunk's table when the document ends
// valid and is dropped at its first invalid byte. That costs memory for the document's different pre-tokens, not for its
// text.
// Memory: with `budget_bytes`, window and tables never grow beyond it: before they would, `spill` writes the pre-tokens
// counted so far elsewhere, and the table starts empty again. What one pre-token needs until it is written (see
// kPreTokenCopies) must fit into it as well, and under `skip` a document's different pre-tokens: otherwise OutOfBudget.
// Sink: with one, pre-tokens go to it instead of into the table, so that encoding reads text exactly as counting does: the
// same documents, pre-tokens and repairs. It keeps what it made of a document until it hears how the document ended.
// Refused tokens, special or added, have flags that change the text around them, which is not done here: RefusedToken
// for the first that is found in a document which is counted, under `skip` when that document has ended.
// Added tokens that are not special are cut out of the text like special tokens, but the document goes on behind them.
// Selection: a judge that samples or cuts documents looks at the text as it was fed, before all else. It passes on what
// is counted, a document at a time; of the rest nothing is checked, repaired or cut. A document ends here at a separator
// (the first special tokens) or with its text. It is held until it ends: OutOfBudget if that takes too much.
// Normal form: the stretches between special tokens are put into it before they are cut. Where text is not in it, the
// rest of the document is cut in a copy, `normal_`, and leaves the window as soon as nothing later can join with it.
// Lines: with an automaton that ends a document behind each line feed, a text of lines is cut as one document, each line
// as if it were one. Where lines are judged, taken by a sink, or may hold a token with a line feed, each is fed by itself.
// Cost: the window (256 KiB) and the table of pre-tokens; per byte the sum of the three steps.
#pragma once
#include "text/automaton.hpp"
#include "count/pre_token_table.hpp"
#include "text/normal_form.hpp"
#include "text/specials.hpp"

namespace bpe {

enum class ErrorPolicy { replace, strict, skip };

// What decides of a document whether it is counted: the Python value of this name. An option of that kind is a field.
struct DocumentJudge {
  ErrorPolicy errors = ErrorPolicy::replace;
  std::optional<double> sample;                // the share of documents to take, by a hash of their bytes; none: all
  uint64_t seed = 0;                           // of the hash
  std::optional<uint64_t> max_document_chars;  // of a document, its first characters

  // Whether a document may be dropped when its end is reached: then its pre-tokens wait until it is known to be counted.
  bool drops_documents() const { return errors == ErrorPolicy::skip; }
  // Whether not all text is counted, whatever it holds.
  bool selects() const { return sample || max_document_chars; }
};

// Thrown under ErrorPolicy::strict.
struct InvalidText {
  uint64_t offset;  // of the first invalid byte, from the first byte ever fed
};

// Thrown where a pre-token, or what one document needs, does not fit into budget_bytes.
struct OutOfBudget {
  uint64_t offset;  // of its first byte, from the first byte ever fed
  uint64_t bytes;   // of it, as far as it was read
};

// Thrown where text has a token that it may not have.
struct RefusedToken {
  uint64_t offset;  // of its first byte, from the first byte ever fed
  uint32_t token;   // its index among the special and the added tokens
};

// Takes pre-tokens in place of the table.
class PreTokenSink {
 public:
  static constexpr size_t kReadableAfter = 64;
  virtual ~PreTokenSink() = default;
  // Pre-tokens that follow one another in `text` from `start` on, ending at `ends`; kReadableAfter more bytes may be read.
  virtual void pre_tokens(const uint8_t* text, size_t start, const uint32_t* ends, size_t count) = 0;
  virtual void keep() = 0;  // the pre-tokens since the last call here are of a document that is valid to its end
  virtual void drop() = 0;  // they are of one that is skipped
  virtual void special_token(size_t index) = 0;  // keep() follows, unless the document goes on
  virtual void end_of_text() = 0;
  virtual size_t undecided_bytes() const = 0;   // what is held until keep() or drop()
  virtual size_t pre_token_copies() const = 0;  // what a long pre-token takes, in its own bytes
};

// Input of one kind that was skipped or altered: how often, and where it was first, in all that was fed.
struct Noted {
  static constexpr size_t kExamples = 8;

  uint64_t count = 0;
  std::vector<uint64_t> offsets;

  void add(uint64_t offset) {
    ++count;
    if (offsets.size() < kExamples) offsets.push_back(offset);
  }
};

struct CountingStatistics {
  uint64_t bytes = 0;       // fed
  uint64_t documents = 0;   // not empty, and started in this chunk
  uint64_t pre_tokens = 0;  // counted, with repetitions
  uint64_t special_tokens = 0;
  uint64_t invalid_bytes = 0;  // that were replaced
  Noted replacements;          // U+FFFD put in
  Noted documents_skipped;
  // Documents not in the sample, and of others what is beyond max_document_chars: how many, their bytes and characters,
  // which are bytes that can start one.
  std::array<uint64_t, 3> left_out{}, cut{};
};

class ChunkCounter {
 public:
  // Cuts a whole document, emitting the size of one pre-token after the other: the slow path for odd patterns.
  using DocumentCutter = std::function<void(const uint8_t* text, size_t size, const std::function<void(size_t)>& emit)>;
  struct Options {
    DocumentJudge judge;
    size_t window_bytes = size_t{1} << 18;
    size_t budget_bytes = 0;           // 0: no limit
    std::function<void()> spill;       // writes what the table holds elsewhere; it is empty after
    PreTokenSink* sink = nullptr;      // outlives the counter
    const NormalForm* form = nullptr;  // likewise; none: text is cut as it is
    std::vector<uint32_t> refused;     // indices of the tokens that text may not have
    const Automaton* lines = nullptr;  // likewise; none: lines are documents like others
  };
  // A long pre-token is in the window, which had half its size before, in the arena, in columns, and twice in what writes
  // them.
  static constexpr size_t kPreTokenCopies = 7, kWrittenCopies = 3;

  // Exactly one of `automaton` (which must outlive this) and `cut_document`. Only the first `separators` of the special
  // tokens separate documents.
  ChunkCounter(const Automaton* automaton, DocumentCutter cut_document, SpecialTokens specials, size_t separators,
               Options options);

  // The next text starts inside a document that was counted where it started. Call before its first block.
  void start_inside_document() { continues_ = true; }
  // The next bytes of the text; `end` with the last of them (which may be none). A text ends its last document.
  void feed(const uint8_t* bytes, size_t size, bool end);
  // A text of its own, whole. An empty one is nothing.
  void feed_document(const uint8_t* bytes, size_t size) {
    if (size) feed(bytes, size, true);
  }
  // Whether feed_lines takes lines at once.
  bool cuts_lines() const {
    return options_.lines && !options_.sink && !options_.judge.drops_documents() && !options_.judge.selects();
  }
  // Lines, each of which is a document with its ending, a line feed; the last may have none.
  void feed_lines(const uint8_t* bytes, size_t size) {
    in_lines_ = true;
    const std::unique_ptr<bool, void (*)(bool*)> until(&in_lines_, [](bool* in) { *in = false; });
    feed(bytes, size, true);
  }
  // Counts pre-tokens that were cut elsewhere.
  void add(const uint8_t* pre_token, size_t size, uint64_t count) { table_.add(pre_token, size, count); }

  const PreTokenTable& table() const { return table_; }
  PreTokenTable& table() { return table_; }
  // Forgets the pre-tokens counted so far and frees their memory, not the text in the window: for a counter that is written
  // in parts.
  void clear_counts();
  // From now on window and tables have that budget; a table that takes more is spilled at once.
  void set_budget(size_t budget_bytes) {
    options_.budget_bytes = budget_bytes;
    reserve(capacity_, 0, 0, table_);
  }
  const CountingStatistics& statistics() const { return statistics_; }
  size_t bytes() const;

 private:
  void read(const uint8_t* bytes, size_t size, bool end);
  void select(const uint8_t* bytes, size_t size, bool end);
  // Throws once the document is known to be `kept`.
  void refuse(uint32_t token, uint64_t offset, bool kept) {
    if (std::ranges::count(options_.refused, token) == 0) return;
    if (!refused_) refused_ = RefusedToken{offset, token};
    if (kept) throw *refused_;
  }
  void judge_document(const uint8_t* text, size_t size, SpecialTokens::Match separator);
  static constexpr size_t npos = ~size_t{0}, kPadding = PreTokenSink::kReadableAfter;

  // Windows of text without long pre-tokens are no larger.
  size_t plain_window() const { return 8 * options_.window_bytes; }
  // About where text_[at] was, from the first byte ever fed: a replaced character may have another length.
  uint64_t offset_of(size_t at) const {
    return checked_offset_ + at - std::min<uint64_t>(checked_offset_ + at, checked_);
  }
  OutOfBudget too_large_document() const {
    return {offset_of(begin_) - std::min(consumed_, offset_of(begin_)), consumed_};
  }
  bool fits(size_t window_bytes, size_t table_bytes) const;
  void reserve(size_t window_bytes, size_t pre_tokens, size_t pre_token_bytes, PreTokenTable& table);
  void reserve_pre_tokens(size_t start, size_t pre_tokens, PreTokenTable& table);
  void grow(size_t capacity);
  void append(const uint8_t* bytes, size_t size);
  void process(bool end);
  void check_text(bool end);
  void repair_text(size_t from, bool end);
  void move_to_front();
  void continue_document(size_t limit);
  void finish_document(size_t limit);
  void finish_stretch(size_t limit, size_t token_end);
  // Where the pre-tokens of a document are counted that is not known to be valid to its end.
  PreTokenTable& document_table() {
    if (!options_.judge.drops_documents() || options_.sink) return table_;
    if (!open_document_) open_document_ = std::make_unique<PreTokenTable>();
    return *open_document_;
  }
  // Whether the current document, with its text up to `limit`, is not counted.
  bool drops(size_t limit) const { return dropping_ || invalid_ < limit; }
  void drop_text(size_t limit);
  void count_text(size_t limit, bool at_end, PreTokenTable& table);
  void count_normal(size_t limit, bool at_end, PreTokenTable& table);
  void cut_normal(bool at_end, PreTokenTable& table);
  void cut_text(const uint8_t* text, size_t& begin, size_t limit, bool at_end, PreTokenTable& table);
  void count_pre_tokens(const uint8_t* text, size_t start, size_t pre_tokens, PreTokenTable& table);
  void check_rest(size_t rest, uint64_t offset) const;

  const Automaton* automaton_;
  DocumentCutter cut_document_;
  SpecialTokens specials_;
  size_t separators_;
  Options options_;
  PreTokenTable table_;
  std::unique_ptr<PreTokenTable> open_document_;  // skip: pre-tokens of a document that is not yet known to be valid
  size_t longest_ = 0;                   // bytes of a pre-token in the table, at the most, where pre-tokens are long
  uint64_t counted_ = 0, consumed_ = 0;  // of the current document: pre-tokens, bytes
  CountingStatistics statistics_;

  // The window: [begin_, checked_) is valid text of the current document that is not yet counted, [checked_, size_) is
  // as it was fed. No special token starts before searched_.
  std::unique_ptr<uint8_t[]> text_;
  size_t capacity_ = 0, size_ = 0, limit_;
  size_t begin_ = 0, checked_ = 0, searched_ = 0;
  size_t invalid_ = npos;        // skip: the first invalid byte at or after begin_ that is known
  uint64_t checked_offset_ = 0;  // of text_[checked_] in all that was fed
  bool in_document_ = false;     // text of the current document has left the window
  bool in_lines_ = false;        // of lines, each of which is a document
  bool dropping_ = false;        // skip: the current document is invalid
  bool kept_ = true;             // the last document that ended was not dropped
  bool continues_ = false;
  std::array<uint32_t, PreTokenTable::kBatch> ends_;
  std::vector<uint8_t> normal_;  // of the current document, before begin_: what is in the form and not yet counted
  std::unique_ptr<NormalForm::Known> known_;
  size_t normal_limit_ = 0;  // so much of it is not cut again before more follows
  // Skip: the first refused token of a document that is not yet known to be valid.
  std::optional<RefusedToken> refused_;
  // Selection: text as it was fed, from the start of a document that is not judged; no special token starts before
  // looked_.
  std::vector<uint8_t> held_;
  size_t looked_ = 0;
};

}  // namespace bpe
