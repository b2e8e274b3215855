// Columns: pre-tokens and counts in Arrow's layout (large_binary and uint64). Row i is data[offsets[i], offsets[i + 1]).
// Owned: Columns. Borrowed (an Arrow buffer, say): ColumnsView. A counter's rows are in order of hash64, then of bytes.
#pragma once
#include "count/hash.hpp"

namespace bpe {

inline constexpr uint64_t kMaxCount = (uint64_t{1} << 63) - 1;
inline constexpr size_t kMaxPieceBytes = size_t{1} << 30;

// Checks the offsets of a column whose rows have at most that many bytes: none reaches outside the data. Throws
// std::invalid_argument.
template <class Offset>
void check_offsets(std::span<const Offset> offsets, size_t data_bytes, size_t most = SIZE_MAX) {
  const auto refuse = [](const std::string& reason) { throw std::invalid_argument(reason); };
  if (offsets.empty()) refuse("a column needs one more offset than rows");
  if (offsets.front() < 0) refuse("the first offset is negative");
  for (size_t row = 0; row + 1 < offsets.size(); ++row) {
    if (offsets[row + 1] < offsets[row]) refuse("the offsets decrease at row " + std::to_string(row));
    const auto size = static_cast<size_t>(offsets[row + 1] - offsets[row]);
    if (size > most) refuse("the pre-token of row " + std::to_string(row) + " is longer than 1 GiB");
  }
  if (static_cast<uint64_t>(offsets.back()) > data_bytes) refuse("the last offset is beyond the data");
}

struct ColumnsView {
  const int64_t* offsets = nullptr;  // rows + 1 of them
  const uint8_t* data = nullptr;
  const uint64_t* counts = nullptr;
  size_t rows = 0;

  const uint8_t* pre_token(size_t row) const { return data + offsets[row]; }
  size_t pre_token_size(size_t row) const { return static_cast<size_t>(offsets[row + 1] - offsets[row]); }
  std::string_view text(size_t row) const {
    return {reinterpret_cast<const char*>(pre_token(row)), pre_token_size(row)};
  }
  uint64_t hash(size_t row) const { return hash64(pre_token(row), pre_token_size(row)); }
};

struct Columns {
  size_t rows = 0, data_bytes = 0;  // filled so far
  std::unique_ptr<int64_t[]> offsets;
  std::unique_ptr<uint8_t[]> data;
  std::unique_ptr<uint64_t[]> counts;

  // With capacity for that much, not initialised: memory that stays unused is never touched.
  explicit Columns(size_t most_rows = 0, size_t most_bytes = 0)
      : offsets(std::make_unique_for_overwrite<int64_t[]>(most_rows + 1)),
        data(std::make_unique_for_overwrite<uint8_t[]>(most_bytes + 1)),
        counts(std::make_unique_for_overwrite<uint64_t[]>(most_rows + 1)) {
    offsets[0] = 0;
  }

  void append(const uint8_t* pre_token, size_t size, uint64_t count) {
    std::memcpy(data.get() + data_bytes, pre_token, size);
    data_bytes += size;
    counts[rows] = count;
    offsets[++rows] = static_cast<int64_t>(data_bytes);
  }

  // Gives back the capacity that was not filled: the allocator's memory may have been used before, and count.
  void fit() {
    Columns fitting(rows, data_bytes);
    std::copy_n(offsets.get(), rows + 1, fitting.offsets.get());
    std::copy_n(data.get(), data_bytes, fitting.data.get());
    std::copy_n(counts.get(), rows, fitting.counts.get());
    fitting.rows = rows;
    fitting.data_bytes = data_bytes;
    *this = std::move(fitting);
  }
};

}  // namespace bpe
