#include "text/specials.hpp"

#include <numeric>
#include <set>

#include "text/targets.hpp"

namespace bpe {

static constexpr size_t kBlock = 64, kMaxProbes = 8;

// The first block from `at` on in which a probe hits, or that is not whole with a byte after it.
template <class Probe>
static BPE_EVERYWHERE size_t end_of_missed_blocks(std::span<const Probe> probes, const uint8_t* text, size_t at,
                                                  size_t size) {
  for (; size - at > kBlock; at += kBlock) {
    const uint8_t* block = text + at;
    uint8_t hit = 0;
    for (const auto& probe : probes) {
      const uint8_t first = probe.first, second = probe.second;
      if (probe.any_second) {
        for (size_t i = 0; i < kBlock; ++i) hit |= static_cast<uint8_t>(block[i] == first);
      } else {
        for (size_t i = 0; i < kBlock; ++i) hit |= static_cast<uint8_t>((block[i] == first) & (block[i + 1] == second));
      }
    }
    if (hit) break;
  }
  return at;
}

SpecialTokens::SpecialTokens(std::vector<std::string> tokens, std::vector<uint32_t> ids)
    : tokens_(std::move(tokens)), ids_(std::move(ids)) {
  if (ids_.empty()) {
    ids_.resize(tokens_.size());
    std::iota(ids_.begin(), ids_.end(), 0u);
  }
  if (ids_.size() != tokens_.size()) throw std::invalid_argument("special tokens need one id each");
  std::set<std::string> seen;
  std::set<std::pair<uint8_t, int>> pairs;  // second byte, or -1 where a token of one byte takes any
  std::set<uint8_t> singles;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& token = tokens_[i];
    if (token.empty()) throw std::invalid_argument("a special token is empty");
    if (!seen.insert(token).second) throw std::invalid_argument("special token given twice: " + token);
    longest_ = std::max(longest_, token.size());
    const auto first = static_cast<uint8_t>(token[0]);
    starts_[first] = true;
    by_first_[first].push_back(static_cast<uint32_t>(i));
    pairs.emplace(first, token.size() > 1 ? static_cast<uint8_t>(token[1]) : -1);
    singles.insert(first);
  }
  for (auto& bucket : by_first_)
    std::sort(bucket.begin(), bucket.end(),
              [&](uint32_t a, uint32_t b) { return tokens_[a].size() > tokens_[b].size(); });
  if (pairs.size() <= kMaxProbes) {
    for (auto [first, second] : pairs) probes_.push_back({first, static_cast<uint8_t>(second), second < 0});
  } else if (singles.size() <= kMaxProbes) {
    for (uint8_t first : singles) probes_.push_back({first, 0, true});
  }
}

SpecialTokens::Match SpecialTokens::match_at(const uint8_t* text, size_t at, size_t size) const {
  for (uint32_t index : by_first_[text[at]]) {
    const std::string& token = tokens_[index];
    if (token.size() <= size - at && std::memcmp(text + at, token.data(), token.size()) == 0)
      return {at, at + token.size(), ids_[index]};
  }
  return {};
}

// The next position at or after `from` where a token may start; `size` when there is none.
size_t SpecialTokens::next_candidate(const uint8_t* text, size_t from, size_t size) const {
  size_t at = from;
  if (!probes_.empty())
    at = run_vectorized<end_of_missed_blocks<Probe>>(std::span<const Probe>(probes_), text, at, size);
  // Either at most one block is left, or this block has the hit.
  for (; at < size; ++at) {
    if (starts_[text[at]]) return at;
  }
  return size;
}

SpecialTokens::Match SpecialTokens::find(const uint8_t* text, size_t from, size_t size) const {
  if (tokens_.empty()) return {};
  for (size_t at = next_candidate(text, from, size); at < size; at = next_candidate(text, at + 1, size)) {
    if (const Match match = match_at(text, at, size)) return match;
  }
  return {};
}

}  // namespace bpe
