// Shows the folder count to Python: hash64, ChunkCounter, combining, CountTally.
#include <nanobind/stl/array.h>

#include "bind/casters.hpp"
#include "count/combine.hpp"
#include "count/counting.hpp"
#include "count/pages.hpp"
#include "count/tally.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using bpe::BorrowedColumns;
using bpe::Buffer;
using bpe::ColumnsTuple;
using bpe::CountTally;
using bpe::give;
using bpe::Text;
using bpe::unlocked;

template <>
inline constexpr std::array<std::string_view, 3> bpe::names_of<bpe::ErrorPolicy>{"replace", "strict", "skip"};

namespace nanobind::detail {
template <>
struct type_caster<bpe::ErrorPolicy> : named_caster<bpe::ErrorPolicy> {};

template <>
struct type_caster<bpe::DocumentJudge> {
  NB_TYPE_CASTER(bpe::DocumentJudge, const_name("DocumentJudge"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    return read_fields(source, field("errors", value.errors), field("sample", value.sample), field("seed", value.seed),
                       field("max_document_chars", value.max_document_chars));
  }
};

// A fraction: numerator and denominator.
template <>
struct type_caster<bpe::Weight> {
  NB_TYPE_CASTER(bpe::Weight, const_name("tuple[int, int]"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    std::pair<uint64_t, uint64_t> parts;
    const bool read = try_cast(source, parts, false);
    value = {parts.first, parts.second};
    return read;
  }
};
}  // namespace nanobind::detail

namespace {

// Holds the automaton or function for as long as the counter uses it.
struct Counter {
  nb::object cutter, spill, sink, form, line_cutter;
  bpe::ChunkCounter counter;
};

// A Python function str -> iterable of str, as a cutter of documents. The Counter holds the function.
bpe::ChunkCounter::DocumentCutter python_cutter(nb::handle function) {
  return [function](const uint8_t* text, size_t size, const std::function<void(size_t)>& emit) {
    const bpe::Locked gil;
    const nb::str document(reinterpret_cast<const char*>(text), size);
    size_t total = 0;
    for (nb::handle pre_token : nb::iter(function(document))) {
      Py_ssize_t pre_token_size;
      if (!PyUnicode_AsUTF8AndSize(pre_token.ptr(), &pre_token_size)) throw nb::python_error();
      total += static_cast<size_t>(pre_token_size);
      emit(static_cast<size_t>(pre_token_size));
    }
    if (total != size) throw nb::value_error("the pre-tokens of a document do not add up to it");
  };
}

void make_counter(Counter* self, nb::object cutter, std::vector<Text> special_tokens,
                  const std::vector<Text>& added_tokens, std::optional<bpe::DocumentJudge> judge, size_t window_bytes,
                  std::optional<size_t> budget_bytes, nb::object spill, nb::object sink, nb::object form,
                  std::vector<uint32_t> refused, nb::object line_cutter) {
  if (sink.is_none() && budget_bytes.has_value() != !spill.is_none())
    throw nb::value_error("budget_bytes and spill are given together or not at all");
  const auto call_spill = [self] {
    const bpe::Locked gil;
    self->spill(nb::find(*self));
  };
  const bpe::ChunkCounter::Options options{
      judge.value_or(bpe::DocumentJudge{}),
      window_bytes,
      budget_bytes.value_or(0),
      call_spill,
      sink.is_none() ? nullptr : nb::cast<bpe::PreTokenSink*>(sink),
      form.is_none() ? nullptr : nb::cast<const bpe::NormalForm*>(form),
      std::move(refused),
      line_cutter.is_none() ? nullptr : nb::cast<const bpe::Automaton*>(line_cutter)};
  const bool native = nb::isinstance<bpe::Automaton>(cutter);
  const size_t separators = special_tokens.size();
  special_tokens.insert(special_tokens.end(), added_tokens.begin(), added_tokens.end());
  new (self) Counter{cutter,
                     spill,
                     sink,
                     form,
                     line_cutter,
                     {native ? nb::cast<const bpe::Automaton*>(cutter) : nullptr,
                      native ? bpe::ChunkCounter::DocumentCutter() : python_cutter(cutter),
                      bpe::SpecialTokens(bpe::strings(special_tokens)), separators, options}};
}

// The garbage collector's access to a Counter: a cutter that is a function may refer back to it.
int traverse_counter(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self)) {
    Counter* counter = nb::inst_ptr<Counter>(self);
    for (const nb::object* held :
         {&counter->cutter, &counter->spill, &counter->sink, &counter->form, &counter->line_cutter})
      Py_VISIT(held->ptr());
  }
  return 0;
}

int clear_counter(PyObject* self) {
  if (nb::inst_ready(self)) {
    Counter* counter = nb::inst_ptr<Counter>(self);
    counter->cutter.reset();
    counter->spill.reset();
  }
  return 0;
}

PyType_Slot counter_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_counter)},
                               {Py_tp_clear, reinterpret_cast<void*>(clear_counter)},
                               {0, nullptr}};

