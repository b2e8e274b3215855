// Shows the folder encode to Python: Encoder, what a ChunkCounter feeds instead of counting, merges_of_ranks.
#include "encode/encode.hpp"

#include "bind/casters.hpp"
#include "encode/chunk_ids.hpp"
#include "encode/rank_file.hpp"
#include "text/utf8.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using bpe::ChunkIds;
using bpe::Encoder;
using bpe::IdBuffer;
using bpe::Locked;
using bpe::MemoryView;
using bpe::PreTokenSink;
using bpe::SpecialTokens;
using bpe::Text;
using bpe::unlocked;

namespace {

using Ids = std::span<const uint32_t>;
using Tokens = nb::typed<nb::dict, uint32_t, nb::bytes>;

// While it lives, with the GIL held, Python collects no garbage: up to version 3.11 it would go through the lists that are
// made again and again.
class Uncollected {
 public:
  ~Uncollected() {
    if (enabled_) PyGC_Enable();
  }

 private:
  const bool enabled_ = PyGC_Disable();
};

// An Encoder that keeps the Python number of each id that it has returned, so that a list costs no new objects. The
// numbers are used with the GIL held only.
class ListingEncoder : public Encoder {
 public:
  using Encoder::Encoder;
  ~ListingEncoder() {
    for (PyObject* number : numbers_) Py_XDECREF(number);
  }

  // The ids of parts, one after another.
  nb::typed<nb::list, int> list(Encoder::Parts parts) {
    size_t size = 0;
    for (const Ids& part : parts) size += part.size();
    nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(size)));
    if (!list.is_valid()) throw nb::python_error();
    Py_ssize_t at = 0;
    for (const Ids& part : parts)
      for (const uint32_t id : part) PyList_SET_ITEM(list.ptr(), at++, number(id));
    return nb::borrow<nb::list>(list);
  }
  nb::typed<nb::list, int> list(const IdBuffer& ids) {
    const Ids part(ids.data(), ids.size());
    return list({&part, 1});
  }

 private:
  static constexpr size_t kMostKept = size_t{1} << 20;

  PyObject* number(uint32_t id) {
    if (id < numbers_.size() && numbers_[id]) {
      Py_INCREF(numbers_[id]);
      return numbers_[id];
    }
    PyObject* const made = PyLong_FromUnsignedLong(id);
    if (!made) throw nb::python_error();
    if (id < kMostKept) {
      if (id >= numbers_.size()) numbers_.resize(id + id / 2 + 1, nullptr);
      Py_INCREF(made);
      numbers_[id] = made;
    }
    return made;
  }
  std::vector<PyObject*> numbers_;
};

// The bytes of a text that must be UTF-8; UnicodeDecodeError for others.
std::string_view utf8(const Text& text) {
  const std::string_view bytes = text.bytes();
  if (PyBytes_Check(text.object.ptr()) &&
      bpe::valid_utf8_prefix(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()) != bytes.size()) {
    nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "strict"));
    throw nb::python_error();
  }
  return bytes;
}

std::vector<bpe::Token> tokens_of(const Tokens& tokens) {
  std::vector<bpe::Token> listed;
  listed.reserve(tokens.size());
  for (const auto& [id, bytes] : tokens) {
    if (!PyBytes_Check(bytes.ptr())) throw nb::type_error("tokens must be bytes");
    const auto token = nb::borrow<nb::bytes>(bytes);  // which the dict keeps
    listed.push_back({nb::cast<uint32_t>(id), {token.c_str(), token.size()}});
  }
  return listed;
}

void make_encoder(ListingEncoder* self, const bpe::Automaton* automaton, const Tokens& tokens, Ids left, Ids right,
                  Ids result, bool whole_pre_tokens, size_t cache_bytes, size_t threads, const nb::bytes& lost_bytes,
                  std::optional<uint32_t> unknown, bool fused) {
  const std::vector<bpe::Token> listed = tokens_of(tokens);
  if (left.size() != right.size() || left.size() != result.size())
    throw std::invalid_argument("left, right and result must have one length");
  std::vector<bpe::Merge> merges(left.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) merges[rank] = {left[rank], right[rank], result[rank]};
  const bpe::LostBytes lost{{lost_bytes.c_str(), lost_bytes.size()}, unknown, fused};
  new (self) ListingEncoder(automaton, listed, merges, whole_pre_tokens, cache_bytes, threads, lost);
}

