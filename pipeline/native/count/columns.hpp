// Columns: pieces and counts as Arrow lays them out (large_binary and uint64), ordered by hash64, then by bytes.
// Owned: Columns. Borrowed (an Arrow buffer, say): ColumnsView. Row i is data[offsets[i], offsets[i + 1]).
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "count/hash.hpp"

namespace bpe {

struct ColumnsView {
  const int64_t* offsets = nullptr;  // rows + 1 of them
  const uint8_t* data = nullptr;
  const uint64_t* counts = nullptr;
  size_t rows = 0;

  const uint8_t* piece(size_t row) const { return data + offsets[row]; }
  size_t piece_size(size_t row) const { return static_cast<size_t>(offsets[row + 1] - offsets[row]); }
  uint64_t hash(size_t row) const { return hash64(piece(row), piece_size(row)); }
};

struct Columns {
  size_t rows = 0, data_bytes = 0;  // filled so far
  std::unique_ptr<int64_t[]> offsets;
  std::unique_ptr<uint8_t[]> data;
  std::unique_ptr<uint64_t[]> counts;

  // Room for so much, not initialised: memory that stays unused is never touched.
  explicit Columns(size_t most_rows = 0, size_t most_bytes = 0)
      : offsets(std::make_unique_for_overwrite<int64_t[]>(most_rows + 1)),
        data(std::make_unique_for_overwrite<uint8_t[]>(most_bytes + 1)),
        counts(std::make_unique_for_overwrite<uint64_t[]>(most_rows + 1)) {
    offsets[0] = 0;
  }

  void append(const uint8_t* piece, size_t size, uint64_t count) {
    std::memcpy(data.get() + data_bytes, piece, size);
    data_bytes += size;
    counts[rows] = count;
    offsets[++rows] = static_cast<int64_t>(data_bytes);
  }
};

}  // namespace bpe
