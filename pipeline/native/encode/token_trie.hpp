// TokenTrie: which tokens start here: the longest, and from it every shorter one.
//
// Idea: a double-array trie. The child of a node for a byte is in the cell `base + byte`, and the cell says whose child
// it is, so that one step is one load and one comparison. Each token knows the longest token that is a proper prefix of
// it, so that all candidates at a position come in falling length without walking again. The first two bytes lead to
// their node at once, through a table of which a text uses a small part.
// Cost: one dependent load a byte; 12 bytes a node, at most one node for each byte of all tokens, and some free cells;
// 512 KiB for the table.
#pragma once
#include "text/base.hpp"

namespace bpe {

class TokenTrie {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Entry {
    std::string_view bytes;  // not empty, all different
    uint32_t number;
  };

  TokenTrie() = default;
  // Writes to shorter[number] the longest token that is a proper prefix of each, or kNone.
  TokenTrie(std::vector<Entry> entries, std::span<uint32_t> shorter);

  struct Found {
    uint32_t number = kNone, length = 0;  // kNone: no token starts so
  };
  // The longest token that text[at, end) starts with. `walked` grows by the bytes that were looked at.
  Found longest(const uint8_t* at, const uint8_t* end, size_t& walked) const {
    const Node* const nodes = nodes_.data();
    const uint8_t* const begin = at;
    Found found;
    uint32_t node = 0;
    if (end - at >= 2) {
      const Start& start = starts_[size_t{at[0]} << 8 | at[1]];
      found = start.found;
      if (start.node == 0) return found;
      node = start.node;
      at += 2;
    }
    for (; at < end; ++at) {
      const uint32_t next = nodes[node].base + *at;
      if (nodes[next].parent != node) break;
      node = next;
      if (nodes[node].number != kNone) found = {nodes[node].number, static_cast<uint32_t>(at + 1 - begin)};
    }
    walked += static_cast<size_t>(at - begin);
    return found;
  }

 private:
  struct Node {
    uint32_t base = 0, parent = kNone, number = kNone;
  };
  struct Start {
    uint32_t node = 0;  // 0: nothing longer than one byte starts so
    Found found;
  };
  std::vector<Node> nodes_;
  std::vector<Start> starts_;  // [first byte << 8 | second byte]
};

}  // namespace bpe