// Runs `work(bytes)` on a text; without the GIL where the text is long enough to repay it.
template <class Work>
auto on(const Text& text, const Work& work) {
  const std::string_view bytes = utf8(text);
  return bytes.size() < 1024 ? work(bytes) : unlocked([&] { return work(bytes); });
}

// Threads share a text of so many bytes.
constexpr size_t kSharedBytes = 1 << 20;

IdBuffer encode(Encoder& self, const Text& text, const SpecialTokens* specials) {
  IdBuffer ids;
  on(text, [&](std::string_view bytes) {
    if (bytes.size() < kSharedBytes) {
      self.encode(bytes, specials, true, ids);
      return;
    }
    const size_t threads = std::thread::hardware_concurrency();
    self.encode_batch({&bytes, 1}, specials, threads, Encoder::kTurnBytes, [&](std::span<const Encoder::Parts> texts) {
      for (const Ids& part : texts[0]) {
        std::copy(part.begin(), part.end(), ids.reserve(part.size()));
        ids.advance(part.size());
      }
    });
  });
  return ids;
}

nb::typed<nb::list, nb::typed<nb::list, int>> encode_batch(ListingEncoder& self, const std::vector<Text>& texts,
                                                           const SpecialTokens* specials, size_t threads,
                                                           size_t turn_bytes) {
  std::vector<std::string_view> listed;
  for (const Text& text : texts) listed.push_back(utf8(text));
  nb::list lists;
  unlocked([&] {
    self.encode_batch(listed, specials, threads, std::max<size_t>(turn_bytes, 1),
                      [&](std::span<const Encoder::Parts> next) {
                        const Locked locked;
                        const Uncollected uncollected;
                        for (const Encoder::Parts& parts : next) lists.append(self.list(parts));
                      });
  });
  return lists;
}

nb::typed<nb::list, int> encode_pre_tokens(ListingEncoder& self, const std::vector<Text>& pre_tokens) {
  std::string text;
  std::vector<uint32_t> ends;
  for (const Text& pre_token : pre_tokens) {
    if (pre_token.bytes().empty()) continue;
    text += pre_token.bytes();
    ends.push_back(static_cast<uint32_t>(text.size()));
  }
  if (text.size() > UINT32_MAX) throw std::runtime_error("the pre-tokens are longer than 4 GiB together");
  IdBuffer ids;
  unlocked([&] { self.encode_cut(text, ends, ids); });
  return self.list(ids);
}

nb::typed<nb::dict, int, int> last_merges(ListingEncoder& self, const Tokens& tokens) {
  nb::typed<nb::dict, int, int> found;
  bpe::RankMerger::Scratch scratch;
  for (const bpe::Token& token : tokens_of(tokens))
    if (const auto rank = self.merger().last_merge(token, scratch)) found[nb::int_(token.id)] = nb::int_(*rank);
  return found;
}

std::vector<std::pair<uint32_t, uint32_t>> steps(ListingEncoder& self, const nb::bytes& pre_token) {
  std::vector<std::pair<uint32_t, uint32_t>> made;
  bpe::RankMerger::Scratch scratch;
  for (const auto& [rank, at] : self.merger().steps({pre_token.c_str(), pre_token.size()}, scratch))
    made.emplace_back(rank, at);
  return made;
}

MemoryView give(IdBuffer ids) {
  const size_t size = ids.size();
  ids.reserve(1);  // an empty row has memory too
  uint32_t* const kept = ids.release();
  return bpe::give(kept, size, kept, [](void* memory) noexcept { std::free(memory); });
}

