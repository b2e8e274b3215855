// How a ChunkCounter counts text that has to be put into its normal form first.
#include "count/counting.hpp"

#include "text/utf8.hpp"

namespace bpe {

// As count_text, of the text in its normal form.
void ChunkCounter::count_normal(size_t limit, bool at_end, PreTokenTable& table) {
  const auto window = [this](size_t end) { return NormalForm::Text(text_.get() + begin_, end - begin_); };
  const size_t stop = at_end ? limit : begin_ + options_.form->last_cut(window(limit));
  if (normal_.empty() && options_.form->has(window(stop), *known_)) {
    cut_text(text_.get(), begin_, stop, at_end, table);
    return;
  }
  while (begin_ < stop) {
    size_t end = std::min(stop, begin_ + options_.window_bytes);
    if (end < stop) end = begin_ + options_.form->last_cut(window(character_start(text_.get(), end, stop)));
    if (end == begin_) end = stop;  // nothing but characters that may join
    options_.form->append(window(end), *known_, normal_);
    consumed_ += end - begin_;
    begin_ = end;
    if (end < stop && !cut_document_) cut_normal(false, table);
  }
  cut_normal(at_end, table);
}

void ChunkCounter::cut_normal(bool at_end, PreTokenTable& table) {
  if (!at_end && (cut_document_ || normal_.size() < normal_limit_)) return;
  const size_t size = normal_.size(), consumed = consumed_;
  size_t done = 0;
  normal_.resize(size + kPadding);
  cut_text(normal_.data(), done, size, at_end, table);
  normal_.resize(size);
  normal_.erase(normal_.begin(), normal_.begin() + static_cast<std::ptrdiff_t>(done));
  consumed_ = consumed;  // bytes of the window
  check_rest(normal_.size(), offset_of(begin_) - std::min<uint64_t>(offset_of(begin_), normal_.size()));
  normal_limit_ = normal_.size() > options_.window_bytes / 2 ? 2 * normal_.size() : 0;
}

}  // namespace bpe
