#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "bind/bind_encoder.hpp"
#include "bind/bindings.hpp"
#include "encode/encode.hpp"
#include "encode/rank_file.hpp"
#include "text/utf8.hpp"

namespace nb = nanobind;
using bpe::Encoder;
using bpe::IdBuffer;
using bpe::ListingEncoder;

namespace {

using Ids = nb::ndarray<const uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// The UTF-8 of a str (UnicodeEncodeError for a lone surrogate) or any bytes; alive as long as the object.
std::string_view view(nb::handle text) {
  if (PyUnicode_Check(text.ptr())) {
    Py_ssize_t size = 0;
    const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
    if (!data) throw nb::python_error();
    return {data, static_cast<size_t>(size)};
  }
  if (PyBytes_Check(text.ptr())) {
    return {PyBytes_AS_STRING(text.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(text.ptr()))};
  }
  throw nb::type_error("text must be str or bytes");
}

// The same, with UnicodeDecodeError for bytes that are not UTF-8.
std::string_view text_view(nb::handle text) {
  const std::string_view bytes = view(text);
  if (!PyUnicode_Check(text.ptr()) &&
      bpe::valid_utf8_prefix(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()) != bytes.size()) {
    nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "strict"));
    throw nb::python_error();
  }
  return bytes;
}

template <class T>
using View = nb::ndarray<nb::memview, T, nb::ndim<1>, nb::c_contig>;

View<uint32_t> to_view(IdBuffer& ids) {
  const size_t size = ids.size();
  ids.reserve(1);  // an empty row has memory too
  uint32_t* data = ids.release();
  nb::capsule owner(data, [](void* memory) noexcept { std::free(memory); });
  return View<uint32_t>(data, {size}, owner);
}

// Which special tokens are recognised in a text, and their ids.
struct Specials {
  bpe::SpecialTokens tokens;
  std::vector<uint32_t> ids;

  Specials(std::vector<std::string> texts, std::vector<uint32_t> token_ids)
      : tokens(std::move(texts)), ids(std::move(token_ids)) {
    if (ids.size() != tokens.tokens().size()) throw std::invalid_argument("one id for each special token");
  }
  static const bpe::SpecialTokens* tokens_of(const Specials* self) { return self ? &self->tokens : nullptr; }
  static std::span<const uint32_t> ids_of(const Specials* self) {
    return self ? std::span<const uint32_t>(self->ids) : std::span<const uint32_t>();
  }
};

std::vector<bpe::Token> tokens_of(const nb::dict& tokens) {
  std::vector<bpe::Token> listed;
  listed.reserve(tokens.size());
  for (const auto& [id, bytes] : tokens) listed.push_back({nb::cast<uint32_t>(id), view(bytes)});
  return listed;
}

void construct(ListingEncoder* self, const bpe::Automaton* automaton, const nb::dict& tokens, const Ids& left,
               const Ids& right, const Ids& result, bool whole_pieces, size_t cache_bytes, size_t threads) {
  const std::vector<bpe::Token> listed = tokens_of(tokens);
  if (left.size() != right.size() || left.size() != result.size()) {
    throw std::invalid_argument("left, right and result must have one length");
  }
  std::vector<bpe::Merge> merges(left.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    merges[rank] = {left.data()[rank], right.data()[rank], result.data()[rank]};
  }
  new (self) ListingEncoder(automaton, listed, merges, whole_pieces, cache_bytes, threads);
}

// Runs `work`; without the interpreter where the text is worth handing it over.
template <class Work>
void run(size_t bytes, Work work) {
  if (bytes < 1024) {
    work();
  } else {
    const nb::gil_scoped_release release;
    work();
  }
}

IdBuffer encode(Encoder& self, nb::handle text, const Specials* specials) {
  const std::string_view bytes = text_view(text);
  IdBuffer ids;
  run(bytes.size(), [&] { self.encode(bytes, Specials::tokens_of(specials), Specials::ids_of(specials), ids); });
  return ids;
}

Encoder::Batch encode_batch(Encoder& self, const nb::list& texts, const Specials* specials, size_t threads) {
  std::vector<nb::object> kept;  // another thread may change the list meanwhile
  std::vector<std::string_view> listed;
  kept.reserve(texts.size());
  listed.reserve(texts.size());
  for (nb::handle text : texts) {
    kept.push_back(nb::borrow(text));
    listed.push_back(text_view(text));
  }
  const nb::gil_scoped_release release;
  return self.encode_batch(listed, Specials::tokens_of(specials), Specials::ids_of(specials), threads);
}

