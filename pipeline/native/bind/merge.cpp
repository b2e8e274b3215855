// Shows the folder merge to Python: MergeEngine, MergeResult.
#include <system_error>

#include "bind/merge_casters.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using bpe::BorrowedColumns;
using bpe::Buffer;
using bpe::MergeEngine;
using bpe::MergeResult;
using bpe::unlocked;

namespace {

// tokens, ids, first new id, forbidden bytes, numbers of tokens that may be made again.
using StartTuple =
    std::tuple<std::vector<bpe::Text>, std::vector<uint32_t>, uint32_t, std::vector<bpe::Text>, std::vector<uint32_t>>;

void add(MergeEngine& engine, Buffer offsets, Buffer data, Buffer counts) {
  const auto columns = bpe::held(BorrowedColumns{std::move(offsets), std::move(data), std::move(counts)});
  engine.add(columns->view(), columns);
}

void stream(MergeEngine& engine, bpe::Reader read, std::uint64_t pre_token_bytes) {
  engine.stream(bpe::source_of(std::move(read)), pre_token_bytes);
}

// The file that an error of the disk names, before the colon and the reason.
std::string scratch_name(const std::system_error& error) {
  const std::string text = error.what();
  return text.substr(0, text.rfind(": "));
}

MergeResult run(MergeEngine& engine, std::uint64_t max_merges, const bpe::MergeRules& rules, unsigned threads,
                nb::object progress, std::uint32_t narrow_symbols, std::uint64_t index_positions,
                std::uint64_t thread_bytes, std::uint64_t share_from, bool compact, std::uint64_t resident_bytes,
                std::string scratch, nb::object phase_end, const std::optional<StartTuple>& start) {
  bpe::MergeOptions options{.max_merges = max_merges,
                            .rules = rules,
                            .threads = threads,
                            .narrow_symbols = narrow_symbols,
                            .index_positions = index_positions,
                            .thread_bytes = thread_bytes,
                            .share_from = share_from,
                            .compact = compact,
                            .resident_bytes = resident_bytes,
                            .scratch = std::move(scratch)};
  bpe::MergeStart from;
  if (start) {
    const auto& [tokens, ids, first_new_id, forbidden, again] = *start;
    from = {bpe::strings(tokens), ids, first_new_id, bpe::strings(forbidden), again};
    options.start = &from;
  }
  const auto poll = [&progress](const bpe::MergeProgress& now) {
    const bpe::Locked gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!progress.is_none()) progress(now.merges, now.max_merges, now.best_count);
  };
  const auto end = [&phase_end](const MergeResult& so_far) {
    if (phase_end.is_none()) return;
    const bpe::Locked gil;
    phase_end(nb::cast(so_far, nb::rv_policy::copy));
  };
  try {
    return unlocked([&] { return engine.run(options, poll, end); });
  } catch (const std::system_error& error) {
    errno = error.code().value();
    PyErr_SetFromErrnoWithFilename(PyExc_OSError, scratch_name(error).c_str());
    throw nb::python_error();
  }
}

void resume(MergeEngine& engine, const Buffer& left, const Buffer& right, const Buffer& counts, const Buffer& joined) {
  engine.resume(bpe::known_merges(left, right, counts, joined));
}

// A property that is a copy of one of a result's columns.
template <auto column>
bpe::MemoryView view_of(const MergeResult& result) {
  return bpe::give_copy(result.*column);
}

}  // namespace

void bind_merge(nb::module_& module) {
  nb::class_<MergeResult>(module, "MergeResult", "A merge list, in order of rank.")
      .def_prop_ro("left", &view_of<&MergeResult::left>, "Ids on the left, 32 bit.")
      .def_prop_ro("right", &view_of<&MergeResult::right>, "Ids on the right, 32 bit.")
      .def_prop_ro("counts", &view_of<&MergeResult::counts>, "The pair's count when it was merged, 64 bit.")
      .def_prop_ro("joined", &view_of<&MergeResult::joined>,
                   "Occurrences that became one token, 64 bit: the count, less overlaps as in `aaa`.")
      .def_ro("bytes", &MergeResult::bytes, "Bytes of all pre-tokens, each as often as it was found.")
      .def_ro("left_out_pre_tokens", &MergeResult::left_out_pre_tokens,
              "Different pre-tokens counted less often than min_pre_token_count.")
      .def_ro("left_out_bytes", &MergeResult::left_out_bytes, "Bytes of them, each as often as it was found.")
      .def_prop_ro("stop", [](const MergeResult& result) { return result.exhausted ? "min-frequency" : "limit"; })
      .def_ro("phases", &MergeResult::phases);

  module.def(
      "engine_rules", [] { return bpe::names_of_rules(bpe::kEngineRules); },
      "The names of the rules that the engine obeys.");
  nb::class_<MergeEngine>(module, "MergeEngine")
      .def(nb::init<>())
      .def("add", &add, "offsets"_a, "data"_a, "counts"_a,
           "Adds pre-tokens: pre-token i is data[offsets[i]:offsets[i + 1]] (offsets 64-bit signed, one more than "
           "counts), "
           "found counts[i] times (64-bit unsigned). The buffers are borrowed until run() has taken them in.")
      .def("stream", &stream, "read"_a, "slots"_a,
           "Instead of add(): read() returns all columns, about that many bytes and pre-tokens in all; run() calls it "
           "once "
           "or twice, so that they need not be in memory together.")
      .def("resume", &resume, "left"_a, "right"_a, "counts"_a, "joined"_a,
           "Continues after these merges, in order of rank: run() makes those that come after them and returns all. "
           "They "
           "are as phase_end was given them, or come from other pre-tokens; what they join is counted in these.")
      .def(
          "run", &run, "max_merges"_a, "rules"_a, nb::kw_only(), "threads"_a = 1, "progress"_a = nb::none(),
          "narrow_symbols"_a = 65536, "index_positions"_a = 0, "thread_bytes"_a = 4 << 20, "share_from"_a = 1500,
          "compact"_a = false, "resident_bytes"_a = 0, "scratch"_a = "", "phase_end"_a = nb::none(),
          "start"_a = nb::none(),
          "Trains once on everything added. progress(merges, max_merges, best_count) is called at least every "
          "tenth of a second or so; what it raises, and Ctrl-C, stops the training and is raised here. "
          "narrow_symbols, index_positions, thread_bytes (of pre-tokens, for each thread beyond the first) and "
          "share_from "
          "(occurrences of a pair) are tuning and change no result. compact: in less memory, a fifth slower. With "
          "resident_bytes, words that a phase does not need are in files whose names begin with scratch (OSError where "
          "they cannot be written), so that any number of bytes is enough; words, lists and pairs take about that "
          "many. "
          "phase_end(result) is called after each phase with the merges so far. start: where pre-tokens are rows of "
          "32-bit "
          "numbers of tokens, which are all kept in memory: their bytes, their ids for the tie-break, the id of the "
          "first "
          "new token, bytes that are never made, and the numbers of tokens that may be made again and are then not "
          "new.");
}
