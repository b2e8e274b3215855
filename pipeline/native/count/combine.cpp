#include "count/combine.hpp"

#include "count/piece_table.hpp"

namespace bpe {
namespace {

constexpr size_t kWindowRows = 8192;
constexpr const char* kDisorder = "the rows of a counter are not in order of their hash";

void check(const Weight& weight) {
  if (std::min(weight.numerator, weight.denominator) == 0 ||
      std::max(weight.numerator, weight.denominator) > Weight::kMost)
    throw std::invalid_argument("a weight is a fraction of numbers from 1 to 2^62 - 1");
}

// count * weight, rounded half up, at least 1.
uint64_t weighted(uint64_t count, const Weight& weight) {
  if (weight.numerator == weight.denominator) return count;
  if (count > kMaxCount) throw std::overflow_error("the count of a piece is beyond 2^63 - 1");
  const detail::uint128 twice = static_cast<detail::uint128>(count) * weight.numerator * 2 + weight.denominator;
  const detail::uint128 rounded = twice / (static_cast<detail::uint128>(weight.denominator) * 2);
  if (rounded > kMaxCount) throw std::overflow_error("the count of a piece is beyond 2^63 - 1");
  return rounded == 0 ? 1 : static_cast<uint64_t>(rounded);
}

struct Cursor {
  ColumnsView counter;
  Weight weight;
  size_t row;
  uint64_t hash;  // of the row

  bool done() const { return row == counter.rows; }
  void next() {
    if (++row == counter.rows) return;
    const uint64_t before = hash;
    hash = counter.hash(row);
    if (hash < before) throw std::invalid_argument(kDisorder);
  }
};

}  // namespace

Columns combine(const std::vector<ColumnsView>& counters, const std::vector<Weight>& weights) {
  if (!weights.empty() && weights.size() != counters.size())
    throw std::invalid_argument("as many weights as counters are needed, or none");
  for (const Weight& weight : weights) check(weight);
  std::vector<Cursor> cursors;
  size_t rows = 0, data_bytes = 0;
  uint64_t least = ~uint64_t{0}, greatest = 0;
  for (size_t i = 0; i < counters.size(); ++i) {
    const ColumnsView& counter = counters[i];
    if (counter.rows == 0) continue;
    cursors.push_back({counter, weights.empty() ? Weight{} : weights[i], 0, counter.hash(0)});
    least = std::min(least, cursors.back().hash);
    greatest = std::max(greatest, counter.hash(counter.rows - 1));
    rows += counter.rows;
    data_bytes += static_cast<size_t>(counter.offsets[counter.rows] - counter.offsets[0]);
  }
  Columns combined(rows, data_bytes);
  if (rows == 0) return combined;

  // A window is the hashes that share their first known_bits + window_bits bits.
  const unsigned known_bits = std::min(40, std::countl_zero(least ^ greatest));
  const unsigned window_bits = std::min<unsigned>(20, std::bit_width(rows / kWindowRows));
  PieceTable table(known_bits + window_bits, 2 * kWindowRows);
  uint64_t window = known_bits ? least >> (64 - known_bits) << window_bits : 0;
  const unsigned shift = 64 - known_bits - window_bits;
  const auto window_of = [&](uint64_t hash) { return shift == 64 ? 0 : hash >> shift; };
  while (!cursors.empty()) {
    if (window > window_of(greatest)) throw std::invalid_argument(kDisorder);
    bool some_done = false;
    for (Cursor& cursor : cursors) {
      while (!cursor.done() && window_of(cursor.hash) <= window) {
        const ColumnsView& counter = cursor.counter;
        table.add_hashed(cursor.hash, counter.piece(cursor.row), counter.piece_size(cursor.row),
                         weighted(counter.counts[cursor.row], cursor.weight));
        cursor.next();
      }
      some_done |= cursor.done();
    }
    table.append_to(combined);
    table.clear();
    ++window;
    if (some_done) std::erase_if(cursors, [](const Cursor& cursor) { return cursor.done(); });
  }
  if (combined.rows < rows / 2 || combined.data_bytes < data_bytes / 2) combined.fit();  // most pieces were repeated
  return combined;
}

uint64_t weighted_total(const ColumnsView& counter, const Weight& weight) {
  check(weight);
  uint64_t total = 0;
  for (size_t row = 0; row < counter.rows; ++row) {
    const uint64_t count = weighted(counter.counts[row], weight);
    if (count > kMaxCount - total) throw std::overflow_error("the counts together are beyond 2^63 - 1");
    total += count;
  }
  return total;
}

std::vector<size_t> partition_starts(const ColumnsView& counter, size_t partitions) {
  if (!std::has_single_bit(partitions)) throw std::invalid_argument("partitions must be a power of two");
  std::vector<size_t> starts;
  size_t from = 0;
  for (size_t partition = 0; partition < partitions; ++partition) {
    size_t to = counter.rows;
    while (from < to) {
      const size_t middle = from + (to - from) / 2;
      if (scale_hash(counter.hash(middle), partitions) < partition) {
        from = middle + 1;
      } else {
        to = middle;
      }
    }
    starts.push_back(from);
  }
  starts.push_back(counter.rows);
  return starts;
}

}  // namespace bpe
