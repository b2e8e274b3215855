#include "merge/merge_join.hpp"

#include <algorithm>

namespace bpe::merge {
namespace {

constexpr std::size_t kAhead = 24;
constexpr std::size_t kPerBeat = std::size_t{1} << 16;

// The weight of positions asked for in ascending order.
class WeightCursor {
 public:
  explicit WeightCursor(const std::vector<Run>& runs) : run_(runs.data()), last_(runs.data() + runs.size() - 1) {}
  std::uint64_t at(Position position) {
    if (position >= run_[1].begin) seek(position);
    return run_->weight;
  }

 private:
  void seek(Position position) {
    std::ptrdiff_t step = 1;
    while (last_ - run_ > step && position >= run_[step].begin) {
      run_ += step;
      step *= 2;
    }
    const Run* const beyond = last_ - run_ > step ? run_ + step : last_;
    run_ = std::upper_bound(run_ + 1, beyond, position,
                            [](Position wanted, const Run& run) { return wanted < run.begin; }) -
           1;
  }
  const Run* run_;
  const Run* last_;  // the guard
};

}  // namespace

template <class S>
void join_listed(Shard<S>& shard, const Join& join, const std::vector<std::uint32_t>& spans,
                 std::vector<Position>& positions, Surroundings& around, Pulse& pulse, unsigned member) {
  S* const symbols = shard.symbols.data();
  const std::uint32_t left_span = spans[join.left], right_span = spans[join.right];
  const std::uint32_t reach = left_span + right_span;
  WeightCursor weights(shard.runs);
  Neighbours::Adder left(around.left), right(around.right);
  Position* const listed = positions.data();
  const std::size_t n = positions.size();
  std::size_t joined = 0;
  for (std::size_t i = 0; i < n;) {
    pulse.beat(member);
    for (const std::size_t stop = std::min(n, i + kPerBeat); i < stop; ++i) {
      if (i + kAhead < n) {  // both ends: an eighth of the occurrences straddle two cache lines
        __builtin_prefetch(symbols + listed[i + kAhead] - 1, 1);
        __builtin_prefetch(symbols + listed[i + kAhead] + reach, 1);
      }
      const Position first = listed[i];
      if (symbols[first] != join.left) continue;
      const Position second = first + left_span;
      if (symbols[second] != join.right) continue;
      const Position after = second + right_span;
      const Symbol before_symbol = symbols[first - 1] & ~kTail<S>, after_symbol = symbols[after];
      symbols[second - 1] = kHole<S>;
      symbols[second] = kHole<S>;
      symbols[after - 1] = static_cast<S>(join.made | kTail<S>);
      symbols[first] = static_cast<S>(join.made);
      const auto weight = weights.at(first);
      left.add(before_symbol, weight);
      right.add(after_symbol, weight);
      listed[joined++] = first;
    }
  }
  positions.resize(joined);
}

template <class S>
void list_neighbours(const Shard<S>& shard, const Join& join, const std::vector<std::uint32_t>& spans,
                     const std::vector<Position>& positions, Surroundings& around, PositionArena& arena,
                     std::vector<ListWriter>& writers, Pulse& pulse, unsigned member) {
  const S* const symbols = shard.symbols.data();
  const std::uint32_t made_span = spans[join.made];
  const std::size_t n = positions.size();
  for (std::size_t i = 0; i < n;) {
    pulse.beat(member);
    for (const std::size_t stop = std::min(n, i + kPerBeat); i < stop; ++i) {
      if (i + kAhead < n) __builtin_prefetch(symbols + positions[i + kAhead]);
      const Position position = positions[i];
      const Symbol before = symbols[position - 1] & ~kTail<S>, after = symbols[position + made_span];
      const auto &left = around.left[before], &right = around.right[after];
      if (left.writer != 0) writers[left.writer - 1].append(arena, position - spans[before]);
      if (right.writer != 0) writers[right.writer - 1].append(arena, position);
    }
  }
}

template void join_listed(Shard<std::uint16_t>&, const Join&, const std::vector<std::uint32_t>&,
                          std::vector<Position>&, Surroundings&, Pulse&, unsigned);
template void join_listed(Shard<std::uint32_t>&, const Join&, const std::vector<std::uint32_t>&,
                          std::vector<Position>&, Surroundings&, Pulse&, unsigned);
template void list_neighbours(const Shard<std::uint16_t>&, const Join&, const std::vector<std::uint32_t>&,
                              const std::vector<Position>&, Surroundings&, PositionArena&,
                              std::vector<ListWriter>&, Pulse&, unsigned);
template void list_neighbours(const Shard<std::uint32_t>&, const Join&, const std::vector<std::uint32_t>&,
                              const std::vector<Position>&, Surroundings&, PositionArena&,
                              std::vector<ListWriter>&, Pulse&, unsigned);

}  // namespace bpe::merge
