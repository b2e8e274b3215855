// Columns of a counter that go to Python, as memoryviews over our own memory, or come from there, as three borrowed
// buffers; without copies.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "bind/bind_buffer.hpp"
#include "count/columns.hpp"

namespace bpe {

template <class T>
nanobind::object give(std::unique_ptr<T[]> values, size_t size) {
  T* const data = values.release();
  nanobind::capsule owner(data, [](void* memory) noexcept { delete[] static_cast<T*>(memory); });
  return nanobind::cast(nanobind::ndarray<nanobind::memview, T, nanobind::ndim<1>>(data, {size}, owner));
}

inline nanobind::tuple give(Columns columns) {
  const size_t rows = columns.rows, data_bytes = columns.data_bytes;
  return nanobind::make_tuple(give(std::move(columns.offsets), rows + 1), give(std::move(columns.data), data_bytes),
                              give(std::move(columns.counts), rows));
}

// Columns from outside, checked so that nothing read through them lies out of bounds.
class TakenColumns {
 public:
  explicit TakenColumns(nanobind::handle triple)
      : offsets_(std::make_unique<Buffer>(nanobind::object(triple[0]))),
        data_(std::make_unique<Buffer>(nanobind::object(triple[1]))),
        counts_(std::make_unique<Buffer>(nanobind::object(triple[2]))) {}

  ColumnsView view() const {
    ColumnsView view{offsets_->as<int64_t>(), data_->data(), counts_->as<uint64_t>(),
                     counts_->size() / sizeof(uint64_t)};
    if (offsets_->size() != (view.rows + 1) * sizeof(int64_t))
      throw nanobind::value_error("a counter needs one more offset than counts");
    if (view.offsets[0] < 0 || view.offsets[view.rows] > static_cast<int64_t>(data_->size()))
      throw nanobind::value_error("a counter's offsets lie outside its data");
    for (size_t row = 0; row < view.rows; ++row) {
      if (view.offsets[row] >= view.offsets[row + 1])
        throw nanobind::value_error("a counter holds an empty piece or descending offsets");
    }
    return view;
  }

 private:
  std::unique_ptr<Buffer> offsets_, data_, counts_;
};

}  // namespace bpe
