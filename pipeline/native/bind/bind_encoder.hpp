// The encoder as Python has it.
#pragma once
#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "encode/encode.hpp"

namespace bpe {

// An Encoder that keeps the Python number of each id that it has given, so that a list costs no new objects.
// The numbers are touched with the interpreter held only.
class ListingEncoder : public Encoder {
 public:
  using Encoder::Encoder;
  ListingEncoder(const ListingEncoder&) = delete;
  ListingEncoder& operator=(const ListingEncoder&) = delete;
  ~ListingEncoder() {
    for (PyObject* number : numbers_) Py_XDECREF(number);
  }

  nanobind::list list(const uint32_t* ids, size_t size) {
    nanobind::object list = nanobind::steal(PyList_New(static_cast<Py_ssize_t>(size)));
    if (!list.is_valid()) throw nanobind::python_error();
    for (size_t i = 0; i < size; ++i) PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), number(ids[i]));
    return nanobind::borrow<nanobind::list>(list);
  }
  nanobind::list list(const IdBuffer& ids) { return list(ids.data(), ids.size()); }

 private:
  static constexpr size_t kMostKept = size_t{1} << 20;

  PyObject* number(uint32_t id) {
    if (id < numbers_.size() && numbers_[id]) {
      Py_INCREF(numbers_[id]);
      return numbers_[id];
    }
    PyObject* const made = PyLong_FromUnsignedLong(id);
    if (!made) throw nanobind::python_error();
    if (id < kMostKept) {
      if (id >= numbers_.size()) numbers_.resize(id + id / 2 + 1, nullptr);
      Py_INCREF(made);
      numbers_[id] = made;
    }
    return made;
  }
  std::vector<PyObject*> numbers_;
};

}  // namespace bpe
