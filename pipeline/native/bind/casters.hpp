// How values cross the border between Python and the core: bytes and columns are borrowed from Python without copies,
// and leave as memoryviews over memory that was the core's. Everything here is made and destroyed with the GIL held; in
// between, what is borrowed may be read without it.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "count/columns.hpp"

namespace bpe {

// The memory of a Python object that has the buffer protocol.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { std::swap(view_, other.view_); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(view_, other.view_);
    return *this;
  }
  ~Buffer() { PyBuffer_Release(&view_); }

  bool borrow(PyObject* object) noexcept {
    PyBuffer_Release(&view_);
    if (object && PyObject_GetBuffer(object, &view_, PyBUF_CONTIG_RO | PyBUF_FORMAT) == 0) return true;
    PyErr_Clear();
    return false;
  }
  const uint8_t* data() const { return static_cast<const uint8_t*>(view_.buf); }
  size_t size() const { return static_cast<size_t>(view_.len); }
  // std::invalid_argument where the items are neither bytes nor of T's size; any are bytes.
  template <class T>
  std::span<const T> as(const char* name) const {
    if ((view_.itemsize != sizeof(T) && view_.itemsize != 1 && sizeof(T) != 1) || size() % sizeof(T) != 0)
      throw std::invalid_argument(std::string(name) + " must be a buffer of " + std::to_string(sizeof(T)) +
                                  "-byte integers");
    return {static_cast<const T*>(view_.buf), size() / sizeof(T)};
  }

 private:
  Py_buffer view_{};
};

// Columns from outside: offsets, data and counts.
struct BorrowedColumns {
  Buffer offsets, data, counts;

  // Checked, so that nothing read through them is out of bounds.
  ColumnsView view() const {
    const auto ends = offsets.as<int64_t>("offsets");
    const auto rows = counts.as<uint64_t>("counts");
    if (ends.size() != rows.size() + 1)
      throw std::invalid_argument("offsets must hold one number more than counts: " + std::to_string(ends.size()) +
                                  " and " + std::to_string(rows.size()));
    check_offsets(ends, data.size(), kMaxPieceBytes);
    return {ends.data(), data.data(), rows.data(), rows.size()};
  }
};

// A str or bytes object.
struct Text {
  nanobind::object object;

  // Its UTF-8 (UnicodeEncodeError for a lone surrogate), or any bytes.
  std::string_view bytes() const {
    if (PyBytes_Check(object.ptr()))
      return {PyBytes_AS_STRING(object.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(object.ptr()))};
    Py_ssize_t size = 0;
    const char* data = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
    if (!data) throw nanobind::python_error();
    return {data, static_cast<size_t>(size)};
  }
};

inline std::vector<std::string> strings(const std::vector<Text>& texts) {
  std::vector<std::string> result;
  for (const Text& text : texts) result.emplace_back(text.bytes());
  return result;
}

template <class T>
std::vector<T> copy_of(const Buffer& buffer, const char* name) {
  const auto items = buffer.as<T>(name);
  return {items.begin(), items.end()};
}

// What signatures show as `memoryview`, `Columns`, and what returns all columns each time it is called.
class MemoryView : public nanobind::object {
  NB_OBJECT_DEFAULT(MemoryView, object, "memoryview", PyMemoryView_Check)
};
class Reader : public nanobind::object {
  NB_OBJECT_DEFAULT(Reader, object, "Callable[[], Iterable[Columns]]", PyCallable_Check)
};
class ColumnsTuple : public nanobind::tuple {
  NB_OBJECT_DEFAULT(ColumnsTuple, tuple, "Columns", PyTuple_Check)
};

// Gives an array to Python, which destroys what owns it with `release`.
template <class T>
MemoryView give(T* values, size_t size, void* owner, void (*release)(void*) noexcept) {
  const nanobind::capsule last(owner, release);
  return nanobind::steal<MemoryView>(
      nanobind::cast(nanobind::ndarray<nanobind::memview, T, nanobind::ndim<1>>(values, {size}, last)).release());
}

template <class T>
MemoryView give(std::unique_ptr<T[]> values, size_t size) {
  T* const kept = values.release();
  return give(kept, size, kept, [](void* memory) noexcept { delete[] static_cast<T*>(memory); });
}

template <class T>
MemoryView give(std::vector<T> values) {
  auto* const kept = new std::vector<T>(std::move(values));
  kept->reserve(1);  // no array without an address
  return give(kept->data(), kept->size(), kept,
              [](void* memory) noexcept { delete static_cast<std::vector<T>*>(memory); });
}

