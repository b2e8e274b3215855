// Shows the counting room to Python: hash64, SpecialTokens, ChunkCounter, combine, partition_starts. Bytes come in
// as anything with the buffer protocol and columns go out as memoryviews over our own memory, without copies.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bind_buffer.hpp"
#include "bindings.hpp"
#include "combine.hpp"
#include "counting.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using bpe::Buffer;

template <class T>
nb::object give(std::unique_ptr<T[]> values, size_t size) {
  T* const data = values.release();
  nb::capsule owner(data, [](void* memory) noexcept { delete[] static_cast<T*>(memory); });
  return nb::cast(nb::ndarray<nb::memview, T, nb::ndim<1>>(data, {size}, owner));
}

nb::tuple give(bpe::Columns columns) {
  const size_t rows = columns.rows, data_bytes = columns.data_bytes;
  return nb::make_tuple(give(std::move(columns.offsets), rows + 1), give(std::move(columns.data), data_bytes),
                        give(std::move(columns.counts), rows));
}

// Columns from outside, checked so that nothing read through them lies out of bounds.
class TakenColumns {
 public:
  explicit TakenColumns(nb::handle triple)
      : offsets_(std::make_unique<Buffer>(nb::object(triple[0]))),
        data_(std::make_unique<Buffer>(nb::object(triple[1]))),
        counts_(std::make_unique<Buffer>(nb::object(triple[2]))) {}

  bpe::ColumnsView view() const {
    bpe::ColumnsView view{offsets_->as<int64_t>(), data_->data(), counts_->as<uint64_t>(),
                          counts_->size() / sizeof(uint64_t)};
    if (offsets_->size() != (view.rows + 1) * sizeof(int64_t))
      throw nb::value_error("a counter needs one more offset than counts");
    if (view.offsets[0] < 0 || view.offsets[view.rows] > static_cast<int64_t>(data_->size()))
      throw nb::value_error("a counter's offsets lie outside its data");
    for (size_t row = 0; row < view.rows; ++row) {
      if (view.offsets[row] >= view.offsets[row + 1])
        throw nb::value_error("a counter holds an empty piece or descending offsets");
    }
    return view;
  }

 private:
  std::unique_ptr<Buffer> offsets_, data_, counts_;
};

std::vector<std::string> strings(const std::vector<nb::bytes>& tokens) {
  std::vector<std::string> result;
  for (const nb::bytes& token : tokens) result.emplace_back(token.c_str(), token.size());
  return result;
}

nb::object match_tuple(const bpe::SpecialTokens::Match& match) {
  if (match.index == bpe::SpecialTokens::npos) return nb::none();
  return nb::make_tuple(match.start, match.end, match.index);
}

bpe::ErrorPolicy policy(const std::string& name) {
  if (name == "replace") return bpe::ErrorPolicy::replace;
  if (name == "strict") return bpe::ErrorPolicy::strict;
  if (name == "skip") return bpe::ErrorPolicy::skip;
  throw nb::value_error("errors must be 'replace', 'strict' or 'skip'");
}

// A Python function str -> iterable of str, as a cutter of documents. Whoever uses it holds the function.
bpe::ChunkCounter::DocumentCutter python_cutter(nb::handle function) {
  return [function](const uint8_t* text, size_t size, const std::function<void(size_t)>& emit) {
    nb::gil_scoped_acquire gil;
    const nb::str document(reinterpret_cast<const char*>(text), size);
    size_t total = 0;
    for (nb::handle piece : nb::iter(function(document))) {
      Py_ssize_t piece_size;
      if (!PyUnicode_AsUTF8AndSize(piece.ptr(), &piece_size)) throw nb::python_error();
      total += static_cast<size_t>(piece_size);
      emit(static_cast<size_t>(piece_size));
    }
    if (total != size) throw nb::value_error("the pieces of a document do not add up to it");
  };
}

// A place and a size, for whoever knows the file.
[[noreturn]] void raise_out_of_room(const bpe::OutOfRoom& out) {
  PyErr_SetObject(PyExc_MemoryError, nb::make_tuple(out.offset, out.bytes).ptr());
  throw nb::python_error();
}

// Holds the automaton or function for as long as the counter uses it.
struct Counter {
  nb::object cutter, spill;
  bpe::ChunkCounter counter;
};

// Calls a Python function with the counter that has outgrown its room.
std::function<void()> python_spill(Counter* self) {
  return [self] {
    nb::gil_scoped_acquire gil;
    self->spill(nb::find(*self));
  };
}

// The garbage collector's way into a Counter: a cutter that is a function may refer back to it.
int traverse_counter(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self)) {
    Py_VISIT(nb::inst_ptr<Counter>(self)->cutter.ptr());
    Py_VISIT(nb::inst_ptr<Counter>(self)->spill.ptr());
  }
  return 0;
}

int clear_counter(PyObject* self) {
  Counter* counter = nb::inst_ptr<Counter>(self);
  if (nb::inst_ready(self)) {
    counter->cutter.reset();
    counter->spill.reset();
  }
  return 0;
}

