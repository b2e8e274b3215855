#include "encode/token_trie.hpp"

namespace bpe {

// Free cells hang in a ring, whose hook is cell 0: the root's own, which is never free.
struct TokenTrie::Layout {
  std::vector<Node>& nodes;
  std::vector<uint32_t> next{0}, previous{0};

  static constexpr int kTries = 32;  // places looked at before a node's children get fresh cells

  void grow(size_t cells) {
    if (cells > kNone / 2) throw std::length_error("the tokens are too many for one encoder");
    for (size_t cell = nodes.size(); cell < cells; ++cell) {
      nodes.emplace_back();
      next.push_back(0);
      previous.push_back(previous[0]);
      next[previous[0]] = static_cast<uint32_t>(cell);
      previous[0] = static_cast<uint32_t>(cell);
    }
  }
  bool free(size_t cell) const { return cell != 0 && (cell >= nodes.size() || nodes[cell].parent == kNone); }
  void take(uint32_t cell, uint32_t parent) {
    nodes[cell].parent = parent;
    next[previous[cell]] = next[cell];
    previous[next[cell]] = previous[cell];
  }
  uint32_t base_for(std::span<const uint8_t> bytes) {
    int tries = 0;
    for (uint32_t cell = next[0]; cell != 0 && tries < kTries; cell = next[cell], ++tries) {
      if (cell < bytes[0]) continue;
      const uint32_t base = cell - bytes[0];
      if (std::all_of(bytes.begin(), bytes.end(), [&](uint8_t byte) { return free(size_t{base} + byte); })) return base;
    }
    return static_cast<uint32_t>(nodes.size());
  }
};

TokenTrie::TokenTrie(std::vector<Entry> entries, std::span<uint32_t> shorter) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.bytes < b.bytes; });
  nodes_.emplace_back();
  Layout layout{nodes_};
  struct Open {  // a node, the entries below it, and the longest token on the way to it
    uint32_t node, found;
    size_t begin, end, depth;
  };
  std::vector<Open> open;
  if (!entries.empty()) open.push_back({0, kNone, 0, entries.size(), 0});
  layout.grow(256);
  while (!open.empty()) {
    Open now = open.back();
    open.pop_back();
    while (now.begin < now.end && entries[now.begin].bytes.size() == now.depth) {
      const uint32_t number = entries[now.begin++].number;
      shorter[number] = now.found;
      nodes_[now.node].number = now.found = number;
    }
    std::array<uint8_t, 256> bytes;
    std::array<size_t, 257> starts;
    size_t children = 0;
    for (size_t at = now.begin; at < now.end; ++at) {
      const auto byte = static_cast<uint8_t>(entries[at].bytes[now.depth]);
      if (children == 0 || bytes[children - 1] != byte) {
        bytes[children] = byte;
        starts[children++] = at;
      }
    }
    if (children == 0) continue;
    starts[children] = now.end;
    const uint32_t base = layout.base_for({bytes.data(), children});
    layout.grow(size_t{base} + 256);
    nodes_[now.node].base = base;
    for (size_t child = 0; child < children; ++child) {
      const uint32_t cell = base + bytes[child];
      layout.take(cell, now.node);
      open.push_back({cell, now.found, starts[child], starts[child + 1], now.depth + 1});
    }
  }
  std::vector<Start> pairs(size_t{1} << 16);
  for (uint32_t pair = 0; pair < pairs.size(); ++pair) {
    const uint8_t bytes[2] = {static_cast<uint8_t>(pair >> 8), static_cast<uint8_t>(pair)};
    const uint32_t first = nodes_[0].base + bytes[0];
    if (nodes_[first].parent != 0) continue;
    if (nodes_[first].number != kNone) pairs[pair].found = {nodes_[first].number, 1};
    const uint32_t second = nodes_[first].base + bytes[1];
    if (nodes_[second].parent != first) continue;
    pairs[pair].node = second;
    if (nodes_[second].number != kNone) pairs[pair].found = {nodes_[second].number, 2};
  }
  starts_ = std::move(pairs);
}

}  // namespace bpe
