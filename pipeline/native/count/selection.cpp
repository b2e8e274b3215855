// Which text a ChunkCounter reads, where its judge samples or cuts documents.
#include <cmath>

#include "count/counting.hpp"
#include "text/utf8.hpp"

namespace bpe {

// Judges the documents that end, and holds the beginning of one that does not.
void ChunkCounter::select(const uint8_t* bytes, size_t size, bool end) {
  held_.insert(held_.end(), bytes, bytes + size);
  const size_t undecided = end || specials_.empty() ? 0 : specials_.longest() - 1;
  size_t begin = 0;
  while (const auto match = specials_.find(held_.data(), looked_, held_.size())) {
    if (match.start + undecided >= held_.size()) break;  // as in process()
    looked_ = match.end;
    if (match.id >= separators_) continue;
    judge_document(held_.data() + begin, match.start - begin, match);
    begin = match.end;
  }
  looked_ = std::max(looked_, held_.size() - std::min(held_.size(), undecided));
  if (end) {
    judge_document(held_.data() + begin, held_.size() - begin, {});
    begin = looked_ = held_.size();
  }
  looked_ -= begin;
  held_.erase(held_.begin(), held_.begin() + begin);
  if (options_.budget_bytes && 2 * held_.size() > options_.budget_bytes)
    throw OutOfBudget{checked_offset_, held_.size()};
  reserve(capacity_, 0, 0, table_);
}

// Reads what is taken of a document, as it was fed, and the separator that ends it, if one does.
void ChunkCounter::judge_document(const uint8_t* text, size_t size, SpecialTokens::Match separator) {
  const DocumentJudge& judge = options_.judge;
  const bool taken = !judge.sample || detail::finish(hash64(text, size), judge.seed) <
                                          static_cast<uint64_t>(std::ldexp(*judge.sample, 64));
  uint64_t left = taken ? judge.max_document_chars.value_or(size) : 0;
  size_t stop = left < size ? 0 : size;
  for (; left != 0 && stop < size; --left) {
    const size_t valid = character_size(text + stop, size - stop);
    stop += valid ? valid : ill_formed_at(text + stop, size - stop).size;
  }
  if (taken && stop < size) {  // perhaps in a token, which is not taken either
    auto match = specials_.find(text, 0, size);
    while (match && match.end <= stop) match = specials_.find(text, match.end, size);
    stop = std::min(stop, match.start);
  }
  read(text, stop, true);
  if (taken && kept_ && separator) {
    refuse(separator.id, checked_offset_ + size - stop, true);
    if (options_.sink) options_.sink->special_token(separator.id), options_.sink->keep();
  }
  statistics_.special_tokens += static_cast<bool>(separator);
  const size_t passed = size - stop + (separator.end - separator.start);
  checked_offset_ += passed;
  auto& [documents, bytes, characters] = taken ? statistics_.cut : statistics_.left_out;
  documents += stop < size, bytes += size - stop;
  for (; stop < size; ++stop) characters += (text[stop] & 0xC0) != 0x80;
}

}  // namespace bpe