nb::dict statistics_of(const Counter& self) {
  const bpe::CountingStatistics& statistics = self.counter.statistics();
  nb::dict result;
  const auto add = [&](const char* name, const auto& value) { result[name] = nb::cast(value); };
  add("bytes", statistics.bytes), add("documents", statistics.documents), add("pre_tokens", statistics.pre_tokens);
  add("special_tokens", statistics.special_tokens), add("invalid_bytes", statistics.invalid_bytes);
  nb::dict noted;
  const auto note = [&](const char* kind, const bpe::Noted& input) {
    noted[kind] = nb::make_tuple(input.count, input.offsets);
  };
  note("replacements", statistics.replacements), note("documents_skipped", statistics.documents_skipped);
  result["noted"] = noted;
  add("left_out", statistics.left_out), add("cut", statistics.cut);
  return result;
}

// Runs what may find invalid text, which becomes a UnicodeError(text, offset), a refused token, a
// LookupError(token, offset), or exceed the budget, a MemoryError(offset, bytes).
template <class Work>
void reading(const Work& work) {
  try {
    unlocked(work);
  } catch (const bpe::InvalidText& invalid) {
    const std::string text = "invalid UTF-8 at byte " + std::to_string(invalid.offset);
    PyErr_SetObject(PyExc_UnicodeError, nb::make_tuple(text, invalid.offset).ptr());
    throw nb::python_error();
  } catch (const bpe::RefusedToken& found) {
    PyErr_SetObject(PyExc_LookupError, nb::make_tuple(found.token, found.offset).ptr());
    throw nb::python_error();
  } catch (const bpe::OutOfBudget& out) {
    PyErr_SetObject(PyExc_MemoryError, nb::make_tuple(out.offset, out.bytes).ptr());
    throw nb::python_error();
  }
}

template <class Offset>
void feed_rows(bpe::ChunkCounter& counter, const Buffer& offsets, const Buffer& data, bool are_lines) {
  const auto of = offsets.as<Offset>("offsets");
  bpe::check_offsets(of, data.size());
  reading([&] {
    if (are_lines && counter.cuts_lines() && of.size())
      return counter.feed_lines(data.data() + of.front(), static_cast<size_t>(of.back() - of.front()));
    for (size_t row = 0; row + 1 < of.size(); ++row)
      counter.feed_document(data.data() + of[row], static_cast<size_t>(of[row + 1] - of[row]));
  });
}

ColumnsTuple columns_of(Counter& self, size_t partition, size_t partitions) {
  if (partitions == 0 || (partitions & (partitions - 1)) || partition >= partitions)
    throw nb::value_error("partitions must be a power of two and greater than partition");
  const uint64_t width = partitions == 1 ? 0 : ~uint64_t{0} / partitions + 1;
  const uint64_t first = width * partition, last = first + (width - 1);
  return give(unlocked([&] { return self.counter.table().extract(first, last); }));
}

