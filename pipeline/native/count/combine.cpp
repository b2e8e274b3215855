#include "count/combine.hpp"

#include <numeric>

namespace bpe {
namespace {

constexpr unsigned kBucketBits = 12;
constexpr size_t kWindowRows = size_t{1} << (kBucketBits - 1);
constexpr const char* kDisorder = "the rows of a counter are not in order of their hash";
constexpr const char* kTooMany = "the count of a pre-token is beyond 2^63 - 1";

void check(const Weight& weight) {
  if (std::min(weight.numerator, weight.denominator) == 0 ||
      std::max(weight.numerator, weight.denominator) > Weight::kMost)
    throw std::invalid_argument("a weight is a fraction of numbers from 1 to 2^62 - 1");
}

// count * weight, rounded half up, at least 1.
uint64_t weighted(uint64_t count, const Weight& weight) {
  if (weight.numerator == weight.denominator) return count;
  if (count > kMaxCount) throw std::overflow_error(kTooMany);
  const detail::uint128 twice = static_cast<detail::uint128>(count) * weight.numerator * 2 + weight.denominator;
  const detail::uint128 rounded = twice / (static_cast<detail::uint128>(weight.denominator) * 2);
  if (rounded > kMaxCount) throw std::overflow_error(kTooMany);
  return rounded == 0 ? 1 : static_cast<uint64_t>(rounded);
}

// A row of one of the counters.
struct Row {
  uint64_t hash;
  std::string_view pre_token;
  uint64_t count;

  bool operator<(const Row& other) const {
    return hash != other.hash ? hash < other.hash : pre_token < other.pre_token;
  }
};

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

  // A window is the hashes that share their first bits; a bucket of it, those that share the next kBucketBits.
  const unsigned known_bits = std::min(40, std::countl_zero(least ^ greatest));
  const unsigned window_bits = std::min<unsigned>(20, std::bit_width(rows / kWindowRows / 2));
  uint64_t window = known_bits ? least >> (64 - known_bits) << window_bits : 0;
  const unsigned shift = 64 - known_bits - window_bits;
  const auto window_of = [&](uint64_t hash) { return shift == 64 ? 0 : hash >> shift; };
  const auto bucket_of = [&](uint64_t hash) { return hash << (64 - shift) % 64 >> (64 - kBucketBits); };
  std::vector<Row> found, ordered;
  std::vector<uint32_t> ends((size_t{1} << kBucketBits) + 1);
  while (!cursors.empty()) {
    if (window > window_of(greatest)) throw std::invalid_argument(kDisorder);
    bool some_done = false;
    found.clear();
    std::fill(ends.begin(), ends.end(), 0);
    for (Cursor& cursor : cursors) {
      while (!cursor.done() && window_of(cursor.hash) <= window) {
        const ColumnsView& counter = cursor.counter;
        if (counter.pre_token_size(cursor.row) == 0) throw std::invalid_argument("a pre-token is empty");
        found.push_back({cursor.hash, counter.text(cursor.row), weighted(counter.counts[cursor.row], cursor.weight)});
        ++ends[bucket_of(cursor.hash) + 1];
        cursor.next();
      }
      some_done |= cursor.done();
    }
    std::partial_sum(ends.begin(), ends.end(), ends.begin());  // where buckets begin, until their rows are in them
    ordered.resize(found.size());
    for (const Row& row : found) ordered[ends[bucket_of(row.hash)]++] = row;
    for (size_t bucket = 0, begin = 0; bucket + 1 < ends.size(); begin = ends[bucket++])
      if (ends[bucket] - begin > 1) std::sort(ordered.data() + begin, ordered.data() + ends[bucket]);
    for (const Row* row = ordered.data(); row != ordered.data() + ordered.size();) {
      const Row& first = *row;
      uint64_t count = 0;
      for (; row != ordered.data() + ordered.size() && row->hash == first.hash && row->pre_token == first.pre_token;
           ++row) {
        if (row->count > kMaxCount - count) throw std::overflow_error(kTooMany);
        count += row->count;
      }
      combined.append(reinterpret_cast<const uint8_t*>(first.pre_token.data()), first.pre_token.size(), count);
    }
    ++window;
    if (some_done) std::erase_if(cursors, [](const Cursor& cursor) { return cursor.done(); });
  }
  if (combined.rows < rows / 2 || combined.data_bytes < data_bytes / 2)
    combined.fit();  // most pre-tokens were repeated
  return combined;
}

std::pair<Wide, Wide> totals(const ColumnsView& counter) {
  detail::uint128 pre_tokens = 0, bytes = 0;
  for (size_t row = 0; row < counter.rows; ++row) {
    pre_tokens += counter.counts[row];
    bytes += detail::uint128{counter.pre_token_size(row)} * counter.counts[row];
  }
  const auto halves = [](detail::uint128 number) {
    return Wide{static_cast<uint64_t>(number >> 64), static_cast<uint64_t>(number)};
  };
  return {halves(pre_tokens), halves(bytes)};
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
