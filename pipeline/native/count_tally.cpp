#include "count_tally.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

namespace bpe {
namespace {

constexpr unsigned kExactBits = 10, kSteps = 8;  // classes for each doubling
constexpr std::size_t kExact = std::size_t{1} << kExactBits;

std::size_t class_of(std::uint64_t count) {
  if (count < kExact) return static_cast<std::size_t>(count);
  const auto exponent = static_cast<unsigned>(std::bit_width(count)) - 1;
  return kExact + kSteps * (exponent - kExactBits) + (count >> (exponent - 3) & (kSteps - 1));
}

std::uint64_t lowest_of(std::size_t index) {
  if (index < kExact) return index;
  const auto exponent = kExactBits + static_cast<unsigned>(index - kExact) / kSteps;
  return (kSteps + (index - kExact) % kSteps) << (exponent - 3);
}

}  // namespace

CountTally::CountTally() : classes_(kExact + kSteps * (64 - kExactBits)) {
  for (std::size_t i = 0; i < classes_.size(); ++i) classes_[i].lowest = lowest_of(i);
}

void CountTally::add(const PieceBatch& batch) {
  for (std::size_t i = 0; i < batch.counts.size(); ++i) {
    const auto bytes = static_cast<std::uint64_t>(batch.offsets[i + 1] - batch.offsets[i]);
    Class& one = classes_[class_of(batch.counts[i])];
    ++one.pieces;
    one.bytes += bytes;
    one.slots += bytes < 2 ? 0 : bytes + 1;
    one.text_bytes += static_cast<double>(bytes) * static_cast<double>(batch.counts[i]);
  }
}

std::vector<CountTally::Class> CountTally::classes() const {
  std::vector<Class> found;
  std::copy_if(classes_.begin(), classes_.end(), std::back_inserter(found), [](const Class& one) { return one.pieces; });
  return found;
}

}  // namespace bpe
