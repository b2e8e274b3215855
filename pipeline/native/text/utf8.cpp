#include "text/utf8.hpp"

#include "text/targets.hpp"

namespace bpe {
namespace {

constexpr size_t kBlock = 64;

// Whether the bytes of a block are what UTF-8 allows after the three bytes before it. What the block's own last bytes
// ask for is judged with the next block.
BPE_EVERYWHERE bool block_is_valid(const uint8_t* block) {
  uint8_t bad = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    const uint8_t byte = block[i], before = block[i - 1], before2 = block[i - 2], before3 = block[i - 3];
    const uint8_t wanted = (before >= 0xC0) | (before2 >= 0xE0) | (before3 >= 0xF0);
    const uint8_t continues = (byte & 0xC0) == 0x80;
    bad |= wanted ^ continues;
    bad |= static_cast<uint8_t>(((byte & 0xFE) == 0xC0) | (byte >= 0xF5));  // never in UTF-8; then: overlong,
    bad |= static_cast<uint8_t>(((before == 0xE0) & (byte < 0xA0)) | ((before == 0xF0) & (byte < 0x90)));
    bad |= static_cast<uint8_t>(((before == 0xED) & (byte > 0x9F)) | ((before == 0xF4) & (byte > 0x8F)));  // too high
  }
  return bad == 0;
}

BPE_EVERYWHERE bool block_is_ascii(const uint8_t* block) {
  uint8_t all = block[-1] | block[-2] | block[-3];
  for (size_t i = 0; i < kBlock; ++i) all |= block[i];
  return all < 0x80;
}

// Where the first block from `at` on is that is not valid, or not whole.
BPE_EVERYWHERE size_t end_of_valid_blocks(const uint8_t* text, size_t at, size_t size) {
  while (size - at >= kBlock && (block_is_ascii(text + at) || block_is_valid(text + at))) at += kBlock;
  return at;
}

}  // namespace

size_t valid_utf8_prefix(const uint8_t* text, size_t size) {
  size_t at = 0;
  while (true) {
    // Blocks need three bytes before them, and a start between characters.
    if (at >= 3 && size - at >= kBlock) {
      size_t end = run_vectorized<end_of_valid_blocks>(text, at, size);
      if (end > at) {
        // The last character may reach beyond the blocks: step back to its start.
        for (size_t back = 1; back <= 3; ++back) {
          const uint8_t byte = text[end - back];
          if (byte >= 0xC0) end -= back;
          if ((byte & 0xC0) != 0x80) break;
        }
        at = std::max(at, end);
      }
    }
    // Character by character through the block that failed, the start, or the rest.
    const size_t stop = std::min(size, at + kBlock);
    while (at < stop) {
      const size_t step = character_size(text + at, size - at);
      if (step == 0) return at;
      at += step;
    }
    if (at == size) return at;
  }
}

}  // namespace bpe
