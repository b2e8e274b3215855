// KnownMerges: applies an existing merge list to all pre-tokens: to resume a training, and to start superwords from the first
// stage.
//
// Idea: a merge that uses a token comes after the one that made it, so joining the pair of lowest rank, again and again, is
// the same as making all merges in their order: what the encoder does (rank_merge.hpp). How often each merge joins follows
// from how often its token is left and how often it is part of others.
// Cost: that of encoding, and the bytes of all tokens, up to the encoder's limit.
#pragma once
#include "encode/rank_merge.hpp"
#include "merge/sketch.hpp"
#include "merge/words.hpp"

namespace bpe::merge {

class KnownMerges {
 public:
  // What one thread needs, and how often each merge's token is left in its words.
  struct Memory {
    explicit Memory(const KnownMerges& known) : left_over(known.merges_.size(), 0) {}
    std::vector<uint64_t> left_over;
    RankMerger::Scratch scratch;
    IdBuffer made;
  };

  KnownMerges() = default;
  // In order of rank, the first one of bytes.
  explicit KnownMerges(std::vector<PairKey> merges);
  bool empty() const { return merges_.empty(); }

  // Makes a word of a pre-token, which occurs `weight` times.
  template <class S>
  void apply(std::span<const uint8_t> pre_token, uint64_t weight, Memory& memory, std::vector<S>& word) const {
    memory.made.clear();
    merger_->encode({reinterpret_cast<const char*>(pre_token.data()), pre_token.size()}, memory.scratch, memory.made);
    word.resize(memory.made.size());
    for (size_t i = 0; i < word.size(); ++i) {
      const Symbol symbol = memory.made.data()[i];
      word[i] = static_cast<S>(symbol);
      if (symbol >= kFirstMerge) memory.left_over[symbol - kFirstMerge] += weight;
    }
  }

  // How often each merge has joined, by rank.
  std::vector<uint64_t> joined(const std::vector<Memory>& memories) const {
    std::vector<uint64_t> sums(merges_.size(), 0);
    for (const auto& memory : memories) add_to(sums, memory.left_over);
    for (size_t rank = sums.size(); rank-- > 0;)
      for (const Symbol part : {left_of(merges_[rank]), right_of(merges_[rank])})
        if (part >= kFirstMerge) sums[part - kFirstMerge] += sums[rank];
    return sums;
  }

 private:
  std::vector<PairKey> merges_;
  std::optional<RankMerger> merger_;  // ids are symbols
};

}  // namespace bpe::merge
