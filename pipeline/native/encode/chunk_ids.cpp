#include "encode/chunk_ids.hpp"

#include <algorithm>
#include <utility>

namespace bpe {
namespace {

constexpr size_t kReadable = 64;  // bytes behind the last piece

}  // namespace

ChunkIds::ChunkIds(Encoder& encoder, std::vector<uint32_t> special_ids, std::optional<uint32_t> separator,
                   bool separators, bool judged)
    : encoder_(encoder),
      state_(encoder.lease()),
      special_ids_(std::move(special_ids)),
      separator_(separator),
      separators_(separators && separator),
      judged_(judged) {}

void ChunkIds::pieces(const uint8_t* text, size_t start, const uint32_t* ends, size_t count) {
  const size_t readable = ends[count - 1] + kReadable;
  while (count != 0) {
    const size_t block = std::min(count, Encoder::kBlockPieces);
    encoder_.encode_block(text, start, {ends, block}, readable, *state_, ids_);
    start = ends[block - 1];
    ends += block;
    count -= block;
  }
}

void ChunkIds::special_token(size_t index) {
  const uint32_t id = special_ids_[index];
  if (id != separator_) {
    ids_.push(id);
  } else {
    end_document();
  }
  keep();
}

void ChunkIds::end_of_text() {
  keep();
  if (!std::exchange(goes_on_, false) && position() > last_end_) end_document();
  keep();
}

void ChunkIds::end_document() {
  if (separators_) ids_.push(*separator_);
  last_end_ = position();
  ends_.push_back(last_end_);
}

}  // namespace bpe
