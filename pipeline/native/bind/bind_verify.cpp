// Shows the verifying room to Python: MergeReplay, counter_sum.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "bind/bind_columns.hpp"
#include "bind/bindings.hpp"
#include "verify/verify.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

void make_replay(bpe::MergeReplay* self, nb::bytes byte_order, const std::string& tie_break, uint64_t min_frequency,
                 std::optional<uint64_t> max_token_bytes) {
  bpe::ReplayRules rules;
  if (tie_break != "lowest-ids" && tie_break != "greatest-bytes")
    throw nb::value_error("tie_break must be 'lowest-ids' or 'greatest-bytes'");
  rules.greatest_bytes = tie_break == "greatest-bytes";
  rules.min_frequency = min_frequency;
  if (max_token_bytes) rules.max_token_bytes = *max_token_bytes;
  std::array<uint8_t, 256> order;
  if (byte_order.size() != order.size()) throw nb::value_error("byte_order must be 256 bytes");
  std::copy_n(static_cast<const uint8_t*>(byte_order.data()), order.size(), order.begin());
  new (self) bpe::MergeReplay(rules, order);
}

nb::object best(bpe::MergeReplay& self) {
  std::optional<bpe::MergeReplay::Pair> found;
  {
    nb::gil_scoped_release released;
    found = self.best();
  }
  if (!found) return nb::none();
  return nb::make_tuple(found->left, found->right, found->count);
}

uint64_t merge(bpe::MergeReplay& self, uint32_t left, uint32_t right) {
  nb::gil_scoped_release released;
  return self.merge(left, right);
}

}  // namespace

void bind_verify(nb::module_& module) {
  nb::class_<bpe::MergeReplay>(module, "MergeReplay",
                               "Merging done the plain way, one merge at a time: the second opinion on a merge list.")
      .def("__init__", &make_replay, "byte_order"_a, nb::kw_only(), "tie_break"_a = "lowest-ids",
           "min_frequency"_a = 1, "max_token_bytes"_a = nb::none())
      .def(
          "add",
          [](bpe::MergeReplay& self, nb::handle counter, uint64_t min_piece_count) {
            const bpe::TakenColumns taken(counter);
            nb::gil_scoped_release released;
            const bpe::ColumnsView columns = taken.view();
            for (size_t row = 0; row < columns.rows; ++row) {
              if (columns.counts[row] < min_piece_count) continue;
              self.add({reinterpret_cast<const char*>(columns.piece(row)), columns.piece_size(row)},
                       columns.counts[row]);
            }
          },
          "counter"_a, "min_piece_count"_a = 1,
          nb::sig("def add(self, counter: Columns, min_piece_count: int = 1) -> None"),
          "Adds the pieces that occur so often, before the first merge. OverflowError where their bytes are 2^63 or "
          "more.")
      .def("best", &best, nb::sig("def best(self) -> tuple[int, int, int] | None"),
           "The pair that is to be merged now and its count; None where no pair may be.")
      .def("merge", &merge, "left"_a, "right"_a,
           "Carries out a merge; gives how many occurrences became one token. IndexError for tokens that do not exist.")
      .def("token", [](const bpe::MergeReplay& self, uint32_t id) {
             const std::string& token = self.token(id);
             return nb::bytes(token.data(), token.size());
           }, "id"_a, "The bytes of a token.")
      .def_prop_ro("bytes", &bpe::MergeReplay::bytes, "Of all pieces, each as often as it was found.");
  module.def(
      "counter_sum",
      [](nb::handle counter) {
        const bpe::TakenColumns taken(counter);
        bpe::CounterSum sum;
        {
          nb::gil_scoped_release released;
          sum = bpe::counter_sum(taken.view());
        }
        return nb::make_tuple(sum.rows, sum.pieces, sum.bytes, sum.digest, sum.ascending);
      },
      "counter"_a, nb::sig("def counter_sum(counter: Columns) -> tuple[int, int, int, int, bool]"),
      "Rows, sum of counts, bytes, a digest, and whether rows ascend by hash and bytes; all but the first and last "
      "modulo 2^64, and all but the rows add up over counters.");
}
