#include "encode/token_trie.hpp"

namespace bpe {

static constexpr int kTries = 64;  // cells looked at before a node's children get fresh ones

TokenTrie::TokenTrie(std::vector<Entry> entries, std::span<uint32_t> shorter) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.bytes < b.bytes; });
  nodes_.resize(256);
  size_t first_free = 1;  // no free cell is before it; cell 0 is the root's own
  const auto free = [this](size_t cell) {
    return cell != 0 && (cell >= nodes_.size() || nodes_[cell].parent == kNone);
  };
  const auto base_for = [&](std::span<const uint8_t> bytes) {
    while (!free(first_free)) ++first_free;
    size_t base = std::max<size_t>(first_free, bytes[0]) - bytes[0];
    for (int tries = 0; !std::ranges::all_of(bytes, [&](uint8_t byte) { return free(base + byte); }); ++base)
      if (++tries == kTries) base = nodes_.size() - 1;
    if (base > kNone / 2) throw std::length_error("the tokens are too many for one encoder");
    nodes_.resize(std::max(nodes_.size(), base + 256));
    return static_cast<uint32_t>(base);
  };
  struct Open {  // a node, the entries below it, and the longest token on the way to it
    uint32_t node, found;
    size_t begin, end, depth;
  };
  std::vector<Open> open;
  if (!entries.empty()) open.push_back({0, kNone, 0, entries.size(), 0});
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
    const uint32_t base = base_for({bytes.data(), children});
    nodes_[now.node].base = base;
    for (size_t child = 0; child < children; ++child) {
      const uint32_t cell = base + bytes[child];
      nodes_[cell].parent = now.node;
      open.push_back({cell, now.found, starts[child], starts[child + 1], now.depth + 1});
    }
  }
  starts_.resize(size_t{1} << 16);
  for (uint32_t pair = 0; pair < starts_.size(); ++pair) {
    const uint8_t bytes[2] = {static_cast<uint8_t>(pair >> 8), static_cast<uint8_t>(pair)};
    const uint32_t first = nodes_[0].base + bytes[0];
    if (nodes_[first].parent != 0) continue;
    if (nodes_[first].number != kNone) starts_[pair].found = {nodes_[first].number, 1};
    const uint32_t second = nodes_[first].base + bytes[1];
    if (nodes_[second].parent != first) continue;
    starts_[pair].node = second;
    if (nodes_[second].number != kNone) starts_[pair].found = {nodes_[second].number, 2};
  }
}

}  // namespace bpe
