#include "count/tally.hpp"

#include <iterator>

namespace bpe {
namespace {

constexpr unsigned kExactBits = 10, kSteps = 8;  // classes for each doubling
constexpr double kAlike = 0.75;
constexpr uint64_t kPairPositions = 100;  // a pair takes as much memory as that many positions
constexpr size_t kExact = size_t{1} << kExactBits;

size_t class_of(uint64_t count) {
  if (count < kExact) return static_cast<size_t>(count);
  const auto exponent = static_cast<unsigned>(std::bit_width(count)) - 1;
  return kExact + kSteps * (exponent - kExactBits) + (count >> (exponent - 3) & (kSteps - 1));
}

uint64_t lowest_of(size_t index) {
  if (index < kExact) return index;
  const auto exponent = kExactBits + static_cast<unsigned>(index - kExact) / kSteps;
  return (kSteps + (index - kExact) % kSteps) << (exponent - 3);
}

}  // namespace

CountTally::CountTally(uint64_t min_count)
    : min_count_(min_count), classes_(kExact + kSteps * (64 - kExactBits)), positions_(1 << 16), counts_(1 << 16) {
  for (size_t i = 0; i < classes_.size(); ++i) classes_[i].lowest = lowest_of(i);
}

void CountTally::add(const ColumnsView& columns) {
  for (size_t i = 0; i < columns.rows; ++i) {
    const size_t bytes = columns.piece_size(i);
    const uint64_t found = columns.counts[i];
    Class& one = classes_[class_of(found)];
    ++one.pieces;
    one.bytes += bytes;
    one.slots += bytes < 2 ? 0 : bytes + 1;
    const auto count = static_cast<double>(found);
    one.found += count;
    one.text_bytes += static_cast<double>(bytes) * count;
    if (found < min_count_ || bytes == 0) continue;
    const uint8_t* const piece = columns.piece(i);
    size_t pair = piece[0];
    for (size_t at = 1; at < bytes; ++at) {
      pair = (pair << 8 | piece[at]) & 0xFFFF;
      ++positions_[pair];
      counts_[pair] += count;
    }
  }
}

CountTally::FirstIndex CountTally::first_index(uint64_t max_pairs, uint64_t max_positions) const {
  std::vector<size_t> order;
  FirstIndex index;
  for (size_t pair = 0; pair < positions_.size(); ++pair) {
    if (positions_[pair] != 0) order.push_back(pair);
    index.longest_list = std::max(index.longest_list, positions_[pair]);
  }
  std::sort(order.begin(), order.end(), [this](size_t a, size_t b) { return counts_[a] > counts_[b]; });
  const auto grow = [&](FirstIndex& some, size_t pair) {
    ++some.pairs;
    some.positions += positions_[pair];
  };
  for (const auto pair : order) {
    if (index.pairs >= max_pairs || index.positions + positions_[pair] > max_positions) break;
    grow(index, pair);
  }
  // Pairs of about the same count are indexed together, however many they are: the engine classes counts by quarters of
  // a doubling.
  FirstIndex alike;
  for (size_t first = 0, end = 0; first < order.size(); ++first) {
    for (; end < order.size() && counts_[order[end]] >= kAlike * counts_[order[first]]; ++end) grow(alike, order[end]);
    if (alike.positions + kPairPositions * alike.pairs > index.positions + kPairPositions * index.pairs) {
      index.pairs = alike.pairs;
      index.positions = alike.positions;
    }
    --alike.pairs;
    alike.positions -= positions_[order[first]];
  }
  return index;
}

std::vector<CountTally::Class> CountTally::classes() const {
  std::vector<Class> found;
  std::copy_if(classes_.begin(), classes_.end(), std::back_inserter(found), [](const Class& one) { return one.pieces; });
  return found;
}

}  // namespace bpe
