#include "count/counting.hpp"

#include "text/utf8.hpp"

namespace bpe {
namespace {

constexpr size_t kMostGrowth = size_t{256} << 20;  // of the window at once, so that offsets in it fit 32 bits
constexpr uint8_t kReplacement[] = {0xEF, 0xBF, 0xBD};

}  // namespace

ChunkCounter::ChunkCounter(const Automaton* automaton, DocumentCutter cut_document, SpecialTokens specials,
                           size_t separators, Options options)
    : automaton_(automaton),
      cut_document_(std::move(cut_document)),
      specials_(std::move(specials)),
      separators_(separators),
      options_(options),
      limit_(options.window_bytes) {
  if (options_.form) known_ = std::make_unique<NormalForm::Known>();
  if (specials_.any_with('\n')) options_.lines = nullptr;
  if (limit_ == 0 || limit_ > kMostGrowth) throw std::invalid_argument("window_bytes must be 1 byte to 256 MiB");
}

size_t ChunkCounter::bytes() const {
  return capacity_ + normal_.capacity() + (known_ ? known_->bytes() : 0) + held_.capacity() + table_.bytes() +
         (open_document_ ? open_document_->bytes() : 0);
}

void ChunkCounter::clear_counts() {
  table_ = PreTokenTable();
  longest_ = 0;
}

bool ChunkCounter::fits(size_t window_bytes, size_t table_bytes) const {
  const size_t to_write = longest_ * kWrittenCopies;
  return window_bytes + held_.capacity() + normal_.capacity() + (known_ ? known_->bytes() : 0) + table_bytes +
             (open_document_ ? open_document_->bytes() : 0) + to_write <=
         options_.budget_bytes;
}

// Spills where the window, or the table with that many more pre-tokens, would exceed the budget.
void ChunkCounter::reserve(size_t window_bytes, size_t pre_tokens, size_t pre_token_bytes, PreTokenTable& table) {
  const auto now = [&] {
    return &table == &table_ ? table_.bytes_with(pre_tokens, pre_token_bytes)
                             : table_.bytes() + table.bytes_with(pre_tokens, pre_token_bytes) - table.bytes();
  };
  if (options_.budget_bytes == 0 || fits(window_bytes, now())) return;
  if (table_.size() != 0) {
    options_.spill();
    table_.clear();
    longest_ = 0;
    if (fits(window_bytes, now())) return;
    clear_counts();
  }
  if (&table != &table_ && !fits(window_bytes, now())) throw too_large_document();
}

// Called before pre-tokens are added that follow one another from `start` and end at ends_.
void ChunkCounter::reserve_pre_tokens(size_t start, size_t pre_tokens, PreTokenTable& table) {
  if (options_.budget_bytes == 0 || pre_tokens == 0 || options_.sink) return;
  if (capacity_ > plain_window() || normal_.size() > plain_window()) {
    size_t longest = 0, at = start;
    for (size_t i = 0; i < pre_tokens; ++i) {
      longest = std::max<size_t>(longest, ends_[i] - at);
      at = ends_[i];
    }
    if (longest * kPreTokenCopies > options_.budget_bytes)
      throw OutOfBudget{offset_of(std::min(start, size_)), longest};
    if (longest > longest_) {
      reserve(capacity_, pre_tokens, ends_[pre_tokens - 1] - start, table);
      longest_ = longest;
    }
  }
  reserve(capacity_, pre_tokens, ends_[pre_tokens - 1] - start, table);
}

void ChunkCounter::grow(size_t capacity) {
  if (capacity <= capacity_) return;
  if (capacity > plain_window()) reserve(capacity + capacity_, 0, 0, table_);
  auto text = std::make_unique_for_overwrite<uint8_t[]>(capacity + kPadding);
  if (size_) std::memcpy(text.get(), text_.get(), size_);
  std::memset(text.get() + capacity, 0, kPadding);
  text_ = std::move(text);
  capacity_ = capacity;
}

void ChunkCounter::append(const uint8_t* bytes, size_t size) {
  if (size_ + size > capacity_ || !text_) grow(std::max({size_ + size, limit_, size_ + size_ / 2}));
  if (size) std::memcpy(text_.get() + size_, bytes, size);
  size_ += size;
}

void ChunkCounter::feed(const uint8_t* bytes, size_t size, bool end) {
  statistics_.bytes += size;
  options_.judge.selects() ? select(bytes, size, end) : read(bytes, size, end);
  if (end && options_.sink) options_.sink->end_of_text();
}

void ChunkCounter::read(const uint8_t* bytes, size_t size, bool end) {
  while (size) {
    const size_t taken = std::min(size, limit_ - size_);
    append(bytes, taken);
    bytes += taken;
    size -= taken;
    if (size_ == limit_) process(false);
  }
  if (end) {
    append(nullptr, 0);
    process(true);
  }
}

void ChunkCounter::process(bool end) {
  check_text(end);
  const size_t undecided = specials_.empty() ? 0 : specials_.longest() - 1;
  const size_t searchable = options_.judge.drops_documents() ? size_ : checked_;
  size_t limit = searchable;
  while (!specials_.empty()) {
    const auto match = specials_.find(text_.get(), std::max(searched_, begin_), searchable);
    if (!match || (!end && match.start + undecided >= searchable)) {
      // A special token may start in the last bytes, also before one that is found there and that it would hold; the
      // text before them certainly belongs to this document.
      if (!end) limit = std::max(std::max(searched_, begin_), searchable - std::min(searchable, undecided));
      break;
    }
    if (!drops(match.start)) refuse(match.id, offset_of(match.start), !options_.judge.drops_documents());
    ++statistics_.special_tokens;
    if (match.id < separators_) {
      finish_document(match.start);
      if (options_.sink && kept_) options_.sink->special_token(match.id), options_.sink->keep();
    } else if (finish_stretch(match.start, match.end); options_.sink && !dropping_) {
      options_.sink->special_token(match.id);
    }
    begin_ = searched_ = match.end;
    if (options_.judge.drops_documents()) check_text(end);  // continues where an invalid document stopped it
  }
  searched_ = limit;
  end ? finish_document(limit) : continue_document(limit);
  move_to_front();
}

// Raises checked_ over all that is valid, and handles what is not.
void ChunkCounter::check_text(bool end) {
  if (invalid_ != npos) return;
  const size_t valid = valid_utf8_prefix(text_.get() + checked_, size_ - checked_);
  checked_ += valid;
  checked_offset_ += valid;
  if (checked_ == size_) return;
  if (ill_formed_at(text_.get() + checked_, size_ - checked_).unfinished && !end) return;
  switch (options_.judge.errors) {
    case ErrorPolicy::strict:
      throw InvalidText{checked_offset_};
    case ErrorPolicy::skip:
      invalid_ = checked_;
      break;
    case ErrorPolicy::replace:
      repair_text(checked_, end);
      break;
  }
}

// Rewrites the window from `from`, where no valid character starts, to its end.
void ChunkCounter::repair_text(size_t from, bool end) {
  const std::vector<uint8_t> raw(text_.get() + from, text_.get() + size_);
  size_ = from;
  size_t at = 0;
  while (at < raw.size()) {
    const IllFormed part = ill_formed_at(raw.data() + at, raw.size() - at);
    if (part.unfinished && !end) break;
    statistics_.replacements.add(checked_offset_ + at);
    statistics_.invalid_bytes += part.size;
    append(kReplacement, sizeof kReplacement);
    at += part.size;
    const size_t valid = valid_utf8_prefix(raw.data() + at, raw.size() - at);
    append(raw.data() + at, valid);
    at += valid;
  }
  checked_ = size_;
  checked_offset_ += at;
  append(raw.data() + at, raw.size() - at);
}

// What is not yet counted moves to the front of the window; the window can take at least as much again.
void ChunkCounter::move_to_front() {
  const size_t rest = size_ - begin_;
  if (rest) std::memmove(text_.get(), text_.get() + begin_, rest);
  size_ = rest;
  searched_ -= std::min(searched_, begin_);
  if (invalid_ != npos) invalid_ -= begin_;
  checked_offset_ += begin_ - std::min(checked_, begin_);
  checked_ -= std::min(checked_, begin_);
  begin_ = 0;
  check_rest(rest, offset_of(0));
  limit_ = rest + std::max(std::min(rest, kMostGrowth), options_.window_bytes);
  if (rest > options_.window_bytes / 2) return;
  limit_ = options_.window_bytes;
  if (capacity_ > 64 * limit_) {  // after a giant pre-token: free its window
    capacity_ = 0;
    grow(limit_);
  }
}

// Refuses so much text in which no pre-token ends yet.
void ChunkCounter::check_rest(size_t rest, uint64_t offset) const {
  if (rest > (automaton_ ? kMaxPieceBytes : 3 * kMaxPieceBytes))
    throw std::length_error(automaton_ ? "a pre-token is longer than the limit of 1 GiB"
                                       : "a document is longer than the limit of 3 GiB for patterns run by `regex`");
  const size_t copies = options_.sink ? options_.sink->pre_token_copies() : kPreTokenCopies;
  if (options_.budget_bytes && rest > plain_window() / 2 && rest * copies > options_.budget_bytes)
    throw OutOfBudget{offset, rest};
}

// [begin_, limit) belongs to the current document, which continues.
void ChunkCounter::continue_document(size_t limit) {
  if (drops(limit)) {
    drop_text(limit);
    return;
  }
  limit = character_start(text_.get(), std::min(limit, checked_), checked_);
  if (cut_document_ || limit <= begin_) return;
  count_text(limit, false, document_table());
}

// A token that separates nothing starts at `limit`: the pre-tokens before it end there, and the document goes on.
void ChunkCounter::finish_stretch(size_t limit, size_t token_end) {
  if (drops(limit)) {
    drop_text(token_end);
    return;
  }
  if (begin_ < limit || !normal_.empty()) count_text(limit, true, document_table());
  consumed_ += token_end - limit;
  in_document_ = true;
}

// The current document ends at `limit`.
void ChunkCounter::finish_document(size_t limit) {
  kept_ = !drops(limit);
  if (!kept_) {
    drop_text(limit);
    dropping_ = false;
  } else if (refused_) {
    throw *refused_;
  } else if (in_document_ || begin_ < limit || !normal_.empty()) {
    if (begin_ < limit || !normal_.empty()) count_text(limit, true, table_);
    if (open_document_ && open_document_->size()) {
      reserve(capacity_, open_document_->size(), open_document_->arena_bytes(), table_);
      if (table_.size() == 0) {
        std::swap(table_, *open_document_);
      } else {
        table_.add_all(*open_document_);
      }
      open_document_.reset();
    }
    if (options_.sink) options_.sink->keep();
    statistics_.pre_tokens += counted_;
    if (in_document_ && !continues_) ++statistics_.documents;
  }
  counted_ = consumed_ = 0;
  in_document_ = continues_ = false;
}

// Under skip: [begin_, limit) belongs to an invalid document.
void ChunkCounter::drop_text(size_t limit) {
  if (!dropping_) {
    statistics_.documents_skipped.add(checked_offset_);
    open_document_.reset();
    refused_.reset();
    normal_.clear();
    if (options_.sink) options_.sink->drop();
    counted_ = 0;
    dropping_ = true;
  }
  begin_ = limit;
  // The rest of an invalid document need not be checked.
  invalid_ = npos;
  if (checked_ < limit) {
    checked_offset_ += limit - checked_;
    checked_ = limit;
  }
}

// Cuts [begin_, limit) and counts its pre-tokens; without `at_end`, only those that later text cannot change.
void ChunkCounter::count_text(size_t limit, bool at_end, PreTokenTable& table) {
  const size_t start = begin_;
  options_.form ? count_normal(limit, at_end, table) : cut_text(text_.get(), begin_, limit, at_end, table);
  if (!in_lines_) {
    in_document_ = true;
  } else if (start < begin_) {  // a line feed has ended its document
    statistics_.documents += static_cast<uint64_t>(std::count(text_.get() + start, text_.get() + begin_, '\n'));
    in_document_ = text_[begin_ - 1] != '\n';
  }
}

// Cuts [begin, limit) of `text` and counts its pre-tokens as count_text does; `begin` becomes the start of the rest.
void ChunkCounter::cut_text(const uint8_t* text, size_t& begin, size_t limit, bool at_end, PreTokenTable& table) {
  if (cut_document_) {
    size_t start = begin, at = begin, pre_tokens = 0;
    cut_document_(text + begin, limit - begin, [&](size_t size) {
      if (size > limit - at) throw std::invalid_argument("the pre-tokens of a document are longer than the document");
      at += size;
      ends_[pre_tokens++] = static_cast<uint32_t>(at);
      if (pre_tokens == ends_.size()) {
        count_pre_tokens(text, start, pre_tokens, table);
        start = at;
        pre_tokens = 0;
      }
    });
    count_pre_tokens(text, start, pre_tokens, table);
    begin = limit;
    return;
  }
  const Automaton& automaton = in_lines_ ? *options_.lines : *automaton_;
  AheadStretch ahead;
  while (begin < limit) {
    size_t pre_tokens = 0;
    const size_t stopped = automaton.cut(text, begin, limit, at_end, ends_.data(), ends_.size(), &pre_tokens, ahead);
    count_pre_tokens(text, begin, pre_tokens, table);
    consumed_ += stopped - begin;
    begin = stopped;
    if (!at_end && pre_tokens < ends_.size() / 2) break;  // more text is needed: `ends_` is not full
  }
}

// Adds `pre_tokens` pre-tokens of `text`, which follow one another from `start` and end at ends_.
void ChunkCounter::count_pre_tokens(const uint8_t* text, size_t start, size_t pre_tokens, PreTokenTable& table) {
  counted_ += pre_tokens;
  if (options_.sink) {
    if (pre_tokens) options_.sink->pre_tokens(text, start, ends_.data(), pre_tokens);
    if (options_.budget_bytes && options_.judge.drops_documents() &&
        options_.sink->undecided_bytes() + capacity_ > options_.budget_bytes)
      throw too_large_document();
    return;
  }
  reserve_pre_tokens(start, pre_tokens, table);
  table.add_batch(text, start, ends_.data(), pre_tokens);
}

}  // namespace bpe
