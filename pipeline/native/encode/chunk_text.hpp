// The text of one chunk as a ChunkCounter has it: repaired, or without the documents that are skipped; special tokens as
// they stand. For tokenizers that change texts before they cut them, which happens outside of the core.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "count/counting.hpp"

namespace bpe {

class ChunkText : public PieceSink {
 public:
  // special_texts: those of the counter. `judged`: whether documents may be dropped.
  ChunkText(std::vector<std::string> special_texts, bool judged)
      : special_texts_(std::move(special_texts)), judged_(judged) {}

  size_t piece_copies() const override { return 8; }
  void pieces(const uint8_t* text, size_t start, const uint32_t* ends, size_t count) override {
    text_.append(reinterpret_cast<const char*>(text) + start, ends[count - 1] - start);
  }
  void keep() override { kept_ = text_.size(); }
  void drop() override { text_.resize(kept_); }
  void special_token(size_t index) override {
    text_.append(special_texts_[index]);
    keep();
  }
  void end_of_text() override {
    keep();
    ends_.push_back(kept_);
  }
  size_t undecided_bytes() const override { return text_.size() - kept_; }

  // The text that is certain, and where files or records end in it; both are then forgotten.
  std::pair<std::string, std::vector<uint64_t>> take() {
    const size_t size = judged_ ? kept_ : text_.size();
    std::string taken = text_.substr(0, size);
    text_.erase(0, size);
    kept_ = 0;
    return {std::move(taken), std::exchange(ends_, {})};
  }

 private:
  std::vector<std::string> special_texts_;
  bool judged_;
  std::string text_;
  size_t kept_ = 0;  // of text_: what is certain
  std::vector<uint64_t> ends_;
};

}  // namespace bpe
