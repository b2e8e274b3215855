#include "merge/known_merges.hpp"

namespace bpe::merge {

KnownMerges::KnownMerges(std::vector<PairKey> keys) : merges_(std::move(keys)) {
  if (merges_.empty()) return;
  std::vector<uint64_t> sizes(kFirstMerge, 1);
  uint64_t all = 0;
  for (const auto key : merges_) all += sizes.emplace_back(sizes[left_of(key)] + sizes[right_of(key)]);
  // Beyond the limit, the merger needs only the first and the last byte of a token.
  const bool whole = all <= ChainMerger::kMaxTokenBytes;
  std::vector<std::string> bytes(kFirstMerge);
  for (Symbol id = 0; id < kBoundary; ++id) bytes[id] = static_cast<char>(byte_of_id(id));
  for (const auto key : merges_) {
    const auto &left = bytes[left_of(key)], &right = bytes[right_of(key)];
    bytes.push_back(whole ? left + right : std::string{left.front(), right.back()});
  }
  std::vector<Token> tokens;
  std::vector<Merge> merges;
  for (Symbol symbol = 0; symbol < bytes.size(); ++symbol)
    if (symbol != kBoundary) tokens.push_back({symbol, bytes[symbol]});
  for (const auto key : merges_)
    merges.push_back({left_of(key), right_of(key), kFirstMerge + static_cast<Symbol>(merges.size())});
  merger_.emplace(tokens, merges, whole);
}

}  // namespace bpe::merge
