// Shows the folder verify to Python: MergeReplay, counter_sum.
#include "verify/counter_sum.hpp"
#include "verify/replay.hpp"

#include "bind/merge_rules.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using bpe::MergeReplay;
using bpe::unlocked;

namespace {

std::array<uint8_t, 256> order_of(const nb::bytes& byte_order) {
  std::array<uint8_t, 256> order;
  if (byte_order.size() != order.size()) throw nb::value_error("byte_order must be 256 bytes");
  std::copy_n(static_cast<const uint8_t*>(byte_order.data()), order.size(), order.begin());
  return order;
}

// Adds all pre-tokens of a counter.
void add(MergeReplay& replay, const bpe::ColumnsView& columns) {
  for (size_t row = 0; row < columns.rows; ++row) replay.add(columns.text(row), columns.counts[row]);
}

void make_replay(MergeReplay* self, const bpe::MergeRules& rules, const nb::bytes& byte_order, const bpe::Buffer& left,
                 const bpe::Buffer& right, const bpe::Buffer& counts, const bpe::Buffer& joined, bool exhausted,
                 size_t budget_bytes, size_t first) {
  MergeReplay::Listed listed{bpe::copy_of<uint32_t>(left, "left"),
                             bpe::copy_of<uint32_t>(right, "right"),
                             bpe::copy_of<uint64_t>(counts, "counts"),
                             bpe::copy_of<uint64_t>(joined, "joined"),
                             exhausted,
                             first};
  if (listed.right.size() != listed.left.size() || listed.counts.size() != listed.left.size() ||
      listed.joined.size() != listed.left.size())
    throw nb::value_error("left, right, counts and joined must be of one length");
  if (first > listed.left.size()) throw nb::value_error("first is beyond the list");
  new (self) MergeReplay(std::move(listed), rules, order_of(byte_order), budget_bytes);
}

}  // namespace

void bind_verify(nb::module_& module) {
  const auto without_gil = nb::call_guard<bpe::Released>();
  nb::class_<MergeReplay>(module, "MergeReplay",
                          "The second opinion on a merge list, from two readings of all pre-tokens or more.")
      .def("__init__", &make_replay, "rules"_a, "byte_order"_a, "left"_a, "right"_a, "counts"_a, "joined"_a,
           nb::kw_only(), "exhausted"_a, "budget_bytes"_a, "first"_a = 0)
      .def("add", &add, "counter"_a, without_gil,
           "Adds pre-tokens; all of them in each reading. OverflowError where their bytes are 2^63 or more.")
      .def("next_reading", &MergeReplay::next_reading, without_gil,
           "Ends a reading; returns whether another one is needed.")
      .def("done", &MergeReplay::done, "of_reading"_a, "How much of all readings is done when so much of this one is.")
      .def(
          "wrong",
          [](const MergeReplay& self)
              -> std::optional<
                  nb::typed<nb::tuple, int, std::optional<nb::typed<nb::tuple, int, int, int>>, int, int>> {
            const auto& wrong = self.wrong();
            if (!wrong) return std::nullopt;
            nb::object due = nb::none();
            if (wrong->due) due = nb::make_tuple(wrong->due->left, wrong->due->right, wrong->due->count);
            return nb::make_tuple(wrong->rank, due, wrong->count, wrong->joined);
          },
          "After the last reading, the first wrong merge: its rank, the better pair with its count or None, and the "
          "count and joined occurrences that the listed pair really has; None where all are right.")
      .def(
          "token",
          [](const MergeReplay& self, uint32_t id) {
            const std::string& token = self.token(id);
            return nb::bytes(token.data(), token.size());
          },
          "id"_a, "The bytes of a token.")
      .def_prop_ro("bytes", &MergeReplay::bytes, "Of all pre-tokens, each as often as it was found.");
  module.def(
      "replay_rules", [] { return bpe::names_of_rules(bpe::kReplayRules); },
      "The names of the rules that a replay obeys.");
  module.def(
      "counter_sum",
      [](const bpe::ColumnsView& counter) {
        const bpe::CounterSum sum = unlocked([&] { return bpe::counter_sum(counter); });
        return std::tuple(sum.rows, sum.pre_tokens, sum.bytes, sum.digest, sum.ascending);
      },
      "counter"_a,
      "Rows, sum of counts, bytes, a digest, and whether rows ascend by hash and bytes; all but the first and last "
      "modulo 2^64, and all but the rows add up over counters.");
}
