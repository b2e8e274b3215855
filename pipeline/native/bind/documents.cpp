// Shows to Python what puts encoded documents into order and into rows: Dealer, in_order, hash_documents, Packer.
#include "encode/documents.hpp"

#include <variant>

#include "bind/casters.hpp"
#include "encode/packing.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using bpe::Buffer;
using bpe::MemoryView;
using bpe::unlocked;

namespace {

// Calls work(Id{}) with the type of ids of that many bytes.
template <class Work>
auto with_ids(int id_bytes, const Work& work) {
  if (id_bytes == 2) return work(uint16_t{});
  if (id_bytes == 4) return work(uint32_t{});
  throw nb::value_error("id_bytes must be 2 or 4");
}

// A dealer or packer of ids of either size.
template <template <class> class Of>
struct Either {
  std::variant<Of<uint16_t>, Of<uint32_t>> of;
  template <class... Values>
  Either(int id_bytes, Values... values)
      : of(with_ids(id_bytes, [&](auto id) -> std::variant<Of<uint16_t>, Of<uint32_t>> {
          return Of<decltype(id)>(values...);
        })) {}

  void add(const Buffer& ids, const Buffer& ends, uint64_t first, auto... more) {
    std::visit(
        [&]<class Id>(Of<Id>& self) {
          const auto own = ids.as<Id>("ids");
          const auto positions = ends.as<uint64_t>("ends");
          unlocked([&] { self.add(own, positions, first, more...); });
        },
        of);
  }
};
using Dealer = Either<bpe::Dealer>;
using Packer = Either<bpe::Packer>;

nb::tuple hash_documents(const Buffer& ids, const Buffer& ends, int id_bytes, uint64_t first, uint64_t state) {
  return with_ids(id_bytes, [&]<class Id>(Id) {
    const auto own = ids.as<Id>("ids");
    const auto positions = ends.as<uint64_t>("ends");
    std::vector<uint64_t> hashes;
    uint64_t first_state = 0;
    bpe::each_document(own.size(), positions, first, [&](size_t start, size_t stop, bool ended) {
      state = bpe::content_hash(own.subspan(start, stop - start), state);
      if (!ended) return;
      if (hashes.empty()) first_state = state;
      hashes.push_back(bpe::mixed(state));
      state = 0;
    });
    return nb::make_tuple(bpe::give_copy(hashes), first_state, state);
  });
}

nb::tuple take_packed(Packer& self, bool columns) {
  return std::visit(
      [&]<class Id>(bpe::Packer<Id>& packer) {
        std::vector<Id> ids;
        std::vector<uint64_t> ends;
        bpe::PackedColumns more;
        unlocked([&] { packer.take(ids, ends, columns ? &more : nullptr); });
        return nb::make_tuple(bpe::give(std::move(ids)), bpe::give(std::move(ends)),
                              bpe::give(std::move(more.positions)), bpe::give(std::move(more.numbers)));
      },
      self.of);
}

}  // namespace