PyType_Slot counter_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_counter)},
                               {Py_tp_clear, reinterpret_cast<void*>(clear_counter)},
                               {0, nullptr}};

nb::dict statistics_dict(const bpe::CountingStatistics& statistics) {
  nb::dict result;
  result["bytes"] = statistics.bytes;
  result["documents"] = statistics.documents;
  result["pieces"] = statistics.pieces;
  result["special_tokens"] = statistics.special_tokens;
  result["replacements"] = statistics.replacements;
  result["invalid_bytes"] = statistics.invalid_bytes;
  result["documents_skipped"] = statistics.documents_skipped;
  result["bytes_skipped"] = statistics.bytes_skipped;
  result["pieces_cut"] = statistics.pieces_cut;
  result["invalid_offsets"] = nb::cast(statistics.invalid_offsets);
  return result;
}

void bind_specials(nb::module_& module) {
  nb::class_<bpe::SpecialTokens>(module, "SpecialTokens",
                                 "Finds special tokens in bytes: leftmost, and of those that start there the longest.")
      .def(
          "__init__",
          [](bpe::SpecialTokens* self, const std::vector<nb::bytes>& tokens) {
            new (self) bpe::SpecialTokens(strings(tokens));
          },
          "tokens"_a)
      .def_prop_ro("longest", &bpe::SpecialTokens::longest, "Bytes of the longest token; 0 without tokens.")
      .def(
          "find",
          [](const bpe::SpecialTokens& self, nb::handle text, size_t start) {
            const Buffer buffer(text);
            bpe::SpecialTokens::Match match;
            {
              nb::gil_scoped_release released;
              if (start < buffer.size()) match = self.find(buffer.data(), start, buffer.size());
            }
            return match_tuple(match);
          },
          "text"_a, "start"_a = 0, nb::sig("def find(self, text: Buffer, start: int = 0) -> tuple[int, int, int] | None"),
          "The first match at or after `start`: (start, end, index of the token), or None.")
      .def(
          "match_at",
          [](const bpe::SpecialTokens& self, nb::handle text, size_t at) {
            const Buffer buffer(text);
            return match_tuple(at < buffer.size() ? self.match_at(buffer.data(), at, buffer.size())
                                                  : bpe::SpecialTokens::Match{});
          },
          "text"_a, "at"_a, nb::sig("def match_at(self, text: Buffer, at: int) -> tuple[int, int, int] | None"),
          "The longest token that stands at `at`: (start, end, index), or None.")
      .def(
          "find_all",
          [](const bpe::SpecialTokens& self, nb::handle text) {
            const Buffer buffer(text);
            std::vector<std::tuple<size_t, size_t, size_t>> found;
            {
              nb::gil_scoped_release released;
              size_t at = 0;
              while (at < buffer.size()) {
                const auto match = self.find(buffer.data(), at, buffer.size());
                if (match.index == bpe::SpecialTokens::npos) break;
                found.emplace_back(match.start, match.end, match.index);
                at = match.end;
              }
            }
            return found;
          },
          "text"_a, nb::sig("def find_all(self, text: Buffer) -> list[tuple[int, int, int]]"),
          "All matches from left to right, not overlapping: (start, end, index of the token).");
}

