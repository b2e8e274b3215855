// Shows merging by parity to Python: ParityTraining.
#include "bind/merge_casters.hpp"
#include "merge/parity_training.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using bpe::Buffer;
using bpe::merge::ParityTraining;

namespace {

void make_training(ParityTraining* place, std::uint64_t max_merges, bpe::MergeRules rules,
                   std::vector<bpe::Reader> languages, std::vector<bpe::Reader> dev, unsigned threads,
                   std::uint32_t narrow_symbols, std::uint64_t index_positions, std::uint64_t share_from,
                   std::vector<double> ratios, std::uint64_t window, double alpha, std::uint64_t global_merges,
                   const Buffer& left, const Buffer& right, const Buffer& counts, const Buffer& joined,
                   const Buffer& chosen_by, std::vector<std::uint32_t> spent, std::vector<std::uint32_t> recent) {
  bpe::MergeOptions options;
  options.max_merges = max_merges;
  options.rules = rules;
  options.rules.tie_break = bpe::TieBreak::kGreatestLetters;
  options.threads = threads;
  options.narrow_symbols = narrow_symbols;
  options.index_positions = index_positions;
  options.share_from = share_from;
  if (!dev.empty() && dev.size() != languages.size())
    throw std::invalid_argument("texts that are measured are needed for each language");
  const bpe::merge::ParityOptions parity{languages.size(), !dev.empty(),     std::move(ratios), window, alpha,
                                         global_merges,    std::move(spent), std::move(recent)};
  std::vector<bpe::PreTokenSource> texts;
  for (auto* const several : {&languages, &dev})
    for (auto& read : *several) texts.push_back(bpe::source_of(std::move(read)));
  auto known = bpe::known_merges(left, right, counts, joined);
  auto chose = bpe::copy_of<std::uint32_t>(chosen_by, "chosen_by");
  bpe::unlocked([&] { new (place) ParityTraining(options, std::move(known), parity, std::move(chose), texts); });
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> measured_of(const ParityTraining& training) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> found;
  const auto& choice = training.choice();
  for (std::uint32_t language = 0; language < choice.languages(); ++language)
    found.emplace_back(choice.bytes(language), choice.tokens(language));
  return found;
}

bool merge_for(ParityTraining& training, double seconds) {
  const auto span =
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
  return bpe::unlocked([&] { return training.merge_until(std::chrono::steady_clock::now() + span); });
}

}  // namespace

void bind_parity(nb::module_& module) {
  nb::class_<ParityTraining>(module, "ParityTraining", "Merges that languages choose in turn.")
      .def("__init__", &make_training, "max_merges"_a, "rules"_a, "languages"_a, "dev"_a = std::vector<bpe::Reader>(),
           nb::kw_only(), "threads"_a = 1, "narrow_symbols"_a = 65536, "index_positions"_a = 0,
           "share_from"_a = bpe::MergeOptions{}.share_from, "ratios"_a = std::vector<double>(), "window"_a = 0,
           "alpha"_a = 2.0, "global_merges"_a = 0, "left"_a = nb::bytes("", 0), "right"_a = nb::bytes("", 0),
           "counts"_a = nb::bytes("", 0), "joined"_a = nb::bytes("", 0), "chosen_by"_a = nb::bytes("", 0),
           "spent"_a = std::vector<std::uint32_t>(), "recent"_a = std::vector<std::uint32_t>(),
           "languages: each returns all columns of a language and is called twice; dev: measured in their place. "
           "rules: their tie-break means nothing. ratios, window (0: none), alpha, global_merges as in Hugging Face's "
           "ParityBpeTrainer. left to recent: of the merges that are known, as the properties returned them.")
      .def("merge", &merge_for, "seconds"_a, "Makes merges for about that long; False when no merge is left.")
      .def_prop_ro(
          "result", [](const ParityTraining& training) { return training.result(); }, "The merges so far.")
      .def_prop_ro(
          "chosen_by", [](const ParityTraining& training) { return bpe::give_copy(training.chosen_by()); },
          "The language that chose each merge, 32 bit; 2^32 - 1: all together.")
      .def_prop_ro("measured", &measured_of, "Bytes and tokens of each language, as they are measured.")
      .def_prop_ro(
          "choice",
          [](const ParityTraining& training) {
            return std::tuple(training.choice().spent(), training.choice().recent());
          },
          "The languages that have no pair left, and the last choices.");
}
