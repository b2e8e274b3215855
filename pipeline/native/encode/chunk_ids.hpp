// The ids of one chunk: what a ChunkCounter's pieces and special tokens become, and where the documents among them end.
//
// A document ends with `separator`, which its text may hold, and with its text, a file or a record; where the text does
// not end with the separator itself, its id is added (`separators`), or no separator is written at all. Ids pile up until
// they are taken, in the width of a shard; those of a document that may still be dropped stay.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "count/counting.hpp"
#include "encode/encode.hpp"
#include "encode/id_buffer.hpp"

namespace bpe {

class ChunkIds : public PieceSink {
 public:
  // What a piece takes in its own bytes while it is encoded: in the window, twice as that grows, while it is merged, as ids.
  size_t piece_copies() const override { return 24; }

  // Special token i of the counter has the id special_ids[i]. `separators`: whether the separator's id stands among the
  // ids. `judged`: whether documents may be dropped. The encoder outlives this.
  ChunkIds(Encoder& encoder, std::vector<uint32_t> special_ids, std::optional<uint32_t> separator, bool separators,
           bool judged);

  void pieces(const uint8_t* text, size_t start, const uint32_t* ends, size_t count) override;
  void keep() override { kept_ = ids_.size(); }
  void drop() override { ids_.shrink(kept_); }
  void special_token(size_t index) override;
  void end_of_text() override;
  size_t undecided_bytes() const override { return (ids_.size() - kept_) * sizeof(uint32_t); }

  // The next text ends inside a document, which goes on elsewhere.
  void end_inside_document() { goes_on_ = true; }

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
  std::vector<uint64_t> take_ends() { return std::move(ends_); }

 private:
  uint64_t position() const { return taken_ + ids_.size(); }
  void end_document();

  Encoder& encoder_;
  Encoder::Lease state_;
  std::vector<uint32_t> special_ids_;
  std::optional<uint32_t> separator_;
  bool separators_, judged_, goes_on_ = false;
  IdBuffer ids_;
  size_t kept_ = 0;         // of ids_: those that are certain
  uint64_t taken_ = 0;      // ids that were taken away
  uint64_t last_end_ = 0;
  std::vector<uint64_t> ends_;
};

}  // namespace bpe
