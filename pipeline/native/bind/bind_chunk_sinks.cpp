// Shows to Python what a ChunkCounter feeds instead of counting: ChunkIds and ChunkText.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind/bind_columns.hpp"
#include "bind/bind_encoder.hpp"
#include "bind/bindings.hpp"
#include "encode/chunk_ids.hpp"
#include "encode/chunk_text.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using bpe::ChunkIds;
using bpe::ChunkText;
using bpe::PieceSink;

namespace {

template <class Id>
nb::object take(ChunkIds& self) {
  const size_t count = self.ready();
  auto ids = std::make_unique_for_overwrite<Id[]>(count + 1);
  {
    const nb::gil_scoped_release released;
    self.take(ids.get());
  }
  return bpe::give(std::move(ids), count);
}

nb::object give_ends(const std::vector<uint64_t>& ends) {
  auto copy = std::make_unique_for_overwrite<uint64_t[]>(ends.size() + 1);
  std::copy(ends.begin(), ends.end(), copy.get());
  return bpe::give(std::move(copy), ends.size());
}

}  // namespace

void bind_chunk_sinks(nb::module_& module) {
  nb::class_<PieceSink>(module, "PieceSink", "What takes a ChunkCounter's pieces instead of counting them.");

  nb::class_<ChunkText, PieceSink>(module, "ChunkText", "The repaired text of a chunk, which a ChunkCounter feeds.")
      .def(
          "__init__",
          [](ChunkText* self, const std::vector<nb::bytes>& special_tokens, bool judged) {
            new (self) ChunkText(bpe::strings(special_tokens), judged);
          },
          "special_tokens"_a, nb::kw_only(), "judged"_a = false,
          nb::sig("def __init__(self, special_tokens: list[bytes], *, judged: bool = False) -> None"),
          "special_tokens: the counter's. judged: the counter may drop documents.")
      .def(
          "take",
          [](ChunkText& self) {
            const auto [text, ends] = self.take();
            return nb::make_tuple(nb::bytes(text.data(), text.size()), give_ends(ends));
          },
          nb::sig("def take(self) -> tuple[bytes, memoryview]"),
          "The text since the last call that is not dropped any more, and where files or records end in it; uint64.");

  nb::class_<ChunkIds, PieceSink>(module, "ChunkIds",
                                  "The ids of a chunk, which a ChunkCounter feeds, and where its documents end.")
      .def(
          "__init__",
          [](ChunkIds* self, bpe::ListingEncoder& encoder, std::vector<uint32_t> special_ids,
             std::optional<uint32_t> separator, bool separators, bool judged) {
            new (self) ChunkIds(encoder, std::move(special_ids), separator, separators, judged);
          },
          "encoder"_a, "special_ids"_a, nb::kw_only(), "separator"_a = nb::none(), "separators"_a = true,
          "judged"_a = false, nb::keep_alive<1, 2>(),
          nb::sig("def __init__(self, encoder: Encoder, special_ids: list[int], *, separator: int | None = None, "
                  "separators: bool = True, judged: bool = False) -> None"),
          "special_ids: of the counter's special tokens, in their order. separator: the id that ends a document, which "
          "stands among the ids if `separators`. judged: the counter may drop documents.")
      .def("end_inside_document", &ChunkIds::end_inside_document,
           "Call before the end of a text whose last document goes on elsewhere.")
      .def("special_token", &ChunkIds::special_token, "index"_a, "One special token, found elsewhere.")
      .def("ready", &ChunkIds::ready, "How many ids take() would give.")
      .def(
          "take",
          [](ChunkIds& self, int id_bytes) {
            if (id_bytes == 2) return take<uint16_t>(self);
            if (id_bytes == 4) return take<uint32_t>(self);
            throw nb::value_error("id_bytes must be 2 or 4");
          },
          "id_bytes"_a, nb::sig("def take(self, id_bytes: int) -> memoryview"),
          "The ids since the last call whose documents are not dropped any more, in 2 or 4 bytes each.")
      .def(
          "take_ends",
          [](ChunkIds& self) {
            return give_ends(self.take_ends());
          },
          nb::sig("def take_ends(self) -> memoryview"),
          "Where documents end, as numbers of ids from the chunk's first, found since the last call; uint64.");
}
