// Shows the merge engine to Python: arrays come in through the buffer protocol and leave as memoryviews.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "bind/bindings.hpp"
#include "count/count_tally.hpp"
#include "merge/merge.hpp"
#include "count/pages.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// A borrowed C-contiguous buffer, given back (under the GIL) when the last copy of the pointer goes.
using Buffer = std::shared_ptr<Py_buffer>;

Buffer borrow(nb::handle object, const char* name, Py_ssize_t item_bytes) {
  auto* view = new Py_buffer;
  if (PyObject_GetBuffer(object.ptr(), view, PyBUF_CONTIG_RO | PyBUF_FORMAT) != 0) {
    delete view;
    throw nb::python_error();
  }
  Buffer buffer(view, [](Py_buffer* held) {
    nb::gil_scoped_acquire gil;
    PyBuffer_Release(held);
    delete held;
  });
  if ((view->itemsize != item_bytes && view->itemsize != 1) || view->len % item_bytes != 0)
    throw std::invalid_argument(std::string(name) + " must be a buffer of " + std::to_string(item_bytes) +
                                "-byte integers");
  return buffer;
}

template <class T>
std::span<const T> items(const Buffer& buffer) {
  return {static_cast<const T*>(buffer->buf), static_cast<std::size_t>(buffer->len) / sizeof(T)};
}

bpe::PieceBatch batch_of(nb::handle offsets, nb::handle data, nb::handle counts) {
  const Buffer buffers[] = {borrow(offsets, "offsets", 8), borrow(data, "data", 1), borrow(counts, "counts", 8)};
  auto owner = std::make_shared<std::vector<Buffer>>(std::begin(buffers), std::end(buffers));
  return {items<std::int64_t>(buffers[0]), items<std::uint8_t>(buffers[1]), items<std::uint64_t>(buffers[2]),
          std::move(owner)};
}

void add(bpe::MergeEngine& engine, nb::handle offsets, nb::handle data, nb::handle counts) {
  engine.add(batch_of(offsets, data, counts));
}

void stream(bpe::MergeEngine& engine, nb::object read, std::uint64_t bytes) {
  // Python values may go only under the GIL, wherever the engine drops the source.
  const std::shared_ptr<nb::object> held(new nb::object(std::move(read)), [](nb::object* object) {
    nb::gil_scoped_acquire gil;
    delete object;
  });
  engine.stream(
      [held](const std::function<void(const bpe::PieceBatch&)>& take) {
        nb::gil_scoped_acquire gil;
        for (nb::handle columns : nb::iter((*held)())) {
          const bpe::PieceBatch batch = batch_of(columns[0], columns[1], columns[2]);
          bpe::check_batch(batch);
          nb::gil_scoped_release release;
          take(batch);
        }
      },
      bytes);
}

template <class T>
nb::object view_of(const std::vector<T>& values, const char* format) {
  nb::bytes copy(values.data(), values.size() * sizeof(T));
  return nb::steal(PyMemoryView_FromObject(copy.ptr())).attr("cast")(format);
}

bpe::TieBreak tie_break_of(const std::string& name) {
  if (name == "lowest-ids") return bpe::TieBreak::lowest_ids;
  if (name == "greatest-bytes") return bpe::TieBreak::greatest_bytes;
  throw std::invalid_argument("tie_break must be 'lowest-ids' or 'greatest-bytes', not '" + name + "'");
}

bpe::MergeResult run(bpe::MergeEngine& engine, std::uint64_t max_merges, std::uint64_t min_frequency,
                     std::uint64_t min_piece_count,
                     std::optional<std::uint64_t> max_token_bytes, const std::string& tie_break,
                     unsigned threads, nb::object progress, std::uint32_t narrow_symbols,
                     std::uint64_t index_positions, std::uint64_t thread_bytes, std::uint64_t share_from) {
  bpe::MergeOptions options;
  options.max_merges = max_merges;
  options.min_frequency = min_frequency;
  options.min_piece_count = min_piece_count;
  if (max_token_bytes) options.max_token_bytes = *max_token_bytes;
  options.tie_break = tie_break_of(tie_break);
  options.threads = threads;
  options.narrow_symbols = narrow_symbols;
  options.index_positions = index_positions;
  options.thread_bytes = thread_bytes;
  options.share_from = share_from;
  const auto poll = [&progress](const bpe::MergeProgress& now) {
    nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!progress.is_none()) progress(now.merges, now.max_merges, now.best_count);
  };
  nb::gil_scoped_release release;
  return engine.run(options, poll);
}

}  // namespace

