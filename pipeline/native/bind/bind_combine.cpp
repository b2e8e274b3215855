// Shows the combining room to Python: combine, weighted_total, partition_starts.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "bind/bind_columns.hpp"
#include "bind/bindings.hpp"
#include "count/combine.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using bpe::give;
using bpe::TakenColumns;

void bind_combine(nb::module_& module) {
  module.def(
      "combine",
      [](const std::vector<nb::object>& counters, const std::vector<std::pair<uint64_t, uint64_t>>& weights) {
        std::vector<std::unique_ptr<TakenColumns>> taken;
        for (const nb::object& counter : counters) taken.push_back(std::make_unique<TakenColumns>(counter));
        bpe::Columns combined;
        {
          nb::gil_scoped_release released;
          std::vector<bpe::ColumnsView> views;
          for (const auto& columns : taken) views.push_back(columns->view());
          std::vector<bpe::Weight> factors;
          for (const auto& [numerator, denominator] : weights) factors.push_back({numerator, denominator});
          combined = bpe::combine(views, factors);
        }
        return give(std::move(combined));
      },
      "counters"_a, "weights"_a = std::vector<std::pair<uint64_t, uint64_t>>{},
      nb::sig("def combine(counters: list[Columns], weights: list[tuple[int, int]] = []) -> Columns"),
      "Adds counters, each in order of hash, into one that is. weights: for each counter a fraction, numerator and "
      "denominator, that its counts are multiplied by, rounded half up and never below 1. OverflowError beyond "
      "2^63 - 1.");
  module.def(
      "sorted_counter",
      [](const std::vector<nb::bytes>& pieces, const std::vector<uint64_t>& counts) {
        std::vector<std::string_view> views;
        for (const nb::bytes& piece : pieces) views.emplace_back(piece.c_str(), piece.size());
        bpe::Columns columns;
        {
          nb::gil_scoped_release released;
          columns = bpe::sorted_counter(views, counts);
        }
        return give(std::move(columns));
      },
      "pieces"_a, "counts"_a, nb::sig("def sorted_counter(pieces: list[bytes], counts: list[int]) -> Columns"),
      "A counter of pieces in any order, in order of hash; a piece that comes twice is added. OverflowError beyond "
      "2^63 - 1, ValueError for an empty piece or one beyond 1 GiB.");
  module.def(
      "weighted_total",
      [](nb::handle counter, std::pair<uint64_t, uint64_t> weight) {
        const TakenColumns taken(counter);
        nb::gil_scoped_release released;
        return bpe::weighted_total(taken.view(), {weight.first, weight.second});
      },
      "counter"_a, "weight"_a, nb::sig("def weighted_total(counter: Columns, weight: tuple[int, int]) -> int"),
      "The sum of a counter's counts as `combine` would weight them. OverflowError beyond 2^63 - 1.");
  module.def(
      "partition_starts",
      [](nb::handle counter, size_t partitions) {
        const TakenColumns taken(counter);
        return bpe::partition_starts(taken.view(), partitions);
      },
      "counter"_a, "partitions"_a, nb::sig("def partition_starts(counter: Columns, partitions: int) -> list[int]"),
      "The row at which each of `partitions` equal ranges of hashes starts, and the number of rows.");
}
