#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <vector>

#include "text/automaton.hpp"
#include "bind/bind_buffer.hpp"
#include "bind/bindings.hpp"

namespace nb = nanobind;

namespace {

using bpe::Buffer;

// A table handed over as bytes, copied so that it is aligned.
template <typename T>
std::vector<T> table(const nb::bytes& data) {
  if (data.size() % sizeof(T) != 0) throw std::invalid_argument("automaton table of a broken length");
  std::vector<T> result(data.size() / sizeof(T));
  if (!result.empty()) std::memcpy(result.data(), data.c_str(), data.size());
  return result;
}

// All pieces' ends, in rounds of `room` so that resuming is the ordinary case; and where the rest begins.
std::pair<std::vector<uint32_t>, size_t> cut(const bpe::Automaton& automaton, nb::handle text, bool at_end,
                                             size_t room) {
  const Buffer buffer(text);
  if (room == 0 || buffer.size() > UINT32_MAX) throw std::invalid_argument("cut: no room, or more than 4 GiB of text");
  nb::gil_scoped_release release;
  std::vector<uint32_t> ends;
  std::vector<uint32_t> round(room);
  size_t at = 0;
  for (;;) {
    size_t count = 0;
    at = automaton.cut(buffer.data(), at, buffer.size(), at_end, round.data(), room, &count);
    if (count == 0) break;
    ends.insert(ends.end(), round.begin(), round.begin() + static_cast<std::ptrdiff_t>(count));
  }
  return {std::move(ends), at};
}

// The ends after each piece that ends at one of `ends` was cut as a document of its own.
std::vector<uint32_t> cut_within(const bpe::Automaton& automaton, nb::handle text, const std::vector<uint32_t>& ends) {
  const Buffer buffer(text);
  if (!std::is_sorted(ends.begin(), ends.end()) || (!ends.empty() && ends.back() > buffer.size())) {
    throw std::invalid_argument("cut_within: ends that do not rise, or beyond the text");
  }
  nb::gil_scoped_release release;
  std::vector<uint32_t> finer;
  std::vector<uint32_t> round(256);
  size_t begin = 0;
  for (const uint32_t end : ends) {
    for (size_t at = 0, count = 1; count > 0;) {
      at = automaton.cut(buffer.data() + begin, at, end - begin, true, round.data(), round.size(), &count);
      for (size_t i = 0; i < count; ++i) finer.push_back(static_cast<uint32_t>(begin) + round[i]);
    }
    begin = end;
  }
  return finer;
}

}  // namespace

void bind_automaton(nb::module_& module) {
  nb::class_<bpe::Automaton>(module, "Automaton", "A compiled pattern: cuts UTF-8 text into pieces.")
      .def(
          "__init__",
          [](bpe::Automaton* self, const nb::bytes& class_starts, const nb::bytes& class_ids, uint32_t classes,
             const nb::bytes& plain, const nb::bytes& folded, const nb::bytes& tentative, const nb::bytes& provable) {
            const auto starts = table<uint32_t>(class_starts);
            const auto ids = table<uint8_t>(class_ids);
            const auto plain_table = table<uint16_t>(plain);
            const auto folded_table = table<uint32_t>(folded);
            const auto tentative_table = table<uint8_t>(tentative);
            const auto provable_table = table<uint8_t>(provable);
            new (self) bpe::Automaton({starts, ids, classes, plain_table, folded_table, tentative_table,
                                       provable_table});
          },
          nb::arg("class_starts"), nb::arg("class_ids"), nb::arg("classes"), nb::arg("plain"), nb::arg("folded"),
          nb::arg("tentative"), nb::arg("provable"))
      .def(
          "cut",
          [](const bpe::Automaton& self, nb::object text, size_t room) {
            return cut(self, text, true, room).first;
          },
          nb::arg("text"), nb::kw_only(), nb::arg("room") = 4096,
          "The end of each piece of a whole document, UTF-8 in bytes. `room` pieces are cut in one native call.")
      .def(
          "cut_part",
          [](const bpe::Automaton& self, nb::object text, size_t room) {
            auto [ends, rest] = cut(self, text, false, room);
            return nb::make_tuple(std::move(ends), rest);
          },
          nb::arg("text"), nb::kw_only(), nb::arg("room") = 4096,
          nb::sig("def cut_part(self, text: Buffer, *, room: int = 4096) -> tuple[list[int], int]"),
          "The end of each piece that text following this part could not change, and where the rest begins.")
      .def("cut_within", &cut_within, nb::arg("text"), nb::arg("ends"),
           nb::sig("def cut_within(self, text: Buffer, ends: list[int]) -> list[int]"),
           "The end of each piece where every stretch that ends at one of `ends` is a document of its own.")
      .def(
          "count_pieces",
          [](const bpe::Automaton& self, nb::object text) {
            const Buffer buffer(text);
            nb::gil_scoped_release release;
            uint32_t round[4096];
            size_t total = 0;
            for (size_t at = 0, count = 1; count > 0; total += count) {
              at = self.cut(buffer.data(), at, buffer.size(), true, round, 4096, &count);
            }
            return total;
          },
          nb::arg("text"), "How many pieces a document has; for measuring the kernel.")
      .def(
          "find_provable_cut",
          [](const bpe::Automaton& self, nb::object text, size_t from, size_t to) -> std::optional<size_t> {
            const Buffer buffer(text);
            nb::gil_scoped_release release;
            const size_t found = self.find_provable_cut(buffer.data(), buffer.size(), from, to);
            if (found == bpe::npos) return std::nullopt;
            return found;
          },
          nb::arg("text"), nb::arg("start"), nb::arg("stop"),
          "The first offset in [start, stop) where a document may be cut in two without changing a piece, or None.")
      .def_prop_ro("memory_bytes", &bpe::Automaton::memory_bytes);
}