template <class T>
MemoryView give_copy(const std::vector<T>& values) {
  return give(std::vector<T>(values));
}

// What signatures show as a tuple of that many views.
template <class... Vectors>
auto give_all(Vectors... vectors) {
  return std::tuple(give(std::move(vectors))...);
}

inline ColumnsTuple give(Columns columns) {
  const size_t rows = columns.rows, data_bytes = columns.data_bytes;
  return nanobind::steal<ColumnsTuple>(nanobind::make_tuple(give(std::move(columns.offsets), rows + 1),
                                                            give(std::move(columns.data), data_bytes),
                                                            give(std::move(columns.counts), rows))
                                           .release());
}

// Up to Python 3.13, a thread that asks for the GIL of an interpreter that ends is ended by unwinding its stack, and the
// process aborts where that meets a frame of C++. Such a thread waits for the end of the process, as from 3.14 on.
[[noreturn]] inline void wait_for_exit() noexcept {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

// What Python calls the values of an enumeration, in their order.
template <class Enum>
inline constexpr std::array<std::string_view, 0> names_of;

// While it lives, this thread has no GIL.
class Released {
 public:
  ~Released() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      wait_for_exit();
    }
  }

 private:
  PyThreadState* const state_ = PyEval_SaveThread();
};

// While it lives, this thread has the GIL.
class Locked {
 public:
  Locked() noexcept try : state_(PyGILState_Ensure()) {
  } catch (...) {
    wait_for_exit();
  }
  ~Locked() { PyGILState_Release(state_); }

 private:
  const PyGILState_STATE state_;
};

// Runs `work` without the GIL.
template <class Work>
auto unlocked(const Work& work) {
  const Released released;
  return work();
}

}  // namespace bpe

namespace nanobind::detail {

template <>
struct type_caster<bpe::Buffer> {
  NB_TYPE_CASTER(bpe::Buffer, const_name("Buffer"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept { return value.borrow(source.ptr()); }
};

template <>
struct type_caster<bpe::BorrowedColumns> {
  NB_TYPE_CASTER(bpe::BorrowedColumns, const_name("Columns"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    bpe::Buffer* const columns[] = {&value.offsets, &value.data, &value.counts};
    bool borrowed = PyTuple_Check(source.ptr()) && PyTuple_GET_SIZE(source.ptr()) == 3;
    for (Py_ssize_t i = 0; i < 3 && borrowed; ++i) borrowed = columns[i]->borrow(PyTuple_GET_ITEM(source.ptr(), i));
    return borrowed;
  }
};

template <>
struct type_caster<bpe::Text> {
  NB_TYPE_CASTER(bpe::Text, const_name("str | bytes"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    value.object = borrow(source);
    return PyUnicode_Check(source.ptr()) || PyBytes_Check(source.ptr());
  }
};

template <class T>
struct type_caster<std::span<const T>> {
  bpe::Buffer buffer;
  static constexpr auto Name = const_name("Buffer");
  template <class>
  using Cast = std::span<const T>;
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept { return buffer.borrow(source.ptr()); }
  template <class>
  bool can_cast() const noexcept {
    return true;
  }
  operator std::span<const T>() const { return buffer.as<T>("the argument"); }
};

template <>
struct type_caster<bpe::ColumnsView> {
  make_caster<bpe::BorrowedColumns> columns;
  static constexpr auto Name = const_name("Columns");
  template <class>
  using Cast = bpe::ColumnsView;
  bool from_python(handle source, uint32_t flags, cleanup_list* cleanup) noexcept {
    return columns.from_python(source, flags, cleanup);
  }
  template <class>
  bool can_cast() const noexcept {
    return true;
  }
  operator bpe::ColumnsView() const { return columns.value.view(); }
};

template <class Enum>
struct named_caster {
  NB_TYPE_CASTER(Enum, const_name("str"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    std::string wanted;
    const auto& names = bpe::names_of<Enum>;
    const auto found = try_cast(source, wanted, false) ? std::find(names.begin(), names.end(), wanted) : names.end();
    value = static_cast<Enum>(found - names.begin());
    return found != names.end();
  }
};

// A frozen value of Python, by the names of its fields.
template <class... Fields>
bool read_fields(handle source, std::pair<const char*, Fields&>... fields) {
  const auto read = [&](const auto& named) {
    const object value = getattr(source, named.first, handle());
    return value.is_valid() && try_cast(value, named.second, false);
  };
  return (read(fields) && ...);
}
template <class Field>
std::pair<const char*, Field&> field(const char* name, Field& value) {
  return {name, value};
}

}  // namespace nanobind::detail