nb::tuple batch_views(Encoder::Batch& batch) {
  auto* offsets = new std::vector<uint64_t>{0};
  nb::capsule owner(offsets, [](void* memory) noexcept { delete static_cast<std::vector<uint64_t>*>(memory); });
  IdBuffer joined;
  {
    const nb::gil_scoped_release release;
    offsets->reserve(batch.places.size() + 1);
    size_t total = 0;
    for (const Encoder::Place& place : batch.places) offsets->push_back(total += place.end - place.begin);
    for (const Encoder::Place& place : batch.places) {
      const size_t size = place.end - place.begin;
      if (size == 0) continue;
      std::memcpy(joined.reserve(joined.size() ? size : total), batch.rows[place.row].data() + place.begin,
                  size * sizeof(uint32_t));
      joined.advance(size);
    }
  }
  return nb::make_tuple(to_view(joined), View<uint64_t>(offsets->data(), {offsets->size()}, owner));
}

IdBuffer encode_pieces(ListingEncoder& self, const nb::list& pieces) {
  std::vector<std::string_view> listed;
  listed.reserve(pieces.size());
  for (nb::handle piece : pieces) listed.push_back(view(piece));
  IdBuffer ids;
  const nb::gil_scoped_release release;
  self.encode_pieces(listed, ids);
  return ids;
}

// Ids of the tokens whose own bytes the merges alone do not turn into them.
std::vector<uint32_t> unreachable(ListingEncoder& self, const nb::dict& tokens) {
  const std::vector<bpe::Token> listed = tokens_of(tokens);
  std::vector<uint32_t> lost;
  const nb::gil_scoped_release release;
  for (const bpe::Token& token : listed) {
    IdBuffer ids;
    self.merge_only(token.bytes, ids);
    if (ids.size() != 1 || ids.data()[0] != token.id) lost.push_back(token.id);
  }
  return lost;
}

// The merges that a rank file implies, as three columns of ids.
nb::tuple merges_of_ranks(const nb::dict& tokens) {
  const std::vector<bpe::Token> listed = tokens_of(tokens);
  std::vector<uint32_t> left, right, result;
  {
    const nb::gil_scoped_release release;
    for (const bpe::Merge& merge : bpe::merges_of_ranks(listed)) {
      left.push_back(merge.left);
      right.push_back(merge.right);
      result.push_back(merge.result);
    }
  }
  return nb::make_tuple(std::move(left), std::move(right), std::move(result));
}

}  // namespace

