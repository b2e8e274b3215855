// CountTally: a histogram of counts in constant memory. It predicts the memory of merging, and the text lost by a minimum
// count.
//
// Idea: a class for each count below 1,024, and above eight for each doubling. A class starts at its lowest count, so
// sums over classes are exact for every bound that is the start of one. Of the pre-tokens that will be merged the pairs of
// bytes are counted as well, since the engine's first index is of the most frequent of them.
#pragma once
#include <iterator>

#include "count/columns.hpp"
#include "text/utf8.hpp"

namespace bpe {

class CountTally {
 public:
  struct Class {
    uint64_t lowest = 0;      // count
    uint64_t pre_tokens = 0;  // different ones
    uint64_t bytes = 0;       // of them
    uint64_t slots = 0;       // in the merge engine: of pre-tokens of two bytes or more, with a boundary each
    double found = 0;         // the sum of the counts
    double text_bytes = 0;    // bytes times counts
  };

  // What the engine indexes first. Of positions, that is, not weighted with counts.
  struct FirstIndex {
    uint64_t pairs = 0, positions = 0;
    uint64_t longest_list = 0;  // positions of one pair of bytes, indexed first or not
  };

  // Pre-tokens counted less often than `min_count` will not be merged.
  explicit CountTally(uint64_t min_count = 1)
      : min_count_(min_count), classes_(kExact + kSteps * (64 - kExactBits)), positions_(1 << 16), counts_(1 << 16) {
    for (size_t i = 0; i < classes_.size(); ++i) classes_[i].lowest = lowest_of(i);
  }
  void add(const ColumnsView& columns) {
    for (size_t i = 0; i < columns.rows; ++i) {
      const size_t bytes = columns.pre_token_size(i);
      const uint64_t found = columns.counts[i];
      Class& one = classes_[class_of(found)];
      ++one.pre_tokens;
      one.bytes += bytes;
      one.slots += bytes < 2 ? 0 : bytes + 1;
      const auto count = static_cast<double>(found);
      one.found += count;
      one.text_bytes += static_cast<double>(bytes) * count;
      if (found < min_count_ || bytes == 0) continue;
      const uint8_t* const pre_token = columns.pre_token(i);
      size_t pair = pre_token[0];
      for (size_t at = 1; at < bytes; ++at) {
        pair = (pair << 8 | pre_token[at]) & 0xFFFF;
        ++positions_[pair];
        counts_[pair] += count;
      }
    }
  }
  // The index of at most that many pairs and positions; or, where those are more, of all pairs whose counts are alike.
  FirstIndex first_index(uint64_t max_pairs, uint64_t max_positions) const {
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
    // Pairs of about the same count are indexed together, however many they are: the engine classes counts by quarters
    // of a doubling.
    FirstIndex alike;
    for (size_t first = 0, end = 0; first < order.size(); ++first) {
      for (; end < order.size() && counts_[order[end]] >= kAlike * counts_[order[first]]; ++end)
        grow(alike, order[end]);
      if (alike.positions + kPairPositions * alike.pairs > index.positions + kPairPositions * index.pairs) {
        index.pairs = alike.pairs;
        index.positions = alike.positions;
      }
      --alike.pairs;
      alike.positions -= positions_[order[first]];
    }
    return index;
  }
  // Whether the pre-tokens of at least two bytes have none that UTF-8 never has: C0, C1, F5 and above.
  bool is_text() const {
    for (size_t pair = 0; pair < positions_.size(); ++pair)
      if (positions_[pair] != 0 && (never_in_utf8(pair >> 8) || never_in_utf8(pair & 255))) return false;
    return true;
  }
  // The classes that have pre-tokens, the lowest counts first.
  std::vector<Class> classes() const {
    std::vector<Class> found;
    std::copy_if(classes_.begin(), classes_.end(), std::back_inserter(found),
                 [](const Class& one) { return one.pre_tokens; });
    return found;
  }

 private:
  static constexpr unsigned kExactBits = 10, kSteps = 8;  // classes for each doubling
  static constexpr double kAlike = 0.75;
  static constexpr uint64_t kPairPositions = 100;  // a pair takes as much memory as that many positions
  static constexpr size_t kExact = size_t{1} << kExactBits;
  static size_t class_of(uint64_t count) {
    if (count < kExact) return static_cast<size_t>(count);
    const auto exponent = static_cast<unsigned>(std::bit_width(count)) - 1;
    return kExact + kSteps * (exponent - kExactBits) + (count >> (exponent - 3) & (kSteps - 1));
  }
  static uint64_t lowest_of(size_t index) {
    if (index < kExact) return index;
    const auto exponent = kExactBits + static_cast<unsigned>(index - kExact) / kSteps;
    return (kSteps + (index - kExact) % kSteps) << (exponent - 3);
  }

  uint64_t min_count_;
  std::vector<Class> classes_;
  std::vector<uint64_t> positions_;  // of the pair (left, right) at 256 * left + right
  std::vector<double> counts_;       // of the pair, likewise
};

}  // namespace bpe
