// What the merge engine is given: pieces in batches, or a source of them.
#include <stdexcept>
#include <string>
#include <utility>

#include "merge/merge.hpp"

namespace bpe {
namespace {

constexpr std::int64_t kLongestPiece = std::int64_t{1} << 30;

}  // namespace

void check_batch(const PieceBatch& batch) {
  const auto& [offsets, data, counts, owner] = batch;
  if (offsets.size() != counts.size() + 1)
    throw std::invalid_argument("offsets must hold one number more than counts: " +
                                std::to_string(offsets.size()) + " and " + std::to_string(counts.size()));
  if (offsets.front() < 0) throw std::invalid_argument("the first offset is negative");
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (offsets[i + 1] < offsets[i])
      throw std::invalid_argument("offsets decrease at piece " + std::to_string(i));
    if (offsets[i + 1] - offsets[i] > kLongestPiece)
      throw std::invalid_argument("piece " + std::to_string(i) + " is longer than 1 GiB");
  }
  if (static_cast<std::uint64_t>(offsets.back()) > data.size())
    throw std::invalid_argument("the last offset lies beyond the data");
}

void MergeEngine::add(PieceBatch batch) {
  if (used_ || source_) throw std::invalid_argument("pieces cannot be added after run() or beside stream()");
  check_batch(batch);
  batches_.push_back(std::move(batch));
}

void MergeEngine::stream(PieceSource source, std::uint64_t bytes) {
  if (used_ || source_ || !batches_.empty()) throw std::invalid_argument("stream() stands alone, before run()");
  source_ = std::move(source);
  source_bytes_ = bytes;
}

}  // namespace bpe