void bind_encode(nb::module_& module) {
  nb::class_<Specials>(module, "Specials", "Special tokens to recognise in a text, with their ids.")
      .def(nb::init<std::vector<std::string>, std::vector<uint32_t>>(), nb::arg("texts"), nb::arg("ids"))
      .def(
          "find",
          [](const Specials& self, nb::handle text, size_t start) -> std::optional<nb::tuple> {
            const std::string_view bytes = view(text);
            const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
            const auto match = self.tokens.find(data, std::min(start, bytes.size()), bytes.size());
            if (match.start == bpe::SpecialTokens::npos) return std::nullopt;
            return nb::make_tuple(match.start, match.end, self.ids[match.index]);
          },
          nb::arg("text"), nb::arg("start") = 0,
          nb::sig("def find(self, text: str | bytes, start: int = 0) -> tuple[int, int, int] | None"),
          "The first match at or after byte `start`: (start, end, id) in bytes, or None.")
      .def_prop_ro(
          "longest", [](const Specials& self) { return self.tokens.longest(); }, "Bytes of the longest text.");

  nb::class_<ListingEncoder>(module, "Encoder", "Text to token ids, by rank. Safe to share between threads.")
      .def("__init__", &construct, nb::arg("automaton").none(), nb::arg("tokens"), nb::arg("left"), nb::arg("right"),
           nb::arg("result"), nb::arg("whole_pieces") = false, nb::arg("cache_bytes") = size_t{256} << 20,
           nb::arg("threads") = size_t{0}, nb::keep_alive<1, 2>(),
           nb::sig("def __init__(self, automaton: Automaton | None, tokens: dict[int, bytes], left: object, "
                   "right: object, result: object, whole_pieces: bool = False, cache_bytes: int = 268435456, "
                   "threads: int = 0) -> None"),
           "tokens: id -> bytes; left, right, result: buffers of uint32, the ids of each merge in order of rank. "
           "threads: how many keep caches; 0: as many as there are cores.")
      .def(
          "encode",
          [](ListingEncoder& self, nb::handle text, const Specials* specials) {
            return self.list(encode(self, text, specials));
          },
          nb::arg("text"), nb::arg("specials").none() = nb::none(),
          nb::sig("def encode(self, text: str | bytes, specials: Specials | None = None) -> list[int]"),
          "The ids of a text. UnicodeEncodeError for a lone surrogate, UnicodeDecodeError for invalid UTF-8.")
      .def(
          "encode_to_buffer",
          [](ListingEncoder& self, nb::handle text, const Specials* specials) {
            IdBuffer ids = encode(self, text, specials);
            return to_view(ids);
          },
          nb::arg("text"), nb::arg("specials").none() = nb::none(),
          nb::sig("def encode_to_buffer(self, text: str | bytes, specials: Specials | None = None) -> memoryview"),
          "The same as a memoryview of uint32.")
      .def(
          "count",
          [](ListingEncoder& self, nb::handle text, const Specials* specials) {
            const std::string_view bytes = text_view(text);
            size_t counted = 0;
            run(bytes.size(),
                [&] { counted = self.count(bytes, Specials::tokens_of(specials), Specials::ids_of(specials)); });
            return counted;
          },
          nb::arg("text"), nb::arg("specials").none() = nb::none(),
          nb::sig("def count(self, text: str | bytes, specials: Specials | None = None) -> int"),
          "How many ids a text has.")
      .def(
          "encode_part",
          [](ListingEncoder& self, nb::handle text, const Specials* specials) {
            const std::string_view bytes = text_view(text);
            IdBuffer ids;
            size_t rest = 0;
            run(bytes.size(), [&] {
              rest = self.encode_part(bytes, Specials::tokens_of(specials), Specials::ids_of(specials), ids);
            });
            return nb::make_tuple(self.list(ids), rest);
          },
          nb::arg("text"), nb::arg("specials").none() = nb::none(),
          nb::sig("def encode_part(self, text: str | bytes, specials: Specials | None = None) -> tuple[list[int], int]"),
          "The ids that text following this part could not change, and the byte where the rest begins.")
      .def(
          "encode_batch",
          [](ListingEncoder& self, const nb::list& texts, const Specials* specials, size_t threads) {
            Encoder::Batch batch = encode_batch(self, texts, specials, threads);
            nb::list lists;
            for (const auto& [row, begin, end] : batch.places) {
              lists.append(self.list(batch.rows[row].data() + begin, end - begin));
            }
            return lists;
          },
          nb::arg("texts"), nb::arg("specials").none(), nb::arg("threads"),
          nb::sig("def encode_batch(self, texts: Sequence[str | bytes], specials: Specials | None, threads: int) -> "
                  "list[list[int]]"),
          "The ids of each text of a list, in its order, by up to `threads` threads.")
      .def(
          "encode_batch_to_buffer",
          [](ListingEncoder& self, const nb::list& texts, const Specials* specials, size_t threads) {
            Encoder::Batch batch = encode_batch(self, texts, specials, threads);
            return batch_views(batch);
          },
          nb::arg("texts"), nb::arg("specials").none(), nb::arg("threads"),
          nb::sig("def encode_batch_to_buffer(self, texts: Sequence[str | bytes], specials: Specials | None, "
                  "threads: int) -> tuple[memoryview, memoryview]"),
          "The same as one memoryview of uint32, and where each text's ids begin and the last one's end (uint64).")
      .def(
          "encode_pieces",
          [](ListingEncoder& self, const nb::list& pieces) { return self.list(encode_pieces(self, pieces)); },
          nb::arg("pieces"), nb::sig("def encode_pieces(self, pieces: list[str]) -> list[int]"),
          "The ids of pieces that were cut already.")
      .def(
          "encode_cut",
          [](ListingEncoder& self, nb::handle text, const std::vector<uint32_t>& ends) {
            const std::string_view bytes = view(text);
            IdBuffer ids;
            {
              const nb::gil_scoped_release release;
              self.encode_cut(bytes, ends, ids);
            }
            return self.list(ids);
          },
          nb::arg("text"), nb::arg("ends"),
          nb::sig("def encode_cut(self, text: str | bytes, ends: list[int]) -> list[int]"),
          "The ids of a text whose pieces end at these bytes.")
      .def("unreachable", &unreachable, nb::arg("tokens"),
           nb::sig("def unreachable(self, tokens: dict[int, bytes]) -> list[int]"),
           "Ids of the tokens (id -> bytes) that the merges alone do not make of their bytes.");

  module.def("merges_of_ranks", &merges_of_ranks, nb::arg("tokens"),
             nb::sig("def merges_of_ranks(tokens: dict[int, bytes]) -> tuple[list[int], list[int], list[int]]"),
             "The merges that tiktoken's ranks (rank -> bytes) imply: left, right and result, in order of rank.");
}
