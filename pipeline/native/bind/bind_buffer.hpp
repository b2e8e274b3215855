// The bytes of a Python object that has the buffer protocol, borrowed for as long as this lives. Made and ended with the
// GIL held; in between the bytes may be read without it. Throws nanobind's python_error where there is no such buffer.
#pragma once
#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace bpe {

class Buffer {
 public:
  explicit Buffer(nanobind::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nanobind::python_error();
  }
  ~Buffer() { PyBuffer_Release(&view_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const uint8_t* data() const { return static_cast<const uint8_t*>(view_.buf); }
  size_t size() const { return static_cast<size_t>(view_.len); }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(view_.buf);
  }

 private:
  Py_buffer view_{};
};

// Copies of `bytes` objects.
inline std::vector<std::string> strings(const std::vector<nanobind::bytes>& tokens) {
  std::vector<std::string> result;
  for (const nanobind::bytes& token : tokens) result.emplace_back(token.c_str(), token.size());
  return result;
}

}  // namespace bpe
