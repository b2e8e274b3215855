// Shows merges that nodes share to Python: Part, SharedTraining.
#include <nanobind/stl/array.h>

#include "bind/merge_casters.hpp"
#include "merge/shared.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using bpe::Buffer;
using bpe::MemoryView;
using bpe::unlocked;
using bpe::merge::JoinedAround;
using bpe::merge::PairKey;
using bpe::merge::PairTally;
using bpe::merge::Part;
using bpe::merge::SharedTraining;

namespace {

// pairs and their counts; by join the numbers of neighbours, their symbols and weights, and whether lists are full.
using TallyTuple = std::tuple<Buffer, Buffer>;
using AroundTuple = std::tuple<Buffer, Buffer, Buffer, bool>;

std::vector<PairKey> keys_of(const Buffer& buffer) { return bpe::copy_of<PairKey>(buffer, "pairs"); }

void make_part(Part* place, const bpe::MergeRules& rules, bpe::Reader read, std::uint64_t piece_bytes, const Buffer& known,
               unsigned threads, std::uint32_t narrow_symbols) {
  const bpe::MergeOptions options{.rules = rules, .threads = threads, .narrow_symbols = narrow_symbols, .scratch = {}};
  const auto source = bpe::source_of(std::move(read));
  const auto merges = keys_of(known);
  unlocked([&] { new (place) Part(options, source, piece_bytes, merges); });
}

auto facts(const Part& part) {
  const auto& found = part.facts();
  return std::tuple(part.corpus().slots, part.corpus().mass, found.bytes, found.left_out_pieces, found.left_out_bytes);
}

auto index_part(Part& part, std::uint64_t version, const Buffer& filter) {
  const auto passing = bpe::copy_of<std::uint64_t>(filter, "filter");
  const auto tally = unlocked([&] { return part.index(version, passing); });
  std::vector<PairKey> keys;
  std::vector<std::uint64_t> counts;
  tally.each([&](const PairTally::Slot& slot) {
    keys.push_back(slot.key());
    counts.push_back(slot.value.count);
  });
  return std::tuple(bpe::give(std::move(keys)), bpe::give(std::move(counts)));
}

auto join_guess(Part& part, std::uint64_t version, const Buffer& fresh, const Buffer& guess) {
  const auto listed = keys_of(fresh), guessed = keys_of(guess);
  auto around = unlocked([&] { return part.join(version, listed, guessed); });
  return std::tuple(bpe::give(std::move(around.sizes)), bpe::give(std::move(around.symbols)),
                    bpe::give(std::move(around.weights)), around.full);
}

void make_training(SharedTraining* place, std::uint64_t max_merges, const bpe::MergeRules& rules,
                   std::uint32_t narrow_symbols, std::uint64_t index_positions, const Buffer& left,
                   const Buffer& right, const Buffer& counts, const Buffer& joined) {
  const bpe::MergeOptions options{.max_merges = max_merges,
                                  .rules = rules,
                                  .narrow_symbols = narrow_symbols,
                                  .index_positions = index_positions,
                                  .scratch = {}};
  new (place) SharedTraining(options, bpe::known_merges(left, right, counts, joined));
}

void add_up(SharedTraining& training, const Buffer& sums) { training.add_up(sums.as<std::uint64_t>("sums")); }

MemoryView begin_phase(SharedTraining& training, const std::vector<Buffer>& samples, std::uint64_t step) {
  std::vector<std::vector<PairKey>> all;
  for (const auto& sample : samples) all.push_back(bpe::copy_of<PairKey>(sample, "sample"));
  return bpe::give(training.begin_phase(std::move(all), static_cast<double>(step)));
}

void count(SharedTraining& training, const TallyTuple& tally) {
  training.count(std::get<0>(tally).as<PairKey>("pairs"), std::get<1>(tally).as<std::uint64_t>("counts"));
}

MemoryView enter(SharedTraining& training, const std::vector<AroundTuple>& answers) {
  std::vector<JoinedAround> parts;
  for (const auto& [sizes, symbols, weights, full] : answers)
    parts.push_back({bpe::copy_of<std::uint32_t>(sizes, "sizes"), bpe::copy_of<std::uint32_t>(symbols, "symbols"),
                     bpe::copy_of<std::uint64_t>(weights, "weights"), full});
  return bpe::give(training.enter(parts));
}

}  // namespace

void bind_part(nb::module_& module) {
  nb::class_<Part>(module, "Part", "The words of one part of a counter, for merges that nodes share.")
      .def("__init__", &make_part, "rules"_a, "read"_a, "piece_bytes"_a, "known"_a, nb::kw_only(), "threads"_a = 1,
           "narrow_symbols"_a = 65536,
           "read() returns all columns of the part. piece_bytes: of their pieces, about, and one more each. known: the merges made so far.")
      .def("facts", &facts, "Slots, their mass, bytes, pieces left out, their bytes.")
      .def("sums", [](Part& part, std::size_t size) { return bpe::give(unlocked([&] { return part.sums(size); })); },
           "sketch_size"_a, "The counts of all pairs, by counter of a sketch; before the first phase.")
      .def("sample",
           [](Part& part, std::uint64_t version, std::size_t step) { return bpe::give(part.sample(version, step)); },
           "version"_a, "step"_a, "Pairs at one in `step` positions, after that many merges.")
      .def("index", &index_part, "version"_a, "filter"_a, "Starts a phase: lists what passes; returns pairs and counts.")
      .def("join", &join_guess, "version"_a, "fresh"_a, "guess"_a,
           "Settles on that many merges, lists pairs that are new in the phase, and makes the next guess. Returns the "
           "neighbours: by join the number of tokens on the left and on the right, the tokens, their weights; and whether the phase "
           "should end.");

  nb::class_<SharedTraining>(module, "SharedTraining", "Coordinates parts; merges as MergeEngine does.")
      .def("__init__", &make_training, "max_merges"_a, "rules"_a, nb::kw_only(), "narrow_symbols"_a = 65536,
           "index_positions"_a = 0, "left"_a = nb::bytes("", 0), "right"_a = nb::bytes("", 0),
           "counts"_a = nb::bytes("", 0), "joined"_a = nb::bytes("", 0),
           "After the merges of these columns.")
      .def_prop_ro("result", [](const SharedTraining& training) { return training.result(); }, "The merges so far.")
      .def_prop_ro("version", [](const SharedTraining& training) { return training.result().counts.size(); })
      .def("merges", [](const SharedTraining& training) { return bpe::give(training.merges()); },
           "The merges so far, as a part takes them.")
      .def("start", &SharedTraining::start, "facts"_a, "Takes the facts of all parts; returns the size of the sketch.")
      .def("add_up", &add_up, "sums"_a, "Takes the sums of the next part.")
      .def("begin_phase", &begin_phase, "samples"_a, "step"_a,
           "Takes a sample of each part; returns the filter for a phase, empty when no merge is left.")
      .def("count", &count, "tally"_a, "Takes what the next part has indexed.")
      .def("open_phase", &SharedTraining::index, "After all parts were counted.")
      .def("indexed", [](SharedTraining& training) { return bpe::give(training.indexed()); },
           "The filter for a part that is made again during a phase.")
      .def("guess", [](SharedTraining& training) { return bpe::give_copy(training.guess()); },
           "The next merges, as far as can be guessed; none when the phase has ended.")
      .def("enter", &enter, "answers"_a, "Makes the guessed merges that hold; returns pairs that are new in the phase.");
}
