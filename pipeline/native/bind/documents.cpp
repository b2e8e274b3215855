// Shows to Python what puts encoded documents into order and into rows: Dealer, in_order, hash_documents, Packer.
#include "encode/documents.hpp"

#include "bind/casters.hpp"
#include "encode/packing.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using bpe::Buffer;
using bpe::Dealer;
using bpe::give_all;
using bpe::Packer;
using bpe::unlocked;

template <>
inline constexpr std::array<std::string_view, 3> bpe::names_of<bpe::Packing>{"concat", "best-fit", "none"};

namespace nanobind::detail {
template <>
struct type_caster<bpe::Packing> : named_caster<bpe::Packing> {};

// Of pipeline/bpe_pipeline/shards/deal_worker.py.
template <>
struct type_caster<bpe::Selection> {
  NB_TYPE_CASTER(bpe::Selection, const_name("Selection"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    return read_fields(source, field("shuffled", value.shuffled), field("key", value.key),
                       field("documents", value.documents), field("held_out", value.held_out));
  }
};
}  // namespace nanobind::detail

void bind_documents(nb::module_& module) {
  const auto without_gil = nb::call_guard<bpe::Released>();
  nb::class_<Dealer>(module, "Dealer", "Groups the documents of a run by the buckets of their keys.")
      .def(nb::init<size_t, bpe::Selection, size_t, size_t, size_t>(), "id_bytes"_a, "selection"_a, nb::kw_only(),
           "buckets"_a, "validation_buckets"_a, "expected"_a)
      .def("add", &Dealer::add, "ids"_a, "ends"_a, "first"_a, "hashes"_a, "number"_a, without_gil,
           "A block whose first document has this number.")
      .def("memory", &Dealer::bytes, "The memory that take() needs.")
      .def(
          "take",
          [](Dealer& self) {
            Dealer::Dealt dealt = unlocked([&] { return self.take(); });
            return give_all(std::move(dealt.words), std::move(dealt.ids), std::move(dealt.table));
          },
          "The entries (key, size and whether it ends) and the ids of all buckets, and how many of both each bucket "
          "has.");
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
      "order_of", [](std::span<const uint64_t> words) { return bpe::give(bpe::order_of(words)); }, "words"_a,
      "The numbers of a bucket's entries in the order of their keys.");
  module.def(
      "in_order",
      [](std::span<const uint64_t> words, const std::vector<Buffer>& runs, size_t id_bytes) {
        std::vector<std::span<const uint8_t>> ids;
        for (const Buffer& run : runs) ids.push_back(run.as<uint8_t>("runs"));
        auto [sorted, ends] = unlocked([&] { return bpe::in_order(words, ids, id_bytes); });
        return give_all(std::move(sorted), std::move(ends));
      },
      "words"_a, "runs"_a, "id_bytes"_a,
      "The ids of one bucket in the order of their keys, as bytes, and where documents end.");
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