// Offsets and ids of each pre-token of a counter: with its counts, columns whose rows are 32-bit numbers.
std::pair<MemoryView, MemoryView> encode_rows(ListingEncoder& self, const bpe::ColumnsView& columns) {
  auto ends = std::make_unique_for_overwrite<int64_t[]>(columns.rows + 1);
  IdBuffer ids;
  unlocked([&] {
    ends[0] = 0;
    self.encode_rows(columns, ids, [&](size_t row) { ends[row + 1] = static_cast<int64_t>(4 * ids.size()); });
  });
  return {bpe::give(std::move(ends), columns.rows + 1), give(std::move(ids))};
}

// How often each token occurs in a counter's pre-tokens, added to `uses`; returns the number of all tokens.
uint64_t add_uses(ListingEncoder& self, const bpe::ColumnsView& columns,
                  nb::ndarray<uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> uses) {
  return unlocked([&] {
    IdBuffer ids;
    uint64_t all = 0;
    self.encode_rows(columns, ids, [&](size_t row) {
      for (const uint32_t id : std::span(ids.data(), ids.size())) {
        if (id >= uses.size()) throw std::invalid_argument("uses has no entry for a token");
        uses.data()[id] += columns.counts[row];
      }
      all += ids.size() * columns.counts[row];
      ids.clear();
    });
    return all;
  });
}

template <class Id>
MemoryView take(ChunkIds& self) {
  const size_t count = self.ready();
  auto ids = std::make_unique_for_overwrite<Id[]>(count + 1);
  unlocked([&] { self.take(ids.get()); });
  return bpe::give(std::move(ids), count);
}

void bind_encoder(nb::module_& module) {
  const auto specials = "specials"_a.none() = nb::none();
  nb::class_<ListingEncoder>(module, "Encoder", "Text to token ids, by rank. Safe to share between threads.")
      .def("__init__", &make_encoder, "automaton"_a.none(), "tokens"_a, "left"_a, "right"_a, "result"_a,
           "whole_pre_tokens"_a = false, "cache_bytes"_a = size_t{256} << 20, "threads"_a = size_t{0},
           "lost_bytes"_a = nb::bytes("", 0), "unknown"_a = nb::none(), "fused"_a = false, nb::keep_alive<1, 2>(),
           "tokens: id -> bytes; left, right, result: buffers of uint32, the ids of each merge in order of rank. "
           "threads: how many share what is known of pre-tokens at a time; 0: as many as there are cores. "
           "lost_bytes: what no token stands for; text has nothing instead, or the id `unknown`: for each of them, or "
           "`fused` for each run in a pre-token; 2**32 - 1: RuntimeError.")
      .def(
          "encode",
          [](ListingEncoder& self, const Text& text, const SpecialTokens* specials) {
            return self.list(encode(self, text, specials));
          },
          "text"_a, specials,
          "The ids of a text. UnicodeEncodeError for a lone surrogate, UnicodeDecodeError for invalid UTF-8.")
      .def(
          "encode_to_buffer",
          [](ListingEncoder& self, const Text& text, const SpecialTokens* specials) {
            return give(encode(self, text, specials));
          },
          "text"_a, specials, "The same as a memoryview of uint32.")
      .def(
          "count",
          [](ListingEncoder& self, const Text& text, const SpecialTokens* specials) {
            return on(text, [&](std::string_view bytes) { return self.count(bytes, specials); });
          },
          "text"_a, specials, "How many ids a text has.")
      .def(
          "encode_part",
          [](ListingEncoder& self, const Text& text, const SpecialTokens* specials) {
            IdBuffer ids;
            const size_t rest =
                on(text, [&](std::string_view bytes) { return self.encode(bytes, specials, false, ids); });
            return std::make_pair(self.list(ids), rest);
          },
          "text"_a, specials,
          "The ids that text following this part could not change, and the byte where the rest starts.")
      .def("encode_batch", &encode_batch, "texts"_a, "specials"_a.none(), "threads"_a,
           "turn_bytes"_a = Encoder::kTurnBytes,
           "The ids of each text of a list, in its order, by up to `threads` threads. turn_bytes: what a thread takes "
           "at "
           "once, of many texts or of one; the ids are the same.")
      .def("encode_rows", &encode_rows, "counter"_a,
           "Offsets in bytes (64-bit signed) and ids (uint32) of each pre-token of a counter: columns of numbers.")
      .def("add_uses", &add_uses, "counter"_a, "uses"_a,
           nb::sig("def add_uses(self, counter: Columns, uses: Buffer) -> int"),
           "Adds to uses[id] (uint64) how often each token occurs in the pre-tokens of a counter; returns the sum.")
      .def("last_merges", &last_merges, "tokens"_a,
           "Id -> the rank of the last merge that makes a token (id -> bytes) of its own bytes, where merges do.")
      .def("steps", &steps, "pre_token"_a,
           "The merges of a pre-token in their order: rank, and the byte where the token starts.")
      .def("encode_pre_tokens", &encode_pre_tokens, "pre_tokens"_a, "The ids of pre-tokens that were cut already.")
      .def(
          "encode_cut",
          [](ListingEncoder& self, const Text& text, const std::vector<uint32_t>& ends) {
            const std::string_view bytes = text.bytes();
            IdBuffer ids;
            unlocked([&] { self.encode_cut(bytes, ends, ids); });
            return self.list(ids);
          },
          "text"_a, "ends"_a, "The ids of a text whose pre-tokens end at these bytes.");
}

