#include "encode/rank_merge.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>

namespace bpe {

RankMerger::RankMerger(std::span<const Token> tokens, std::span<const Merge> merges)
    : byte_pair_ranks_(size_t{1} << 16, kNone) {
  byte_ids_.fill(kNone);
  uint32_t id_limit = 0;
  for (const Token& token : tokens) {
    if (token.id == kNone || token.bytes.empty()) throw std::invalid_argument("a token without bytes or id");
    id_limit = std::max(id_limit, token.id + 1);
    if (token.bytes.size() == 1) byte_ids_[static_cast<uint8_t>(token.bytes[0])] = token.id;
  }
  for (uint32_t id : byte_ids_) {
    if (id == kNone) throw std::invalid_argument("a byte has no token");
  }
  std::vector<const Token*> by_id(id_limit, nullptr);
  for (const Token& token : tokens) by_id[token.id] = &token;

  slots_.assign(std::bit_ceil(std::max<size_t>(merges.size(), 8) * 2), Slot{kNone, kNone, kNone});
  mask_ = slots_.size() - 1;
  results_.reserve(merges.size());
  for (const Merge& merge : merges) {
    const auto rank = static_cast<uint32_t>(results_.size());
    for (uint32_t id : {merge.left, merge.right, merge.result}) {
      if (id >= id_limit || !by_id[id]) {
        throw std::invalid_argument("merge " + std::to_string(rank) + " names " + std::to_string(id) +
                                    ", which is not a token");
      }
    }
    results_.push_back(merge.result);
    const std::string_view left = by_id[merge.left]->bytes, right = by_id[merge.right]->bytes;
    const size_t joint = size_t{static_cast<uint8_t>(left.back())} << 8 | static_cast<uint8_t>(right.front());
    joinable_[joint >> 6] |= uint64_t{1} << (joint & 63);
    size_t at = place(merge.left, merge.right);
    while (slots_[at].rank != kNone) {
      if (slots_[at].left == merge.left && slots_[at].right == merge.right) {
        throw std::invalid_argument("merge " + std::to_string(rank) + " stands in the list twice");
      }
      at = (at + 1) & mask_;
    }
    slots_[at] = {merge.left, merge.right, rank};
    if (left.size() == 1 && right.size() == 1) byte_pair_ranks_[joint] = rank;
  }
  chain_ = ChainMerger(by_id, merges);
}

void RankMerger::encode(std::string_view piece, Scratch& scratch, IdBuffer& out) const {
  const auto* bytes = reinterpret_cast<const uint8_t*>(piece.data());
  const size_t size = piece.size();
  if (size > kMaxPieceBytes) {
    throw std::runtime_error("a piece of " + std::to_string(size) + " bytes is beyond the limit of 1 GiB");
  }
  if (size == 0) return;
  if (chain_.usable() && chain_.encode(bytes, size, scratch.chain, out)) return;
  if (size <= 16) {
    encode_stretch(bytes, size, scratch, out);
    return;
  }
  size_t start = 0;
  for (size_t at = 1; at < size; ++at) {
    if (!joinable(bytes[at - 1], bytes[at])) {
      encode_stretch(bytes + start, at - start, scratch, out);
      start = at;
    }
  }
  encode_stretch(bytes + start, size - start, scratch, out);
}

void RankMerger::encode_stretch(const uint8_t* bytes, size_t size, Scratch& scratch, IdBuffer& out) const {
  if (size <= 1) {
    if (size == 1) out.push(byte_ids_[bytes[0]]);
  } else if (size <= kShortBytes) {
    encode_short(bytes, size, out);
  } else {
    encode_by_heap(bytes, size, scratch, out);
  }
}

void RankMerger::encode_short(const uint8_t* bytes, size_t size, IdBuffer& out) const {
  uint32_t ids[kShortBytes];
  uint32_t ranks[kShortBytes];  // ranks[i]: of the pair (i, i + 1)
  size_t count = size;
  for (size_t i = 0; i < size; ++i) ids[i] = byte_ids_[bytes[i]];
  for (size_t i = 0; i + 1 < size; ++i) ranks[i] = byte_pair_ranks_[size_t{bytes[i]} << 8 | bytes[i + 1]];
  while (count > 1) {
    const size_t pairs = count - 1;
    uint32_t least = kNone;
    for (size_t i = 0; i < pairs; ++i) least = std::min(least, ranks[i]);
    if (least == kNone) break;
    size_t at = 0;
    while (ranks[at] != least) ++at;
    ids[at] = results_[least];
    --count;
    std::memmove(ids + at + 1, ids + at + 2, (count - at - 1) * sizeof(uint32_t));
    if (at + 1 < count) {
      std::memmove(ranks + at + 1, ranks + at + 2, (count - at - 2) * sizeof(uint32_t));
      ranks[at] = find(ids[at], ids[at + 1]);
    }
    if (at > 0) ranks[at - 1] = find(ids[at - 1], ids[at]);
  }
  std::memcpy(out.reserve(count), ids, count * sizeof(uint32_t));
  out.advance(count);
}

// Rows of a long stretch, by position of a token's first byte: its id, the rank of the pair that begins there, and
// the positions of its neighbours (`size` and kNone at the ends).
void RankMerger::start_long(const uint8_t* bytes, size_t size, Scratch& s) const {
  for (auto* row : {&s.ids, &s.ranks, &s.next, &s.previous}) row->resize(size);
  for (size_t i = 0; i < size; ++i) {
    s.ids[i] = byte_ids_[bytes[i]];
    s.ranks[i] = i + 1 < size ? byte_pair_ranks_[size_t{bytes[i]} << 8 | bytes[i + 1]] : kNone;
    s.next[i] = static_cast<uint32_t>(i + 1);
    s.previous[i] = static_cast<uint32_t>(i) - 1;
  }
}

namespace {

void append_row(const RankMerger::Scratch& s, size_t size, IdBuffer& out) {
  for (size_t at = 0; at < size; at = s.next[at]) out.push(s.ids[at]);
}

// Working memory of a stretch far above the usual is given back at once.
void trim(RankMerger::Scratch& s) {
  if (s.ids.capacity() > (size_t{1} << 20)) s = {};
}

}  // namespace

void RankMerger::encode_by_heap(const uint8_t* bytes, size_t size, Scratch& s, IdBuffer& out) const {
  start_long(bytes, size, s);
  s.heap.clear();
  for (size_t i = 0; i < size; ++i) {
    if (s.ranks[i] != kNone) s.heap.push_back(uint64_t{s.ranks[i]} << 32 | i);
  }
  const std::greater<> least_first;
  std::make_heap(s.heap.begin(), s.heap.end(), least_first);
  const auto rate = [&](uint32_t at) {
    const uint32_t next = s.next[at];
    s.ranks[at] = next < size ? find(s.ids[at], s.ids[next]) : kNone;
    if (s.ranks[at] != kNone) {
      s.heap.push_back(uint64_t{s.ranks[at]} << 32 | at);
      std::push_heap(s.heap.begin(), s.heap.end(), least_first);
    }
  };
  while (!s.heap.empty()) {
    std::pop_heap(s.heap.begin(), s.heap.end(), least_first);
    const auto rank = static_cast<uint32_t>(s.heap.back() >> 32);
    const auto at = static_cast<uint32_t>(s.heap.back());
    s.heap.pop_back();
    if (s.ranks[at] != rank) continue;  // that pair is gone
    const uint32_t gone = s.next[at];
    s.ids[at] = results_[rank];
    s.ranks[gone] = kNone;
    s.next[at] = s.next[gone];
    if (s.next[at] < size) s.previous[s.next[at]] = at;
    rate(at);
    if (s.previous[at] != kNone) rate(s.previous[at]);
  }
  append_row(s, size, out);
  trim(s);
}

}  // namespace bpe
