// CountTally: how much of a counter is counted how often, in little memory: what merging would take, and what would be
// left of the text if rare pieces were left out, is forecast from it.
//
// Idea: a class for each count below 1,024, and above eight for each doubling. A class starts at its lowest count, so
// sums over classes are exact for every bound that is the start of one. Of the pieces that will be merged the pairs of
// bytes are counted as well, since the engine's first index is of the most frequent of them.
#pragma once
#include "count/columns.hpp"

namespace bpe {

class CountTally {
 public:
  struct Class {
    uint64_t lowest = 0;   // count
    uint64_t pieces = 0;   // different ones
    uint64_t bytes = 0;    // of them
    uint64_t slots = 0;    // in the merge engine: of pieces of two bytes or more, with a boundary each
    double found = 0;           // the sum of the counts
    double text_bytes = 0;      // bytes times counts
  };

  // What the engine indexes first. Of positions, that is, not weighted with counts.
  struct FirstIndex {
    uint64_t pairs = 0, positions = 0;
    uint64_t longest_list = 0;  // positions of one pair of bytes, indexed first or not
  };

  // Pieces counted less often than `min_count` will not be merged.
  explicit CountTally(uint64_t min_count = 1);
  void add(const ColumnsView& columns);
  // The index of at most that many pairs and positions; or, where those are more, of all pairs whose counts are alike.
  FirstIndex first_index(uint64_t max_pairs, uint64_t max_positions) const;
  // The classes that have pieces, the lowest counts first.
  std::vector<Class> classes() const;

 private:
  uint64_t min_count_;
  std::vector<Class> classes_;
  std::vector<uint64_t> positions_;  // of the pair (left, right) at 256 * left + right
  std::vector<double> counts_;            // of the pair, likewise
};

}  // namespace bpe
