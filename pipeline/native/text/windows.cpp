#include "text/windows.hpp"

#include <bitset>

namespace bpe {
namespace {

constexpr size_t kMostStates = 256, kKinds = WindowRules::kKinds, kOffsets = WindowRules::kOffsets;
using States = std::bitset<kMostStates>;
using Kinds = uint16_t;  // a set, a bit each
// Windows: for each four kinds the set of the last ones.
using Windows = std::vector<Kinds>;
using Box = std::array<Kinds, kOffsets>;
constexpr size_t kRows = kKinds * kKinds * kKinds * kKinds;

enum Outcome : uint8_t { kMayBe = 1, kMayNot = 2, kMayChange = 4 };

constexpr Kinds one(size_t kind) { return static_cast<Kinds>(1u << kind); }
// The kind at an offset of a row.
constexpr size_t kind_at(size_t row, size_t offset) { return row >> 4 * (3 - offset) & 15; }

template <class Visit>
bool all_of_kinds(Kinds kinds, const Visit& visit) {
  for (; kinds; kinds &= kinds - 1)
    if (!visit(static_cast<size_t>(std::countr_zero(kinds)))) return false;
  return true;
}

// Calls visit(row) for the rows of a box until it returns false.
template <class Visit>
bool all_of_box(const Box& box, const Visit& visit, size_t offset = 0, size_t row = 0) {
  if (offset == kOffsets - 1) return visit(row);
  return all_of_kinds(box[offset], [&](size_t kind) { return all_of_box(box, visit, offset + 1, row << 4 | kind); });
}

class Derivation {
 public:
  Derivation(std::span<const uint8_t> low, std::span<const uint32_t> classes, std::span<const Step> steps,
             uint32_t shift, std::span<const uint8_t> tentative)
      : classes_(classes.begin(), classes.end()), steps_(steps), shift_(shift), tentative_(tentative) {
    sort_into_kinds(low);
  }

  // nullptr if that takes more boxes than there are.
  std::unique_ptr<const WindowRules> rules(std::span<const uint8_t> low) {
    auto rules = std::make_unique<WindowRules>();
    for (size_t code = 0; code < rules->kinds.size(); ++code) rules->kinds[code] = kind_of_[low[code]];
    Windows boundaries(kRows), undecided(kRows), allowed(kRows);
    judge(boundaries, undecided);
    const auto either = [](Kinds a, Kinds b) { return static_cast<Kinds>(a | b); };
    std::transform(boundaries.begin(), boundaries.end(), undecided.begin(), allowed.begin(), either);
    const auto certain = cover(boundaries, allowed, WindowRules::kBoundaryPlanes);
    // What has no box is undecided.
    std::transform(boundaries.begin(), boundaries.end(), undecided.begin(), undecided.begin(), either);
    allowed = undecided;
    const auto open = cover(undecided, allowed, WindowRules::kPlanes - WindowRules::kBoundaryPlanes);
    if (std::ranges::any_of(undecided, [](Kinds left) { return left != 0; })) return nullptr;
    add_boxes(*rules, 0, certain);
    add_boxes(*rules, WindowRules::kBoundaryPlanes, open);
    rules->small = std::max(certain.size(), open.size()) <= 2 * WindowRules::kBoxes;
    return rules;
  }

 private:
  Step step(uint32_t cls, size_t state) const { return steps_[size_t{cls} << shift_ | state]; }