void bind_chunk_ids(nb::module_& module) {
  nb::class_<ChunkIds, PreTokenSink>(module, "ChunkIds",
                                     "The ids of a chunk, which a ChunkCounter feeds, and where its documents end.")
      .def(
          nb::init<ListingEncoder&, std::vector<uint32_t>, std::optional<uint32_t>, bool, bool, std::vector<uint32_t>,
                   std::vector<uint32_t>>(),
          "encoder"_a, "special_ids"_a, nb::kw_only(), "separator"_a = nb::none(), "separators"_a = true,
          "judged"_a = false, "front"_a = nb::tuple(), "behind"_a = nb::tuple(), nb::keep_alive<1, 2>(),
          "special_ids: of the counter's special tokens, in their order. separator: the id that ends a document, which "
          "is among the ids if `separators`. judged: the counter may drop documents. front, behind: the ids around the "
          "text of "
          "a document.")
      .def("start_text", &ChunkIds::start_text, "inside_document"_a,
           "Call before a text; inside_document: it continues a document which started elsewhere.")
      .def("end_inside_document", &ChunkIds::end_inside_document,
           "Call before the end of a text whose last document continues elsewhere.")
      .def("recognise", &ChunkIds::recognise, "special_ids"_a,
           "Token i of the counter has this id from here on; they are counted from 0.")
      .def("found", &ChunkIds::found, "How often the text has each special token.")
      .def(
          "text", [](const ChunkIds& self) { return std::pair(self.text().ids, self.text().bytes); },
          "The text between special tokens, as it was cut: its ids and its bytes.")
      .def("ready", &ChunkIds::ready, "How many ids take() would return.")
      .def(
          "take",
          [](ChunkIds& self, int id_bytes) {
            if (id_bytes == 2) return take<uint16_t>(self);
            if (id_bytes == 4) return take<uint32_t>(self);
            throw nb::value_error("id_bytes must be 2 or 4");
          },
          "id_bytes"_a, "The ids since the last call whose documents are not dropped any more, in 2 or 4 bytes each.")
      .def(
          "take_ends", [](ChunkIds& self) { return bpe::give_copy(self.take_ends()); },
          "Where documents end, as numbers of ids from the chunk's first, found since the last call; uint64.");
}

}  // namespace

void bind_encode(nb::module_& module) {
  bind_encoder(module);
  bind_chunk_ids(module);
  module.def(
      "merges_of_ranks",
      [](const Tokens& tokens) {
        std::vector<uint32_t> left, right, result;
        const std::vector<bpe::Token> listed = tokens_of(tokens);
        for (const bpe::Merge& merge : unlocked([&] { return bpe::merges_of_ranks(listed); })) {
          left.push_back(merge.left);
          right.push_back(merge.right);
          result.push_back(merge.result);
        }
        return std::tuple(std::move(left), std::move(right), std::move(result));
      },
      "tokens"_a, "The merges that tiktoken's ranks (rank -> bytes) imply: left, right and result, in order of rank.");
}
