// Shows SpecialTokens to Python: what splits documents, for the planner and for tests.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <vector>

#include "bind/bind_buffer.hpp"
#include "bind/bindings.hpp"
#include "text/specials.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using bpe::Buffer;
using bpe::strings;

nb::object match_tuple(const bpe::SpecialTokens::Match& match) {
  if (match.index == bpe::SpecialTokens::npos) return nb::none();
  return nb::make_tuple(match.start, match.end, match.index);
}

}  // namespace

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