void bind_documents(nb::module_& module) {
  nb::class_<Dealer>(module, "Dealer", "Groups the documents of a run by the buckets of their keys.")
      .def(
          "__init__",
          [](Dealer* self, int id_bytes, size_t buckets, size_t validation_buckets, bool shuffled, uint64_t key,
             uint64_t documents, uint64_t passes, uint64_t copies, uint64_t share, uint64_t held_out, bool validation,
             size_t expected) {
            if (!buckets || !validation_buckets || !documents || !passes)
              throw nb::value_error("buckets, documents and passes must be at least 1");
            const bpe::Selection selection{shuffled, key, documents, passes, copies, share, held_out, validation};
            new (self) Dealer(id_bytes, selection, buckets, validation_buckets, expected);
          },
          "id_bytes"_a, nb::kw_only(), "buckets"_a, "validation_buckets"_a, "shuffled"_a, "key"_a, "documents"_a,
          "passes"_a, "copies"_a, "share"_a, "held_out"_a, "validation"_a, "expected"_a)
      .def(
          "add",
          [](Dealer& self, const Buffer& ids, const Buffer& ends, uint64_t first, const Buffer& hashes,
             uint64_t number) { self.add(ids, ends, first, hashes.as<uint64_t>("hashes"), number); },
          "ids"_a, "ends"_a, "first"_a, "hashes"_a, "number"_a, "A block whose first document has this number.")
      .def("memory", [](const Dealer& self) { return std::visit([](const auto& of) { return of.bytes(); }, self.of); },
           "The memory that take() needs.")
      .def(
          "take",
          [](Dealer& self) {
            return std::visit(
                [](auto& of) {
                  auto dealt = unlocked([&] { return of.take(); });
                  return nb::make_tuple(bpe::give(std::move(dealt.words)), bpe::give(std::move(dealt.ids)),
                                        bpe::give(std::move(dealt.table)));
                },
                self.of);
          },
          nb::sig("def take(self) -> tuple[memoryview, memoryview, memoryview]"),
          "The entries (key, size and whether it ends) and the ids of all buckets, and how many of both each bucket has.");
  module.def("hash_documents", &hash_documents, "ids"_a, "ends"_a, "id_bytes"_a, "first"_a, "state"_a,
             nb::sig("def hash_documents(ids: Buffer, ends: Buffer, id_bytes: int, first: int, state: int) -> "
                     "tuple[memoryview, int, int]"),
             "A hash of each document that ends in a block, the state at the first end, and the state after the block.");
  module.def("hash_step", [] { return bpe::kStep; }, "hash(a + b) == hash(a) * hash_step() ** len(b) + hash(b), modulo 2 ** 64.");
  module.def("order_of", [](const Buffer& words) { return bpe::give_copy(bpe::order_of(words.as<uint64_t>("words"))); },
             "words"_a, "The numbers of a bucket's entries in the order of their keys.");
  module.def(
      "in_order",
      [](const Buffer& words, const std::vector<Buffer>& runs, int id_bytes) {
        return with_ids(id_bytes, [&]<class Id>(Id) {
          const auto entries = words.as<uint64_t>("words");
          std::vector<std::span<const Id>> own;
          for (const Buffer& ids : runs) own.push_back(ids.as<Id>("ids"));
          auto [sorted, ends] = unlocked([&] { return bpe::in_order<Id>(entries, own); });
          return nb::make_tuple(bpe::give(std::move(sorted)), bpe::give(std::move(ends)));
        });
      },
      "words"_a, "runs"_a, "id_bytes"_a,
      nb::sig("def in_order(words: Buffer, runs: Sequence[Buffer], id_bytes: int) -> tuple[memoryview, memoryview]"),
      "The ids of one bucket in the order of their keys, and where documents end.");
  nb::class_<Packer>(module, "Packer", "Packs documents into rows of a fixed number of tokens.")
      .def(
          "__init__",
          [](Packer* self, int id_bytes, size_t row, uint32_t pad, size_t window, const std::string& packing,
             bool padded) {
            if (!row) throw nb::value_error("row must be at least 1");
            const auto how = packing == "concat"     ? bpe::Packing::kConcat
                             : packing == "best-fit" ? bpe::Packing::kBestFit
                                                     : bpe::Packing::kNone;
            new (self) Packer(id_bytes, row, pad, window, how, padded);
          },
          "id_bytes"_a, nb::kw_only(), "row"_a, "pad"_a, "window"_a, "packing"_a, "padded"_a)
      .def(
          "add",
          [](Packer& self, const Buffer& ids, const Buffer& ends, uint64_t first) { self.add(ids, ends, first); },
          "ids"_a, "ends"_a, "first"_a)
      .def("end", [](Packer& self) { std::visit([](auto& of) { of.end(); }, self.of); })
      .def("ready", [](const Packer& self) { return std::visit([](const auto& of) { return of.ready(); }, self.of); })
      .def("take", &take_packed, "columns"_a,
           nb::sig("def take(self, columns: bool) -> tuple[memoryview, memoryview, memoryview, memoryview]"),
           "The rows so far: ids, where rows end, and positions and numbers of documents if they are asked for.")
      .def("amounts", [](const Packer& self) {
        return std::visit(
            [](const auto& of) {
              return std::make_tuple(of.padded_tokens, of.truncated_tokens, of.truncated_documents);
            },
            self.of);
      });
}
