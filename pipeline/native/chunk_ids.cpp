#include "chunk_ids.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

namespace bpe {
namespace {

constexpr size_t kReadable = 64;  // bytes behind the last piece

}  // namespace

ChunkIds::ChunkIds(Encoder& encoder, std::vector<uint32_t> special_ids, std::optional<uint32_t> separator,
                   bool separators, bool judged)
    : encoder_(encoder),
      state_(encoder),
      special_ids_(std::move(special_ids)),
      separator_(separator),
      separators_(separators && separator),
      judged_(judged) {}

void ChunkIds::pieces(const uint8_t* text, size_t start, const uint32_t* ends, size_t count) {
  std::array<uint32_t, Encoder::State::kBlockPieces> block;
  size_t begin = start;
  for (size_t at = 0; at < count;) {
    const size_t stop = std::min(count, at + block.size());
    const size_t first = at, block_begin = begin;
    for (; at < stop; ++at) {
      if (ends[at] - begin > RankMerger::kMaxPieceBytes) throw std::length_error("a piece is beyond the limit of 1 GiB");
      block[at - first] = static_cast<uint32_t>(ends[at] - block_begin);
      begin = ends[at];
    }
    encoder_.encode_block(text + block_begin, {block.data(), stop - first}, begin - block_begin + kReadable, *state_, ids_);
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
