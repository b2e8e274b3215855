// Shows the folder text to Python: Automaton, SpecialTokens, NormalForm, json_texts.

#include "bind/casters.hpp"
#include "text/automaton.hpp"
#include "text/json_field.hpp"
#include "text/normal_form.hpp"
#include "text/simd.hpp"
#include "text/specials.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using bpe::Automaton;
using bpe::Buffer;
using bpe::NormalForm;
using bpe::SpecialTokens;
using bpe::Text;
using bpe::unlocked;

namespace nanobind::detail {
template <>
struct type_caster<bpe::SpecialTokens::Match> {
  NB_TYPE_CASTER(bpe::SpecialTokens::Match, const_name("tuple[int, int, int] | None"))
  static handle from_cpp(const bpe::SpecialTokens::Match& match, rv_policy, cleanup_list*) noexcept {
    return match ? handle(Py_BuildValue("nnI", match.start, match.end, match.id)) : none().release();
  }
};
}  // namespace nanobind::detail

namespace {

constexpr size_t kRound = 4096;

template <class T>
using Table = std::span<const T>;

void make_automaton(Automaton* self, Table<uint32_t> class_starts, Table<uint8_t> class_ids, uint32_t classes,
                    Table<uint16_t> plain, Table<uint32_t> folded, Table<uint8_t> tentative, Table<uint8_t> provable,
                    Table<uint8_t> ahead, Table<uint8_t> variants) {
  new (self) Automaton({class_starts, class_ids, classes, plain, folded, tentative, provable, ahead, variants});
}

// The function is from str to str.
void make_normal_form(NormalForm* self, const std::vector<std::pair<uint32_t, uint32_t>>& runs, nb::object function) {
  new (self) NormalForm(runs, [function = std::move(function)](NormalForm::Text text, std::vector<uint8_t>& to) {
    const bpe::Locked gil;
    const bpe::Text normal{function(nb::str(reinterpret_cast<const char*>(text.data()), text.size()))};
    to.insert(to.end(), normal.bytes().begin(), normal.bytes().end());
  });
}

// Cuts text[begin, end), at most `most` pre-tokens in one call, and appends where they end; returns where the rest starts.
size_t cut(const Automaton& automaton, const Buffer& text, size_t begin, size_t end, bool at_end, size_t most,
           std::vector<uint32_t>& ends) {
  std::vector<uint32_t> round(most);
  size_t at = 0;
  bpe::AheadStretch ahead;
  for (size_t count = 1; count != 0;) {
    at = automaton.cut(text.data() + begin, at, end - begin, at_end, round.data(), most, &count, ahead);
    for (size_t i = 0; i < count; ++i) ends.push_back(static_cast<uint32_t>(begin + round[i]));
  }
  return begin + at;
}

std::pair<std::vector<uint32_t>, size_t> cut_part(const Automaton& self, const Buffer& text, size_t batch,
                                                  bool at_end) {
  if (batch == 0 || text.size() > UINT32_MAX)
    throw std::invalid_argument("cut: an empty batch, or more than 4 GiB of text");
  std::pair<std::vector<uint32_t>, size_t> found;
  found.second = cut(self, text, 0, text.size(), at_end, batch, found.first);
  return found;
}

std::vector<uint32_t> cut_within(const Automaton& self, const Buffer& text, const std::vector<uint32_t>& ends) {
  if (!std::is_sorted(ends.begin(), ends.end()) || (!ends.empty() && ends.back() > text.size()))
    throw std::invalid_argument("cut_within: ends that do not rise, or beyond the text");
  std::vector<uint32_t> finer;
  size_t begin = 0;
  for (const uint32_t end : ends) {
    cut(self, text, begin, end, true, std::min<size_t>(kRound, end - begin + 1), finer);
    begin = end;
  }
  return finer;
}

using RowsSkipped = std::vector<std::pair<uint64_t, std::vector<uint64_t>>>;

auto json_texts(std::span<const uint8_t> lines, const std::vector<std::string>& path) {
  bpe::JsonTexts texts = unlocked([&] { return bpe::json_texts(lines.data(), lines.size(), path); });
  RowsSkipped skipped;
  for (auto& [count, starts] : texts.skipped) skipped.emplace_back(count, std::move(starts));
  const auto size = static_cast<size_t>(texts.offsets.back());
  return std::tuple(bpe::give(std::move(texts.offsets)), bpe::give(std::move(texts.data), size), std::move(skipped));
}

// Where lines start, and where the last one ends.
auto line_offsets(std::span<const uint8_t> lines) {
  std::vector<int64_t> offsets{0};
  unlocked([&] {
    const uint8_t *const end = lines.data() + lines.size(), *at = lines.data();
    while (at != end) {
      const auto* feed = static_cast<const uint8_t*>(std::memchr(at, '\n', static_cast<size_t>(end - at)));
      at = feed ? feed + 1 : end;
      offsets.push_back(at - lines.data());
    }
  });
  return bpe::give(std::move(offsets));
}

}  // namespace

