// An automaton's tables as the scanner wants them, made from those that Python hands over.
#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "text/automaton.hpp"

namespace bpe {
namespace {

constexpr uint32_t kBlocks = kCodePoints / 64;

void require(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(std::string("automaton tables do not fit together: ") + what);
}

}  // namespace

Automaton::Automaton(const AutomatonTables& tables)
    : classes_(tables.classes),
      states_(static_cast<uint32_t>(tables.tentative.size())),
      plain_(tables.plain.begin(), tables.plain.end()),
      tentative_(tables.tentative.begin(), tables.tentative.end()),
      provable_(tables.provable.begin(), tables.provable.end()) {
  require(classes_ >= 2 && classes_ <= 256, "number of classes");
  require(states_ >= 1 && states_ <= 65536, "number of states");
  require(tables.folded.size() == size_t{states_} * classes_, "folded table");
  require(provable_.size() == size_t{classes_ - 1} * (classes_ - 1), "provable pairs");
  require(plain_.size() % classes_ == 0 && plain_.size() >= 2 * size_t{classes_}, "plain table");
  const size_t plain_states = plain_.size() / classes_;
  for (uint16_t entry : plain_) require(size_t{entry} >> 1 < plain_states, "plain table's states");
  make_class_table(tables);

  state_shift_ = static_cast<uint32_t>(std::bit_width(states_ - 1));
  steps_.assign(size_t{classes_} << state_shift_, Step{0, static_cast<uint16_t>(kSlow)});
  for (uint32_t state = 0; state < states_; ++state) {
    for (uint32_t cls = 0; cls < classes_; ++cls) {
      const uint32_t entry = tables.folded[size_t{state} * classes_ + cls];
      require(entry >> 16 < states_, "folded table's states");
      steps_[size_t{cls} << state_shift_ | state] = {static_cast<uint16_t>(entry >> 16),
                                                     static_cast<uint16_t>(entry & 0xFFFF)};
    }
  }
  pairs_ = PairTable({low_.data(), 128}, steps_, state_shift_, states_);
}

void Automaton::make_class_table(const AutomatonTables& tables) {
  const auto& starts = tables.class_starts;
  const auto& ids = tables.class_ids;
  require(!starts.empty() && starts.size() == ids.size() && starts[0] == 0, "class runs");
  std::vector<uint8_t> flat(64);
  std::unordered_map<std::string, uint16_t> known;
  block_of_.resize(kBlocks);
  size_t run = 0;
  for (uint32_t block = 0; block < kBlocks; ++block) {
    const uint32_t first = block * 64;
    const bool uniform = run + 1 == starts.size() || starts[run + 1] >= first + 64;
    if (block > 0 && uniform && starts[run] <= first - 64) {  // the same single class as the block before
      block_of_[block] = block_of_[block - 1];
    } else {
      for (uint32_t code = first; code < first + 64; ++code) {
        while (run + 1 < starts.size() && starts[run + 1] <= code) {
          require(starts[run + 1] > starts[run], "class runs' order");
          ++run;
        }
        require(ids[run] < classes_ - 1, "class runs' classes");
        flat[code - first] = ids[run];
      }
      const auto [found, added] = known.try_emplace(std::string(flat.begin(), flat.end()), blocks_.size());
      if (added) {
        require(blocks_.size() < 65536 - 64, "too many kinds of blocks");
        blocks_.insert(blocks_.end(), flat.begin(), flat.end());
      }
      block_of_[block] = found->second;
    }
    while (run + 1 < starts.size() && starts[run + 1] <= first + 64) ++run;
  }
  for (uint32_t code = 0; code < low_.size(); ++code) low_[code] = static_cast<uint8_t>(class_at(code));
}

size_t Automaton::memory_bytes() const {
  return steps_.size() * sizeof(Step) + pairs_.bytes() + block_of_.size() * 2 + blocks_.size() +
         plain_.size() * 2 + tentative_.size() + provable_.size() + sizeof(*this);
}

}  // namespace bpe
