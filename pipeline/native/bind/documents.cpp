// Shows to Python what puts encoded documents into order and into rows: entries_of, deal, in_order, hash_documents, Packer.
#include "encode/documents.hpp"

#include "bind/casters.hpp"
#include "encode/packing.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using bpe::give_all;
using bpe::Packer;
using bpe::unlocked;

template <>
inline constexpr std::array<std::string_view, 3> bpe::names_of<bpe::Packing>{"concat", "best-fit", "none"};

namespace nanobind::detail {
template <>
struct type_caster<bpe::Packing> : named_caster<bpe::Packing> {};
}  // namespace nanobind::detail

void bind_documents(nb::module_& module) {
  const auto without_gil = nb::call_guard<bpe::Released>();
  module.def(
      "entries_of",
      [](size_t ids, std::span<const uint64_t> ends, uint64_t first, uint64_t seed, uint64_t number) {
        return bpe::give(unlocked([&] { return bpe::entries_of(ids, ends, first, seed, number); }));
      },
      "ids"_a, "ends"_a, "first"_a, "seed"_a, "number"_a,
      "The entries of a block: for each document, or stretch of one, its sort key and its ids, and whether it ends.");
  module.def(
      "deal",
      [](std::span<const uint8_t> ids, std::span<const uint64_t> entries, size_t id_bytes, unsigned skip,
         unsigned bits) {
        bpe::Dealt dealt = unlocked([&] { return bpe::deal(ids, entries, id_bytes, skip, bits); });
        return give_all(std::move(dealt.ids), std::move(dealt.words), std::move(dealt.sizes));
      },
      "ids"_a, "entries"_a, "id_bytes"_a, "skip"_a, "bits"_a,
      "The ids and the entries of all buckets, by bits of their keys, and how many entries and ids each bucket has.");
  module.def(
      "hash_documents",
      [](std::span<const uint8_t> ids, std::span<const uint64_t> ends, size_t id_bytes, uint64_t first,
         uint64_t state) {
        auto hashes = bpe::hash_documents(ids, ends, id_bytes, first, state);
        return std::pair(bpe::give(std::move(hashes)), state);
      },
      "ids"_a, "ends"_a, "id_bytes"_a, "first"_a, "state"_a,
      "A hash of each document that ends in a block, and the state after the block.");
  module.def(
      "in_order",
      [](std::span<const uint8_t> ids, std::span<const uint64_t> entries, size_t id_bytes) {
        auto [sorted, ends] = unlocked([&] { return bpe::in_order(ids, entries, id_bytes); });
        return give_all(std::move(sorted), std::move(ends));
      },
      "ids"_a, "entries"_a, "id_bytes"_a,
      "The ids of entries in the order of their keys, as bytes, and where documents end.");
  nb::class_<Packer>(module, "Packer", "Packs documents into rows of a fixed number of tokens.")
      .def(nb::init<size_t, size_t, uint32_t, size_t, bpe::Packing, bool>(), "id_bytes"_a, nb::kw_only(), "row"_a,
           "pad"_a, "window"_a, "packing"_a, "padded"_a)
      .def("add", &Packer::add, "ids"_a, "ends"_a, "first"_a, without_gil)
      .def("end", &Packer::end, without_gil)
      .def("ready", &Packer::ready)
      .def(
          "take",
          [](Packer& self, bool columns) {
            bpe::PackedRows rows = unlocked([&] { return self.take(columns); });
            return give_all(std::move(rows.ids), std::move(rows.row_ends), std::move(rows.positions),
                            std::move(rows.numbers));
          },
          "columns"_a,
          "The rows so far: ids as bytes, where rows end, and positions and numbers of documents if they are asked "
          "for.")
      .def("amounts", [](const Packer& self) {
        return std::tuple(self.padded_tokens, self.truncated_tokens, self.truncated_documents);
      });
}