void bind_counter(nb::module_& module) {
  nb::class_<Counter>(module, "ChunkCounter",
                      "Counts the pieces of one chunk: texts fed in blocks of any size. `cutter` is an Automaton, or a "
                      "function from a document to its pieces (slower).",
                      nb::type_slots(counter_slots))
      .def(
          "__init__",
          [](Counter* self, nb::object cutter, const std::vector<nb::bytes>& special_tokens, const std::string& errors,
             std::optional<size_t> max_piece_bytes, size_t window_bytes, std::optional<size_t> room_bytes,
             nb::object spill) {
            if (room_bytes.has_value() != !spill.is_none())
              throw nb::value_error("room_bytes and spill are given together or not at all");
            const bpe::ChunkCounter::Options options{policy(errors), max_piece_bytes.value_or(0), window_bytes,
                                                     room_bytes.value_or(0), python_spill(self)};
            bpe::SpecialTokens specials(strings(special_tokens));
            if (nb::isinstance<bpe::Automaton>(cutter)) {
              const auto* automaton = nb::cast<const bpe::Automaton*>(cutter);
              new (self) Counter{cutter, spill, {automaton, {}, std::move(specials), options}};
            } else {
              new (self) Counter{cutter, spill, {nullptr, python_cutter(cutter), std::move(specials), options}};
            }
          },
          "cutter"_a, "special_tokens"_a, nb::kw_only(), "errors"_a = "replace", "max_piece_bytes"_a = nb::none(),
          "window_bytes"_a = size_t{1} << 18, "room_bytes"_a = nb::none(), "spill"_a = nb::none(),
          nb::sig("def __init__(self, cutter: Automaton | Callable[[str], Iterable[str]], special_tokens: list[bytes], "
                  "*, errors: str = 'replace', max_piece_bytes: int | None = None, "
                  "window_bytes: int = 262144, room_bytes: int | None = None, "
                  "spill: Callable[[ChunkCounter], None] | None = None) -> None"),
          "room_bytes: what text and tables may take in all. Before they would take more, spill(counter) is called, "
          "which writes columns() somewhere; the counter then starts empty again.")
      .def(
          "feed",
          [](Counter& self, nb::handle block, bool end) {
            const Buffer buffer(block);
            try {
              nb::gil_scoped_release released;
              self.counter.feed(buffer.data(), buffer.size(), end);
            } catch (const bpe::InvalidText& invalid) {
              throw nb::value_error(("invalid UTF-8 at byte " + std::to_string(invalid.offset)).c_str());
            } catch (const bpe::OutOfRoom& out) {
              raise_out_of_room(out);
            }
          },
          "block"_a, "end"_a = false, nb::sig("def feed(self, block: Buffer, end: bool = False) -> None"),
          "The next bytes of a text, `end` with the last; another text may follow. Under `strict`, ValueError at the "
          "first invalid byte, whose offset is then in statistics()['invalid_offsets']. MemoryError(offset, bytes) where "
          "a piece (under `skip`: what a document needs) has no place in room_bytes.")
      .def("start_inside_document", [](Counter& self) { self.counter.start_inside_document(); },
           "Call before a text that starts inside a document, so that the document is not counted twice.")
      .def(
          "add_pieces",
          [](Counter& self, const std::vector<nb::bytes>& pieces, const std::vector<uint64_t>& counts) {
            if (pieces.size() != counts.size()) throw nb::value_error("as many counts as pieces are needed");
            for (size_t i = 0; i < pieces.size(); ++i)
              self.counter.add(reinterpret_cast<const uint8_t*>(pieces[i].c_str()), pieces[i].size(), counts[i]);
          },
          "pieces"_a, "counts"_a, "Adds counts of pieces that were cut elsewhere.")
      .def("__len__", [](const Counter& self) { return self.counter.table().size(); })
      .def(
          "columns",
          [](Counter& self, size_t partition, size_t partitions) {
            if (partitions == 0 || (partitions & (partitions - 1)) || partition >= partitions)
              throw nb::value_error("partitions must be a power of two and greater than partition");
            const uint64_t share = partitions == 1 ? 0 : ~uint64_t{0} / partitions + 1;
            const uint64_t first = share * partition, last = first + (share - 1);
            bpe::Columns columns;
            {
              nb::gil_scoped_release released;
              columns = self.counter.table().extract(first, last);
            }
            return give(std::move(columns));
          },
          "partition"_a = 0, "partitions"_a = 1,
          nb::sig("def columns(self, partition: int = 0, partitions: int = 1) -> Columns"),
          "The pieces of one of `partitions` equal ranges of hashes, in order of hash: offsets (int64), data (bytes), "
          "counts (uint64). The counter stays as it is.")
      .def("clear_counts", [](Counter& self) { self.counter.clear_counts(); },
           "Forgets the pieces counted so far and gives their memory back, but not the text that waits for its end nor the statistics.")
      .def("long_piece_bytes", [](const Counter& self) { return self.counter.table().arena_bytes(); },
           "About the bytes of the pieces that are longer than 15.")
      .def("memory_bytes", [](const Counter& self) { return self.counter.bytes(); })
      .def("statistics", [](const Counter& self) { return statistics_dict(self.counter.statistics()); },
           nb::sig("def statistics(self) -> dict[str, Any]"),
           "bytes, documents, pieces, special_tokens, replacements, invalid_bytes, documents_skipped, bytes_skipped, "
           "pieces_cut; invalid_offsets: the first eight, counted from the first byte fed.");
}

}  // namespace

void bind_counting(nb::module_& module) {
  module.def(
      "hash64",
      [](nb::handle piece) {
        const Buffer buffer(piece);
        return bpe::hash64(buffer.data(), buffer.size());
      },
      "piece"_a, nb::sig("def hash64(piece: Buffer) -> int"), "The hash by which counters are ordered.");
  bind_specials(module);
  bind_counter(module);
  module.def(
      "combine",
      [](const std::vector<nb::object>& counters) {
        std::vector<std::unique_ptr<TakenColumns>> taken;
        for (const nb::object& counter : counters) taken.push_back(std::make_unique<TakenColumns>(counter));
        bpe::Columns combined;
        {
          nb::gil_scoped_release released;
          std::vector<bpe::ColumnsView> views;
          for (const auto& columns : taken) views.push_back(columns->view());
          combined = bpe::combine(views);
        }
        return give(std::move(combined));
      },
      "counters"_a, nb::sig("def combine(counters: list[Columns]) -> Columns"),
      "Adds counters, each in order of hash, into one that is. OverflowError beyond 2^63 - 1.");
  module.def(
      "partition_starts",
      [](nb::handle counter, size_t partitions) {
        const TakenColumns taken(counter);
        return bpe::partition_starts(taken.view(), partitions);
      },
      "counter"_a, "partitions"_a, nb::sig("def partition_starts(counter: Columns, partitions: int) -> list[int]"),
      "The row at which each of `partitions` equal ranges of hashes starts, and the number of rows.");
}
