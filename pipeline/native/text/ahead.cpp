#include "text/ahead.hpp"

namespace bpe {
namespace {

constexpr size_t kMostStates = 64;

}  // namespace

Ahead::Ahead(std::span<const uint8_t> table, std::span<const uint8_t> variants, uint32_t classes, uint32_t limit)
    : width_(size_t{classes} + 1), table_(table.begin(), table.end()), variants_(variants.begin(), variants.end()) {
  if (table.empty() && variants.empty()) return;
  states_ = table.size() / width_;
  verdicts_ = variants.size() / classes;
  bool fits = states_ >= 1 && states_ <= kMostStates && states_ * width_ == table.size() && limit <= kContinued &&
              verdicts_ >= 1 && verdicts_ < kDecided && verdicts_ * classes == variants.size();
  for (size_t i = 0; fits && i < table_.size(); ++i) {
    const bool end = i % width_ == classes;
    fits = table_[i] >= kDecided ? table_[i] < kDecided + verdicts_ : !end && table_[i] < states_;
  }
  for (const uint8_t variant : variants_) fits = fits && (variant == kUnknown || variant < limit);
  if (!fits) throw std::invalid_argument("automaton tables do not fit together: look-ahead");
  for (uint32_t cls = 0; cls < classes; ++cls) open_.push_back(table_[cls] < kDecided);
}

// Replaces the class of each open character by its variant, from the end to the start.
void Ahead::decide(std::vector<uint8_t>& classes, bool at_end) const {
  std::array<uint8_t, kMostStates> after, before;  // the verdict of each state
  after.fill(kUnknown);
  for (size_t state = 0; at_end && state < states_; ++state) after[state] = table_[(state + 1) * width_ - 1] - kDecided;
  for (size_t at = classes.size(); at-- > 0;) {
    const uint8_t cls = classes[at];
    if (cls == kContinued) continue;
    for (size_t state = 0; state < states_; ++state) {
      const uint8_t entry = table_[state * width_ + cls];
      before[state] = entry >= kDecided ? static_cast<uint8_t>(entry - kDecided) : after[entry];
    }
    after = before;
    if (open_[cls]) classes[at] = after[0] == kUnknown ? kUnknown : variants_[cls * verdicts_ + after[0]];
  }
}

}  // namespace bpe
