// Which text a ChunkCounter reads, where its judge samples or cuts documents.
#include <cmath>

#include "count/counting.hpp"
#include "text/utf8.hpp"

namespace bpe {
namespace {

constexpr uint64_t kAll = ~uint64_t{0};

struct Characters {
  size_t bytes = 0;
  uint64_t count = 0;
};

// The first characters of a text, `most` of them, an ill-formed sequence being one; the text may go on unless `at_end`.
Characters first_characters(const uint8_t* text, size_t size, uint64_t most, bool at_end) {
  Characters first;
  while (first.bytes < size && first.count < most) {
    const uint8_t* at = text + first.bytes;
    const size_t rest = size - first.bytes;
    const uint64_t wanted = most - first.count;
    const size_t valid = valid_utf8_prefix(at, wanted < rest ? std::min<uint64_t>(rest, 4 * wanted) : rest);
    if (valid == 0) {
      const IllFormed part = ill_formed_at(at, rest);
      if (part.unfinished && !at_end) break;
      first.bytes += part.size, ++first.count;
      continue;
    }
    uint64_t count = 0;
    for (size_t i = 0; i < valid; ++i) count += (at[i] & 0xC0) != 0x80;
    if (count <= wanted) {
      first.bytes += valid, first.count += count;
    } else {
      for (; first.count < most; ++first.count) first.bytes += length_of_lead(text[first.bytes]);
    }
  }
  return first;
}

}  // namespace

bool DocumentJudge::takes(const uint8_t* document, size_t size) const {
  if (!sample) return true;
  return (detail::finish(hash64(document, size), seed) < static_cast<uint64_t>(std::ldexp(*sample, 64))) != complement;
}

// Judges the documents that end, and passes on what is taken of them.
void ChunkCounter::select(const uint8_t* bytes, size_t size, bool end) {
  if (!held_.empty()) {
    hold(bytes, size, 0);
    bytes = held_.data(), size = held_.size();
  }
  const size_t undecided = end || specials_.empty() ? 0 : specials_.longest() - 1;
  size_t begin = 0;
  while (const auto match = specials_.find(bytes, looked_, size)) {
    if (match.start + undecided >= size) break;  // as in process()
    looked_ = match.end;
    if (match.id >= separators_) continue;
    const bool taken = judge_document(bytes + begin, match.start - begin);
    if (taken && options_.sink) options_.sink->special_token(match.id), options_.sink->keep();
    ++statistics_.special_tokens;
    pass_over(match.end - match.start);
    begin = match.end;
  }
  looked_ = std::max(looked_, size - std::min(size, undecided));
  if (end) {
    judge_document(bytes + begin, size - begin);
    begin = looked_ = size;
  } else if (!options_.judge.sample) {
    begin += take(bytes + begin, looked_ - begin, false);
  }
  looked_ -= begin;
  held_.empty() ? hold(bytes + begin, size - begin, 0) : hold(nullptr, 0, begin);
}

// Forgets what is held before `from`, and holds more.
void ChunkCounter::hold(const uint8_t* bytes, size_t size, size_t from) {
  held_.erase(held_.begin(), held_.begin() + static_cast<ptrdiff_t>(from));
  if (held_.empty() && held_.capacity() > plain_window()) held_ = {};
  if (size) held_.insert(held_.end(), bytes, bytes + size);
  if (!options_.budget_bytes || held_.capacity() <= plain_window()) return;
  if (2 * held_.capacity() > options_.budget_bytes) throw OutOfBudget{checked_offset_, held_.size()};
  reserve(capacity_, 0, 0, table_);
}

// The rest of a document, all of it if it is sampled. Returns whether the document is taken.
bool ChunkCounter::judge_document(const uint8_t* text, size_t size) {
  const bool taken = options_.judge.takes(text, size);
  if (taken) {
    take(text, size, true);
    read(nullptr, 0, true);
  } else {
    statistics_.left_out.add(size != 0, size, first_characters(text, size, kAll, true).count);
    left_bytes_ = size;
  }
  pass_over(std::exchange(left_bytes_, 0));
  left_characters_ = options_.judge.max_document_chars.value_or(0);
  return taken;
}

// Passes on what is taken of a document's next text; returns how much of that is judged: whole characters.
size_t ChunkCounter::take(const uint8_t* text, size_t size, bool at_end) {
  if (!options_.judge.max_document_chars) return read(text, size, false), size;
  Characters first = first_characters(text, size, left_characters_, at_end), rest;
  left_characters_ -= first.count;
  if (left_characters_ == 0) {
    // A token that the cut is in is not taken either.
    const size_t reach = std::min(size, first.bytes + specials_.longest());
    auto match = specials_.find(text, 0, reach);
    while (match && match.end <= first.bytes) match = specials_.find(text, match.end, reach);
    if (match) first.bytes = std::min(first.bytes, match.start);
    rest = first_characters(text + first.bytes, size - first.bytes, kAll, at_end);
    statistics_.cut.add(rest.bytes != 0 && left_bytes_ == 0, rest.bytes, rest.count);
    left_bytes_ += rest.bytes;
  }
  read(text, first.bytes, false);
  return first.bytes + rest.bytes;
}

}  // namespace bpe
