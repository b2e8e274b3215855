#include "encode/rank_merge.hpp"

namespace bpe {

RankMerger::RankMerger(std::span<const Token> tokens, std::span<const Merge> merges, bool chain)
    : ranks_(merges.size()), borders_(merges.size()) {
  byte_ids_.fill(kNoRank);
  uint32_t id_limit = 0;
  for (const Token& token : tokens) {
    if (token.id == kNoRank || token.bytes.empty()) throw std::invalid_argument("a token without bytes or id");
    id_limit = std::max(id_limit, token.id + 1);
    if (token.bytes.size() == 1) byte_ids_[static_cast<uint8_t>(token.bytes[0])] = token.id;
  }
  if (std::ranges::count(byte_ids_, kNoRank)) throw std::invalid_argument("a byte has no token");
  std::vector<const Token*> by_id(id_limit, nullptr);
  for (const Token& token : tokens) by_id[token.id] = &token;

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
    joinable_.add(*by_id[merge.left], *by_id[merge.right]);
    borders_.add(by_id[merge.left]->bytes, by_id[merge.right]->bytes);
    if (!ranks_.insert(merge.left, merge.right, rank))
      throw std::invalid_argument("merge " + std::to_string(rank) + " is in the list twice");
  }
  if (chain) chain_ = ChainMerger(by_id, merges);
}

void RankMerger::encode(std::string_view pre_token, Scratch& scratch, IdBuffer& out) const {
  const auto* bytes = reinterpret_cast<const uint8_t*>(pre_token.data());
  const size_t size = pre_token.size();
  if (size > kMaxPieceBytes) {
    throw std::runtime_error("a pre-token of " + std::to_string(size) + " bytes is beyond the limit of 1 GiB");
  }
  if (size == 0) return;
  if (chain_.usable() && chain_.encode(bytes, size, scratch.chain, out)) return;
  size_t start = 0;
  for (size_t at = 1; at <= size; ++at) {
    if (at < size && joinable_.has(bytes[at - 1], bytes[at])) continue;
    size_t window = chain_.usable() ? kWindow : size;
    const size_t before = out.size();
    for (; window < at - start; window *= 2, out.shrink(before))
      if (encode_windows(bytes + start, at - start, window, scratch, out)) break;
    if (window >= at - start) encode_stretch(bytes + start, at - start, scratch, out);
    start = at;
  }
}

template <class Joined>
void RankMerger::join_stretch(const uint8_t* bytes, size_t size, Scratch& s, const Joined& joined) const {
  s.ids.resize(size);
  for (size_t i = 0; i < size; ++i) s.ids[i] = byte_ids_[bytes[i]];
  join_by_rank(
      size, s.queue, [&](size_t left, size_t right, size_t) { return ranks_.find(s.ids[left], s.ids[right]); },
      [&](uint32_t rank, uint32_t at, uint32_t) {
        s.ids[at] = results_[rank];
        joined(rank, at);
      });
}

void RankMerger::encode_stretch(const uint8_t* bytes, size_t size, Scratch& s, IdBuffer& out) const {
  join_stretch(bytes, size, s, [](uint32_t, uint32_t) {});
  for (size_t at = 0; at < size; at = s.queue.next[at]) out.push(s.ids[at]);
  // Working memory of a stretch far above the usual is freed at once.
  if (s.ids.capacity() > (size_t{1} << 20)) s = {};
}

std::vector<RankMerger::Step> RankMerger::steps(std::string_view pre_token, Scratch& scratch) const {
  std::vector<Step> made;
  join_stretch(reinterpret_cast<const uint8_t*>(pre_token.data()), pre_token.size(), scratch,
               [&](uint32_t rank, uint32_t at) { made.push_back({rank, at}); });
  return made;
}

std::optional<uint32_t> RankMerger::last_merge(const Token& token, Scratch& scratch) const {
  const std::vector<Step> made = steps(token.bytes, scratch);
  if (made.empty() || made.size() + 1 != token.bytes.size() || scratch.ids[0] != token.id) return std::nullopt;
  return made.back().rank;
}

bool RankMerger::encode_windows(const uint8_t* bytes, size_t size, size_t window, Scratch& s, IdBuffer& out) const {
  IdBuffer held, next;  // the ids from `at` to `stop`, of one window; those of the following one
  size_t at = 0, stop = window;
  encode_stretch(bytes, window, s, held);
  const auto keep = [&](size_t count) {
    std::copy_n(held.data(), count, out.reserve(count));
    out.advance(count);
  };
  while (stop < size) {
    size_t kept = 0, begin = at;  // of held; where the following window begins
    for (size_t length; begin + (length = chain_.length(held.data()[kept])) <= stop - window / 16; ++kept)
      begin += length;
    if (kept == 0) return false;
    const size_t next_stop = std::min(size, begin + window);
    next.clear();
    encode_stretch(bytes + begin, next_stop - begin, s, next);
    size_t border = begin, next_border = begin, dropped = 0;
    while (border != next_border || !chain_.fits(held.data()[kept - 1], next.data()[dropped])) {
      if (border > next_border) {
        next_border += chain_.length(next.data()[dropped++]);
      } else if (kept < held.size()) {
        border += chain_.length(held.data()[kept++]);
      } else {
        return false;
      }
    }
    keep(kept);
    next.drop_front(dropped);
    std::swap(held, next);
    at = border;
    stop = next_stop;
  }
  keep(held.size());
  return true;
}

}  // namespace bpe
