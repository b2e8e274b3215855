// CountTally: how much of a counter is counted how often, in little memory: what merging would take, and what would
// be left of the text if rare pieces were left out, is forecast from it.
//
// Idea: a class for each count below 1,024, and above eight for each doubling. A class begins at its lowest count, so
// sums over classes are exact for every bound that is the beginning of one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "merge.hpp"

namespace bpe {

class CountTally {
 public:
  struct Class {
    std::uint64_t lowest = 0;   // count
    std::uint64_t pieces = 0;   // different ones
    std::uint64_t bytes = 0;    // of them
    std::uint64_t slots = 0;    // in the merge engine: of pieces of two bytes or more, with a boundary each
    double text_bytes = 0;      // bytes times counts
  };

  CountTally();
  void add(const PieceBatch& batch);
  // The classes that have pieces, the lowest counts first.
  std::vector<Class> classes() const;

 private:
  std::vector<Class> classes_;
};

}  // namespace bpe