  // Kinds are classes; where there are too many, the two are joined that differ in the fewest states.
  void sort_into_kinds(std::span<const uint8_t> low) {
    std::vector<std::vector<uint32_t>> groups;
    std::array<bool, 256> known{};
    for (const uint8_t cls : low) {
      if (!known[cls] && std::binary_search(classes_.begin(), classes_.end(), cls)) groups.push_back({cls});
      known[cls] = true;
    }
    const auto difference = [&](uint32_t a, uint32_t b) {
      size_t states = 0;
      for (size_t state = 0; state < tentative_.size(); ++state)
        states += step(a, state).next != step(b, state).next || step(a, state).flags != step(b, state).flags;
      return states;
    };
    while (groups.size() >= kKinds) {
      size_t left = 0, right = 1, least = ~size_t{0};
      for (size_t i = 0; i < groups.size(); ++i) {
        for (size_t j = i + 1; j < groups.size(); ++j) {
          const size_t found = difference(groups[i][0], groups[j][0]);
          if (found < least) std::tie(least, left, right) = std::tuple(found, i, j);
        }
      }
      groups[left].insert(groups[left].end(), groups[right].begin(), groups[right].end());
      groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(right));
    }
    kinds_ = groups.size() + 1;
    kind_of_.assign(256, 0);
    members_[0] = classes_;
    for (size_t kind = 1; kind <= groups.size(); ++kind) {
      members_[kind] = groups[kind - 1];
      for (const uint32_t cls : members_[kind]) kind_of_[cls] = static_cast<uint8_t>(kind);
    }
  }

  // The states after a character of a kind; after kind 0, which may be the start of the text, any.
  States after(const States& before, size_t kind, const States& any) const {
    if (kind == 0) return any;
    States found;
    for (size_t state = 0; state < tentative_.size(); ++state) {
      if (!before[state]) continue;
      for (const uint32_t cls : members_[kind]) found.set(step(cls, state).next);
    }
    return found;
  }

  // What may become of the boundary before a character of kind `here`, which one of kind `next` follows.
  uint8_t outcome(size_t state, size_t here, size_t next) const {
    uint8_t found = 0;
    for (const uint32_t first : members_[here]) {
      const Step one = step(first, state);
      for (const uint32_t second : members_[next]) {
        const Step two = step(second, one.next);
        const bool kept = one.flags & kHere && (two.flags >> kRetractShift & kRetractMask) == 0;
        if (!kept && !(two.flags & kBack)) {
          found |= kMayNot;
        } else {
          found |= kMayBe;
          if (tentative_[two.next] > ((two.flags & kHere) != 0)) found |= kMayChange;
        }
      }
    }
    return found;
  }

  void judge(Windows& boundaries, Windows& undecided) const {
    States any;
    for (size_t state = 0; state < tentative_.size(); ++state) any.set(state);
    std::vector<std::array<uint8_t, kKinds * kKinds>> outcomes(tentative_.size());
    for (size_t state = 0; state < tentative_.size(); ++state)
      for (size_t pair = 0; pair < kKinds * kKinds; ++pair)
        outcomes[state][pair] = outcome(state, pair / kKinds, pair % kKinds);
    struct Judged {
      std::array<Kinds, kKinds> boundaries{}, undecided{};  // [kind at the position]
    };
    std::unordered_map<States, Judged> known;
    const auto judged = [&](const States& before) -> const Judged& {
      const auto [entry, added] = known.try_emplace(before);
      for (size_t pair = 0; added && pair < kKinds * kKinds; ++pair) {
        if (std::max(pair / kKinds, pair % kKinds) >= kinds_) continue;
        uint8_t all = 0;
        for (size_t state = 0; state < tentative_.size(); ++state)
          if (before[state]) all |= outcomes[state][pair];
        if (pair / kKinds == 0 || (all != kMayBe && all != kMayNot))
          entry->second.undecided[pair / kKinds] |= one(pair % kKinds);
        else if (all == kMayBe)
          entry->second.boundaries[pair / kKinds] |= one(pair % kKinds);
      }
      return entry->second;
    };
    for (size_t a = 0; a < kinds_; ++a) {
      const States first = after(any, a, any);
      for (size_t b = 0; b < kinds_; ++b) {
        const States second = after(first, b, any);
        for (size_t c = 0; c < kinds_; ++c) {
          const Judged& found = judged(after(second, c, any));
          const auto row = static_cast<std::ptrdiff_t>(((a * kKinds + b) * kKinds + c) * kKinds);
          std::copy(found.boundaries.begin(), found.boundaries.end(), boundaries.begin() + row);
          std::copy(found.undecided.begin(), found.undecided.end(), undecided.begin() + row);
        }
      }
    }
  }