void bind_counter(nb::module_& module) {
  nb::class_<Counter>(
      module, "ChunkCounter",
      "Counts the pre-tokens of one chunk: texts fed in blocks of any size. `cutter` is an Automaton, or a "
      "function from a document to its pre-tokens (slower).",
      nb::type_slots(counter_slots))
      .def("__init__", &make_counter, "cutter"_a, "special_tokens"_a, nb::kw_only(),
           "added_tokens"_a = nb::make_tuple(), "judge"_a = nb::none(), "window_bytes"_a = size_t{1} << 18,
           "budget_bytes"_a = nb::none(), "spill"_a = nb::none(), "sink"_a = nb::none(), "form"_a = nb::none(),
           "refused"_a = nb::make_tuple(), "line_cutter"_a = nb::none(),
           nb::sig("def __init__(self, cutter: Automaton | Callable[[str], Iterable[str]], "
                   "special_tokens: Sequence[str | bytes], *, added_tokens: Sequence[str | bytes] = (), judge: "
                   "DocumentJudge | None = None, "
                   "window_bytes: int = 262144, budget_bytes: int | None = None, "
                   "spill: Callable[[ChunkCounter], None] | None = None, sink: PreTokenSink | None = None, "
                   "form: NormalForm | None = None, refused: Sequence[int] = (), line_cutter: Automaton | None = "
                   "None) -> None"),
           "added_tokens: cut out of the text as special tokens are, but separating no documents. "
           "budget_bytes: what text and tables may take in all. Before they would take more, spill(counter) is called, "
           "which writes columns() somewhere; the counter then starts empty again. sink: what the pre-tokens go to "
           "instead "
           "of being counted. form: what each stretch between special tokens is put into before it is cut. refused: "
           "which of the special and added tokens "
           "raise LookupError(token, offset) where text has them. line_cutter: cuts lines as documents, many at once.")
      .def(
          "feed",
          [](Counter& self, const Buffer& block, bool end) {
            reading([&] { self.counter.feed(block.data(), block.size(), end); });
          },
          "block"_a, "end"_a = false,
          "The next bytes of a text, `end` with the last; another text may follow. Under `strict`, UnicodeError(text, "
          "offset) "
          "at the first invalid byte. MemoryError(offset, bytes) if a pre-token (what a document needs, if one may be "
          "dropped) does not fit into budget_bytes.")
      .def(
          "feed_documents",
          [](Counter& self, const Buffer& offsets, const Buffer& data, int offset_bytes, bool are_lines) {
            if (offset_bytes == 4) return feed_rows<int32_t>(self.counter, offsets, data, are_lines);
            if (offset_bytes == 8) return feed_rows<int64_t>(self.counter, offsets, data, are_lines);
            throw nb::value_error("offset_bytes must be 4 or 8");
          },
          "offsets"_a, "data"_a, "offset_bytes"_a = 8, "are_lines"_a = false,
          "Documents in a column in Arrow's layout: row i is data[offsets[i]:offsets[i + 1]], with one offset more "
          "than rows, of `offset_bytes` (4 or 8), signed. The rows are fed one after the other, or at once where they "
          "are "
          "lines, each with its ending. Errors as of feed().")
      .def(
          "start_inside_document", [](Counter& self) { self.counter.start_inside_document(); },
          "Call before a text that starts inside a document, so that the document is not counted twice.")
      .def(
          "add_pre_tokens",
          [](Counter& self, const std::vector<nb::bytes>& pre_tokens, const std::vector<uint64_t>& counts) {
            if (pre_tokens.size() != counts.size()) throw nb::value_error("as many counts as pre-tokens are needed");
            for (size_t i = 0; i < pre_tokens.size(); ++i)
              self.counter.add(reinterpret_cast<const uint8_t*>(pre_tokens[i].c_str()), pre_tokens[i].size(),
                               counts[i]);
          },
          "pre_tokens"_a, "counts"_a, "Adds counts of pre-tokens that were cut elsewhere.")
      .def("__len__", [](const Counter& self) { return self.counter.table().size(); })
      .def("columns", &columns_of, "partition"_a = 0, "partitions"_a = 1,
           "The pre-tokens of one of `partitions` equal ranges of hashes, in order of hash: offsets (int64), data "
           "(bytes), "
           "counts (uint64). The counter stays as it is.")
      .def(
          "clear_counts", [](Counter& self) { self.counter.clear_counts(); },
          "Forgets the pre-tokens counted so far and frees their memory, but not the text that waits for its end nor "
          "the "
          "statistics.")
      .def(
          "set_budget",
          [](Counter& self, size_t budget_bytes) {
            if ((self.spill.is_none() && self.sink.is_none()) || budget_bytes == 0)
              throw nb::value_error("there is no budget to change");
            reading([&] { self.counter.set_budget(budget_bytes); });
          },
          "budget_bytes"_a,
          "Another budget_bytes from now on, perhaps a smaller one: then spill(counter) may be called.")
      .def("fed_bytes", [](const Counter& self) { return self.counter.statistics().bytes; })
      .def(
          "long_pre_token_bytes", [](const Counter& self) { return self.counter.table().long_bytes(); },
          "The bytes of the pre-tokens that are longer than 15.")
      .def("memory_bytes", [](const Counter& self) { return self.counter.bytes(); })
      .def("statistics", &statistics_of, nb::sig("def statistics(self) -> dict[str, Any]"),
           "bytes, documents, pre-tokens, special_tokens, invalid_bytes; left_out, cut: documents, bytes "
           "and characters that the judge does not take; noted: of each kind of input that was skipped or "
           "altered, how often it occurred, and where the first eight are, from the first byte fed.");
}

