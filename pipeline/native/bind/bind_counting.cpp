// Shows the counting room to Python: hash64, ChunkCounter. Bytes come in as anything with the buffer protocol and columns
// go out as memoryviews over our own memory, without copies.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind/bind_buffer.hpp"
#include "bind/bind_columns.hpp"
#include "bind/bindings.hpp"
#include "count/counting.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using bpe::Buffer;
using bpe::give;
using bpe::strings;

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
  nb::object cutter, spill, sink;
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
    Py_VISIT(nb::inst_ptr<Counter>(self)->sink.ptr());
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
  result["cut_offsets"] = nb::cast(statistics.cut_offsets);
  return result;
}

// Runs what may find invalid text, which becomes a ValueError, or a piece without room, a MemoryError.
template <class Work>
void without_gil(const Work& work) {
  try {
    nb::gil_scoped_release released;
    work();
  } catch (const bpe::InvalidText& invalid) {
    throw nb::value_error(("invalid UTF-8 at byte " + std::to_string(invalid.offset)).c_str());
  } catch (const bpe::OutOfRoom& out) {
    raise_out_of_room(out);
  }
}

template <class Offset>
void feed_rows(bpe::ChunkCounter& counter, const Buffer& offsets, const Buffer& data) {
  const size_t entries = offsets.size() / sizeof(Offset);
  if (entries == 0 || offsets.size() % sizeof(Offset)) throw nb::value_error("a column needs one more offset than rows");
  const Offset* const of = offsets.as<Offset>();
  if (of[0] < 0 || !std::is_sorted(of, of + entries) || static_cast<uint64_t>(of[entries - 1]) > data.size())
    throw nb::value_error("a column's offsets descend or lie outside its data");
  without_gil([&] {
    for (size_t row = 0; row + 1 < entries; ++row)
      counter.feed_document(data.data() + of[row], static_cast<size_t>(of[row + 1] - of[row]));
  });
}

void feed_documents(Counter& self, nb::handle offsets, nb::handle data, int offset_bytes) {
  const Buffer starts(offsets), bytes(data);
  if (offset_bytes == 4) return feed_rows<int32_t>(self.counter, starts, bytes);
  if (offset_bytes == 8) return feed_rows<int64_t>(self.counter, starts, bytes);
  throw nb::value_error("offset_bytes must be 4 or 8");
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
             nb::object spill, nb::object sink) {
            if (sink.is_none() && room_bytes.has_value() != !spill.is_none())
              throw nb::value_error("room_bytes and spill are given together or not at all");
            const bpe::ChunkCounter::Options options{policy(errors), max_piece_bytes.value_or(0), window_bytes,
                                                     room_bytes.value_or(0), python_spill(self),
                                                     sink.is_none() ? nullptr : nb::cast<bpe::PieceSink*>(sink)};
            bpe::SpecialTokens specials(strings(special_tokens));
            if (nb::isinstance<bpe::Automaton>(cutter)) {
              const auto* automaton = nb::cast<const bpe::Automaton*>(cutter);
              new (self) Counter{cutter, spill, sink, {automaton, {}, std::move(specials), options}};
            } else {
              new (self) Counter{cutter, spill, sink, {nullptr, python_cutter(cutter), std::move(specials), options}};
            }
          },
          "cutter"_a, "special_tokens"_a, nb::kw_only(), "errors"_a = "replace", "max_piece_bytes"_a = nb::none(),
          "window_bytes"_a = size_t{1} << 18, "room_bytes"_a = nb::none(), "spill"_a = nb::none(),
          "sink"_a = nb::none(),
          nb::sig("def __init__(self, cutter: Automaton | Callable[[str], Iterable[str]], special_tokens: list[bytes], "
                  "*, errors: str = 'replace', max_piece_bytes: int | None = None, "
                  "window_bytes: int = 262144, room_bytes: int | None = None, "
                  "spill: Callable[[ChunkCounter], None] | None = None, sink: PieceSink | None = None) -> None"),
          "room_bytes: what text and tables may take in all. Before they would take more, spill(counter) is called, "
          "which writes columns() somewhere; the counter then starts empty again. sink: what the pieces go to instead of "
          "being counted.")
      .def(
          "feed",
          [](Counter& self, nb::handle block, bool end) {
            const Buffer buffer(block);
            without_gil([&] { self.counter.feed(buffer.data(), buffer.size(), end); });
          },
          "block"_a, "end"_a = false, nb::sig("def feed(self, block: Buffer, end: bool = False) -> None"),
          "The next bytes of a text, `end` with the last; another text may follow. Under `strict`, ValueError at the "
          "first invalid byte, whose offset is then in statistics()['invalid_offsets']. MemoryError(offset, bytes) where "
          "a piece (under `skip`: what a document needs) has no place in room_bytes.")
      .def("feed_documents", &feed_documents, "offsets"_a, "data"_a, "offset_bytes"_a = 8,
           nb::sig("def feed_documents(self, offsets: Buffer, data: Buffer, offset_bytes: int = 8) -> None"),
           "Documents in a column as Arrow has it: row i is data[offsets[i]:offsets[i + 1]], with one more offset than rows, "
           "of `offset_bytes` (4 or 8), signed. What is fed are the rows one after the other. Errors as of feed().")
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
      .def(
          "set_room",
          [](Counter& self, size_t room_bytes) {
            if ((self.spill.is_none() && self.sink.is_none()) || room_bytes == 0)
              throw nb::value_error("there is no room to change");
            without_gil([&] { self.counter.set_room(room_bytes); });
          },
          "room_bytes"_a, "Another room_bytes from now on, perhaps a smaller one: then spill(counter) may be called.")
      .def("fed_bytes", [](const Counter& self) { return self.counter.statistics().bytes; })
      .def("long_piece_bytes", [](const Counter& self) { return self.counter.table().arena_bytes(); },
           "About the bytes of the pieces that are longer than 15.")
      .def("memory_bytes", [](const Counter& self) { return self.counter.bytes(); })
      .def("statistics", [](const Counter& self) { return statistics_dict(self.counter.statistics()); },
           nb::sig("def statistics(self) -> dict[str, Any]"),
           "bytes, documents, pieces, special_tokens, replacements, invalid_bytes, documents_skipped, bytes_skipped, "
           "pieces_cut; invalid_offsets and cut_offsets: where the first eight of each are, counted from the first byte "
           "fed.");
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
  bind_counter(module);
}