  // Covers windows with boxes of allowed ones, as far as there are boxes; the windows that are left remain in `wanted`.
  std::vector<Box> cover(Windows& wanted, const Windows& allowed, size_t planes) const {
    // In which a box grows: the ones that need few boxes for the patterns of `presets.py`.
    constexpr std::array<std::array<size_t, kOffsets>, 2> orders{{{4, 3, 0, 1, 2}, {1, 4, 2, 3, 0}}};
    std::vector<Box> boxes;
    Box all;
    all.fill(static_cast<Kinds>((1u << kinds_) - 1));
    all_of_box(all, [&](size_t row) {
      for (Kinds left; (left = wanted[row]) != 0;) {
        if (boxes.size() == planes * WindowRules::kBoxes) return false;
        Box seed;
        for (size_t offset = 0; offset + 1 < kOffsets; ++offset) seed[offset] = one(kind_at(row, offset));
        seed[kOffsets - 1] = static_cast<Kinds>(left & -left);
        Box best{};
        int most = 0;
        for (const auto& order : orders) {
          const Box box = expanded(seed, order, allowed);
          int windows = 1;
          for (const Kinds kinds : box) windows *= std::popcount(kinds);
          if (windows > most) std::tie(most, best) = std::tuple(windows, box);
        }
        all_of_box(best,
                   [&](size_t covered) { return wanted[covered] &= static_cast<Kinds>(~best[kOffsets - 1]), true; });
        boxes.push_back(best);
      }
      return true;
    });
    return boxes;
  }

  Box expanded(Box box, const std::array<size_t, kOffsets>& order, const Windows& allowed) const {
    for (const size_t offset : order) {
      all_of_kinds(static_cast<Kinds>((1u << kinds_) - 1), [&](size_t kind) {
        Box slice = box;
        slice[offset] = one(kind);
        const Kinds last = slice[kOffsets - 1];
        if (all_of_box(slice, [&](size_t row) { return (allowed[row] & last) == last; })) box[offset] |= one(kind);
        return true;
      });
    }
    return box;
  }

  static void add_boxes(WindowRules& rules, size_t plane, const std::vector<Box>& boxes) {
    for (size_t i = 0; i < boxes.size(); ++i)
      for (size_t offset = 0; offset < kOffsets; ++offset)
        for (size_t kind = 0; kind < kKinds; ++kind)
          if (boxes[i][offset] >> kind & 1)
            rules.planes[plane + i / WindowRules::kBoxes][offset][kind] |=
                static_cast<uint8_t>(1u << i % WindowRules::kBoxes);
  }

  std::vector<uint32_t> classes_;
  std::span<const Step> steps_;
  uint32_t shift_;
  std::span<const uint8_t> tentative_;
  size_t kinds_ = 0;
  std::vector<uint8_t> kind_of_;                       // [class]
  std::array<std::vector<uint32_t>, kKinds> members_;  // [kind]
};

}  // namespace

std::unique_ptr<const WindowRules> derive_windows(std::span<const uint8_t> low, std::span<const uint32_t> classes,
                                                  std::span<const Step> steps, uint32_t state_shift,
                                                  std::span<const uint8_t> tentative) {
  if (tentative.size() > kMostStates) return nullptr;
  for (const uint32_t cls : classes)
    for (size_t state = 0; state < tentative.size(); ++state)
      if (steps[size_t{cls} << state_shift | state].flags & kSlow) return nullptr;
  return Derivation(low, classes, steps, state_shift, tentative).rules(low);
}

}  // namespace bpe
