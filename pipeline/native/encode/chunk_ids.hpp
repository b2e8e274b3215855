// ChunkIds: what a ChunkCounter feeds instead of counting, the ids of one chunk.
#pragma once
#include "count/counting.hpp"
#include "encode/encode.hpp"

namespace bpe {

// What a chunk's pre-tokens and special tokens are encoded to, and where the documents among the ids end.
//
// A document ends with `separator`, which its text may contain, and with its text, a file or a record; where the text
// does not end with the separator itself, its id is added (`separators`), or no separator is written at all. Ids pile
// up until they are taken, in the width of a shard; those of a document that may still be dropped stay. Each document
// that is not empty starts with the ids `front`, and ends, before the separator's id, with the ids `behind`.
class ChunkIds : public PreTokenSink {
 public:
  // Special token i of the counter has the id special_ids[i]. `separators`: whether the separator's id is among the
  // ids. `judged`: whether documents may be dropped. The encoder outlives this.
  ChunkIds(Encoder& encoder, std::vector<uint32_t> special_ids, std::optional<uint32_t> separator, bool separators,
           bool judged, std::vector<uint32_t> front = {}, std::vector<uint32_t> behind = {})
      : encoder_(encoder),
        state_(encoder.lease()),
        special_ids_(std::move(special_ids)),
        separator_(separator),
        separators_(separators && separator),
        judged_(judged),
        front_(std::move(front)),
        behind_(std::move(behind)),
        found_(special_ids_.size()) {}

  void pre_tokens(const uint8_t* text, size_t start, const uint32_t* ends, size_t count) override {
    start_document();
    text_.bytes += ends[count - 1] - start;
    const size_t readable = ends[count - 1] + kReadableAfter;
    const size_t before = ids_.size();
    for (size_t block; count != 0; count -= block) {
      block = std::min(count, Encoder::kBlockPreTokens);
      encoder_.encode_block(text, start, {ends, block}, readable, *state_, ids_);
      ends += block;
      start = ends[-1];
    }
    text_.ids += ids_.size() - before;
  }
  void keep() override {
    kept_ = ids_.size();
    kept_text_ = text_;
    undecided_.clear();
    kept_in_document_ = in_document_;
  }
  void drop() override {
    ids_.shrink(kept_);
    text_ = kept_text_;
    for (const size_t index : undecided_) --found_[index];
    undecided_.clear();
    in_document_ = kept_in_document_;
  }
  void special_token(size_t index) override {
    ++found_[index];
    if (judged_) undecided_.push_back(index);
    const uint32_t id = special_ids_[index];
    if (id != separator_) {
      start_document();
      ids_.push(id);
    } else {
      end_document();
    }
  }
  void end_of_text() override {
    keep();
    if (!std::exchange(continues_, false)) {
      if (position() > last_end_) end_document();
      in_document_ = false;
    }
    keep();
  }
  size_t undecided_bytes() const override { return (ids_.size() - kept_) * sizeof(uint32_t); }
  // In the window, twice as that grows, while it is merged, as ids.
  size_t pre_token_copies() const override { return 24; }

  // Whether the next text starts inside a document that started elsewhere.
  void start_text(bool inside_document) { in_document_ = kept_in_document_ = inside_document; }
  // The next text ends inside a document, which continues elsewhere.
  void end_inside_document() { continues_ = true; }

  // Token i of the counter has the id ids[i] from here on; they are counted from 0.
  void recognise(std::vector<uint32_t> ids) {
    special_ids_ = std::move(ids);
    found_.assign(special_ids_.size(), 0);
  }
  // The text between special tokens: its bytes, as it was cut, and its ids.
  struct Text {
    uint64_t bytes = 0, ids = 0;
  };
  const Text& text() const { return text_; }

  // How often the text has each special token.
  const std::vector<uint64_t>& found() const { return found_; }

  // How many ids can be taken now; `Id` is uint16_t or uint32_t.
  size_t ready() const { return judged_ ? kept_ : ids_.size(); }
  template <class Id>
  void take(Id* to) {
    const size_t count = ready();
    for (size_t i = 0; i < count; ++i) to[i] = static_cast<Id>(ids_.data()[i]);
    ids_.drop_front(count);
    taken_ += count;
    kept_ -= judged_ ? count : kept_;
  }
  // Where documents end, in all ids of the chunk, as far as they were found since the last call.
  std::vector<uint64_t> take_ends() { return std::exchange(ends_, {}); }

 private:
  uint64_t position() const { return taken_ + ids_.size(); }
  void push(const std::vector<uint32_t>& ids) {
    for (const uint32_t id : ids) ids_.push(id);
  }
  void start_document() {
    if (!in_document_) push(front_);
    in_document_ = true;
  }
  void end_document() {
    if (std::exchange(in_document_, false)) push(behind_);
    if (separators_) ids_.push(*separator_);
    last_end_ = position();
    ends_.push_back(last_end_);
  }

  Encoder& encoder_;
  Encoder::Lease state_;
  std::vector<uint32_t> special_ids_;
  std::optional<uint32_t> separator_;
  bool separators_, judged_, continues_ = false, in_document_ = false, kept_in_document_ = false;
  std::vector<uint32_t> front_, behind_;
  std::vector<uint64_t> found_;
  std::vector<size_t> undecided_;  // special tokens of a document that may still be dropped
  Text text_, kept_text_;
  IdBuffer ids_;
  size_t kept_ = 0;     // of ids_: those that are certain
  uint64_t taken_ = 0;  // ids that were taken away
  uint64_t last_end_ = 0;
  std::vector<uint64_t> ends_;
};

}  // namespace bpe