void bind_text(nb::module_& module) {
  bpe::simd();  // a choice that this machine cannot run: the import fails and says so
  module.def(
      "simd",
      [] {
        std::vector<std::string> names{bpe::simd().name};
        for (const bpe::Simd& one : bpe::available_simd())
          if (one.name != names.front()) names.emplace_back(one.name);
        return names;
      },
      "The instruction sets that this machine runs, the one in use first; BPE_PIPELINE_SIMD chooses another.");
  const auto without_gil = nb::call_guard<bpe::Released>();
  nb::class_<Automaton>(module, "Automaton", "A compiled pattern: cuts UTF-8 text into pre-tokens.")
      .def("__init__", &make_automaton, "class_starts"_a, "class_ids"_a, "classes"_a, "plain"_a, "folded"_a,
           "tentative"_a, "provable"_a, "ahead"_a = nb::bytes(""), "variants"_a = nb::bytes(""))
      .def(
          "cut",
          [](const Automaton& self, const Buffer& text, size_t batch) {
            return cut_part(self, text, batch, true).first;
          },
          "text"_a, nb::kw_only(), "batch"_a = kRound, without_gil,
          "The end of each pre-token of a whole document, UTF-8 in bytes. `batch` pre-tokens are cut in one native "
          "call.")
      .def(
          "cut_part",
          [](const Automaton& self, const Buffer& text, size_t batch) { return cut_part(self, text, batch, false); },
          "text"_a, nb::kw_only(), "batch"_a = kRound, without_gil,
          "The end of each pre-token that text following this part could not change, and where the rest starts.")
      .def("cut_within", &cut_within, "text"_a, "ends"_a, without_gil,
           "The end of each pre-token where every stretch that ends at one of `ends` is a document of its own.")
      .def(
          "find_provable_cut",
          [](const Automaton& self, const Buffer& text, size_t from, size_t to) -> std::optional<size_t> {
            const size_t found = self.find_provable_cut(text.data(), text.size(), from, to);
            return found == bpe::npos ? std::nullopt : std::optional(found);
          },
          "text"_a, "start"_a, "stop"_a, without_gil,
          "The first offset in [start, stop) where a document may be cut in two without changing a pre-token, or None.")
      .def_prop_ro("memory_bytes", &Automaton::memory_bytes);

  nb::class_<NormalForm>(module, "NormalForm", "Puts text into a normal form where it is not in it already.")
      .def("__init__", &make_normal_form, "active"_a, "normalize"_a,
           nb::sig("def __init__(self, active: Sequence[tuple[int, int]], normalize: Callable[[str], str]) -> None"),
           "active: first and last code points of runs of characters that normalizing may change, move, or join with "
           "what stands before them; none is below U+0300.")
      .def(
          "can_cut",
          [](const NormalForm& self, const Buffer& text, size_t at) {
            return self.can_cut({text.data(), text.size()}, at);
          },
          "text"_a, "at"_a,
          "Whether both sides of a position in valid UTF-8 are normalized apart as together, and the "
          "two characters at it stay as they are.");
  nb::class_<SpecialTokens>(module, "SpecialTokens",
                            "Finds special tokens in bytes: leftmost, and of those that start there the longest.")
      .def(
          "__init__",
          [](SpecialTokens* self, const std::vector<Text>& tokens, std::vector<uint32_t> ids) {
            new (self) SpecialTokens(bpe::strings(tokens), std::move(ids));
          },
          "tokens"_a, "ids"_a = nb::tuple(), "ids: one a token; without them its index.")
      .def_prop_ro("longest", &SpecialTokens::longest, "Bytes of the longest token; 0 without tokens.")
      .def(
          "find",
          [](const SpecialTokens& self, const Buffer& text, size_t start) {
            return self.find(text.data(), std::min(start, text.size()), text.size());
          },
          "text"_a, "start"_a = 0, without_gil, "The first match at or after `start`: (start, end, id), or None.")
      .def(
          "tally",
          [](const SpecialTokens& self, const Buffer& text) {
            std::vector<uint64_t> counts(self.size());
            size_t at = 0;
            while (const auto match = self.find(text.data(), at, text.size())) {
              ++counts[match.id];
              at = match.end;
            }
            return counts;
          },
          "text"_a, without_gil, "How often a text has each token, of those without ids.")
      .def(
          "match_at",
          [](const SpecialTokens& self, const Buffer& text, size_t at) {
            return at < text.size() ? self.match_at(text.data(), at, text.size()) : SpecialTokens::Match{};
          },
          "text"_a, "at"_a, "The longest token that starts at `at`: (start, end, id), or None.");

  module.def("line_offsets", &line_offsets, "lines"_a,
             "Offsets (int64) of lines with their endings, which are line feeds: of each, and of the end of the last.");
  module.def(
      "json_texts", &json_texts, "lines"_a, "path"_a,
      "One field of whole lines of JSON, to which the keys of `path` lead: offsets (int64) and data, a row for each "
      "line that is not blank; then the rows that are not JSON, without the field, not text: how many, and where "
      "the first few lines start.");
}