void bind_combine(nb::module_& module) {
  const auto without_gil = nb::call_guard<bpe::Released>();
  module.def(
      "combine",
      [](const std::vector<BorrowedColumns>& counters, const std::vector<bpe::Weight>& weights) {
        return give(unlocked([&] {
          std::vector<bpe::ColumnsView> views;
          for (const auto& columns : counters) views.push_back(columns.view());
          return bpe::combine(views, weights);
        }));
      },
      "counters"_a, "weights"_a = nb::tuple(),
      "Adds counters, each in order of hash, into one that is. weights: for each counter a fraction, numerator and "
      "denominator, that its counts are multiplied by, rounded half up and never below 1. OverflowError beyond "
      "2^63 - 1.");
  module.def("totals", &bpe::totals, "counter"_a, without_gil,
             "The sum of a counter's counts, and the bytes of its pre-tokens, each as often as it occurs: of each the "
             "upper and lower 64 bits.");
  module.def("partition_starts", &bpe::partition_starts, "counter"_a, "partitions"_a, without_gil,
             "The row at which each of `partitions` equal ranges of hashes starts, and the number of rows.");
}

void bind_tally(nb::module_& module) {
  nb::class_<CountTally>(module, "CountTally", "How much of a counter is counted how often.")
      .def(nb::init<uint64_t>(), "min_count"_a = 1)
      .def("add", &CountTally::add, "counter"_a, nb::call_guard<bpe::Released>())
      .def(
          "classes",
          [](const CountTally& tally) {
            std::vector<std::tuple<uint64_t, uint64_t, uint64_t, uint64_t, double, double>> classes;
            for (const auto& one : tally.classes())
              classes.emplace_back(one.lowest, one.pre_tokens, one.bytes, one.slots, one.found, one.text_bytes);
            return classes;
          },
          "A row a class of counts, the lowest first: its lowest count, different pre-tokens, their bytes, their slots "
          "in "
          "the merge engine, how often they were found, and the bytes of text they make up (bytes times counts).")
      .def("is_text", &CountTally::is_text, "Whether compact words can hold the pre-tokens: no byte is never in UTF-8.")
      .def(
          "first_index",
          [](const CountTally& tally, uint64_t max_pairs, uint64_t max_positions) {
            const auto index = tally.first_index(max_pairs, max_positions);
            return std::tuple(index.pairs, index.positions, index.longest_list);
          },
          "max_pairs"_a, "max_positions"_a,
          "What the engine indexes first, of pre-tokens counted at least min_count times: pairs, their positions, and "
          "the "
          "positions of the most frequent pair of bytes.");
}

}  // namespace

void bind_count(nb::module_& module) {
  module.def(
      "hash64", [](const Buffer& pre_token) { return bpe::hash64(pre_token.data(), pre_token.size()); }, "pre_token"_a,
      "The hash by which counters are ordered.");
  module.def("give_back_memory", &bpe::give_back_memory, "Returns freed memory to the system.");
  nb::class_<bpe::PreTokenSink>(module, "PreTokenSink",
                                "What takes a ChunkCounter's pre-tokens instead of counting them.");
  bind_counter(module);
  bind_combine(module);
  bind_tally(module);
}