void bind_merge(nb::module_& module) {
  nb::class_<bpe::MergeResult>(module, "MergeResult", "A merge list, in order of rank.")
      .def_prop_ro("left", [](const bpe::MergeResult& result) { return view_of(result.left, "I"); },
                   nb::sig("def left(self, /) -> memoryview[int]"), "Ids on the left, 32 bit.")
      .def_prop_ro("right", [](const bpe::MergeResult& result) { return view_of(result.right, "I"); },
                   nb::sig("def right(self, /) -> memoryview[int]"), "Ids on the right, 32 bit.")
      .def_prop_ro("counts", [](const bpe::MergeResult& result) { return view_of(result.counts, "Q"); },
                   nb::sig("def counts(self, /) -> memoryview[int]"), "The pair's count when it was merged, 64 bit.")
      .def_prop_ro("joined", [](const bpe::MergeResult& result) { return view_of(result.joined, "Q"); },
                   nb::sig("def joined(self, /) -> memoryview[int]"),
                   "Occurrences that became one token, 64 bit: the count, less overlaps as in `aaa`.")
      .def_ro("bytes", &bpe::MergeResult::bytes, "Bytes of all pieces, each as often as it was found.")
      .def_ro("left_out_pieces", &bpe::MergeResult::left_out_pieces,
              "Different pieces counted less often than min_piece_count.")
      .def_ro("left_out_bytes", &bpe::MergeResult::left_out_bytes, "Bytes of them, each as often as it was found.")
      .def_prop_ro("stop",
                   [](const bpe::MergeResult& result) {
                     return result.stop == bpe::StopReason::limit ? "limit" : "min-frequency";
                   })
      .def_ro("phases", &bpe::MergeResult::phases);

  nb::class_<bpe::CountTally>(module, "CountTally", "How much of a counter is counted how often.")
      .def(nb::init<std::uint64_t>(), "min_count"_a = 1)
      .def(
          "add",
          [](bpe::CountTally& tally, nb::handle offsets, nb::handle data, nb::handle counts) {
            const bpe::PieceBatch batch = batch_of(offsets, data, counts);
            bpe::check_batch(batch);
            nb::gil_scoped_release release;
            tally.add(batch);
          },
          "offsets"_a, "data"_a, "counts"_a, "Adds columns, as MergeEngine.add takes them.")
      .def(
          "classes",
          [](const bpe::CountTally& tally) {
            nb::list classes;
            for (const auto& one : tally.classes())
              classes.append(nb::make_tuple(one.lowest, one.pieces, one.bytes, one.slots, one.found, one.text_bytes));
            return classes;
          },
          nb::sig("def classes(self) -> list[tuple[int, int, int, int, float, float]]"),
          "A row a class of counts, the lowest first: its lowest count, different pieces, their bytes, their slots in "
          "the merge engine, how often they were found, and the bytes of text they make up (bytes times counts).")
      .def(
          "first_index",
          [](const bpe::CountTally& tally, std::uint64_t max_pairs, std::uint64_t max_positions) {
            const auto index = tally.first_index(max_pairs, max_positions);
            return nb::make_tuple(index.pairs, index.positions, index.longest_list);
          },
          "max_pairs"_a, "max_positions"_a,
          nb::sig("def first_index(self, max_pairs: int, max_positions: int) -> tuple[int, int, int]"),
          "What the engine indexes first, of pieces counted at least min_count times: pairs, their positions, and the "
          "positions of the one pair of bytes that stands most often.");

  module.def("give_back_memory", &bpe::give_back_memory, "Returns to the system what was freed.");

  nb::class_<bpe::MergeEngine>(module, "MergeEngine")
      .def(nb::init<>())
      .def("add", &add, "offsets"_a, "data"_a, "counts"_a,
           "Adds pieces: piece i is data[offsets[i]:offsets[i + 1]] (offsets 64-bit signed, one more than counts), "
           "found counts[i] times (64-bit unsigned). The buffers are borrowed until run() has taken them in.")
      .def("stream", &stream, "read"_a, "piece_bytes"_a,
           nb::sig("def stream(self, read: Callable[[], Iterable[Columns]], piece_bytes: int) -> None"),
           "Instead of add(): read() gives all columns, about piece_bytes of pieces in all; it is called three times "
           "by run(), so that they need not be in memory together.")
      .def("run", &run, "max_merges"_a, nb::kw_only(), "min_frequency"_a = 1, "min_piece_count"_a = 1,
           "max_token_bytes"_a = nb::none(), "tie_break"_a = "lowest-ids", "threads"_a = 1,
           "progress"_a = nb::none(), "narrow_symbols"_a = 65536, "index_positions"_a = 0, "thread_bytes"_a = 4 << 20,
           "share_from"_a = 1500,
           "Trains once on everything added. progress(merges, max_merges, best_count) is called at least every "
           "tenth of a second or so; what it raises, and Ctrl-C, stops the training and is raised here. "
           "narrow_symbols, index_positions, thread_bytes (of pieces, for each thread beyond the first) and share_from "
           "(occurrences of a pair) are tuning and change no result.");
}
