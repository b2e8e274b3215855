#include "automaton.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>

namespace bpe {
namespace {

constexpr uint32_t kCodePoints = 0x110000;
constexpr uint32_t kBlocks = kCodePoints / 64;
constexpr uint32_t kReplacement = 0xFFFD;      // the class of a byte that is not valid UTF-8
constexpr size_t kPairTableBytes = 1u << 20;   // beyond that, one character a step

// Flags of an entry of the folded table, and of a step.
constexpr uint32_t kBack = 1;
constexpr uint32_t kHere = 2;
constexpr uint32_t kRetractShift = 2;
constexpr uint32_t kRetractMask = 7;
constexpr uint32_t kSlow = 32;
// Flags of a pair: bits 0, 1, 2 write a boundary before the previous character, the first, the second.
constexpr uint32_t kPairSpecial = 8;  // not a plain pair: take the two steps one by one

uint32_t code_point(const uint8_t* at, uint32_t length) {
  switch (length) {
    case 1: return at[0];
    case 2: return (at[0] & 31u) << 6 | (at[1] & 63u);
    case 3: return (at[0] & 15u) << 12 | (at[1] & 63u) << 6 | (at[2] & 63u);
    default: return (at[0] & 7u) << 18 | (at[1] & 63u) << 12 | (at[2] & 63u) << 6 | (at[3] & 63u);
  }
}

uint32_t length_of_lead(uint8_t lead) {
  if (lead < 0xC2) return 1;
  return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 1;
}

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
  make_pair_table();
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
  for (uint32_t code = 0; code < 128; ++code) ascii_[code] = static_cast<uint8_t>(class_at(code));
}

void Automaton::make_pair_table() {
  const uint32_t kinds = *std::max_element(ascii_.begin(), ascii_.end()) + 1u;
  const size_t size = size_t{kinds} * kinds * states_;
  if (size * sizeof(Step) > kPairTableBytes) return;
  pairs_.resize(size);
  for (uint32_t code = 0; code < 128; ++code) {
    first_[code] = ascii_[code] * kinds * states_;
    second_[code] = ascii_[code] * states_;
  }
  for (uint32_t a = 0; a < kinds; ++a) {
    for (uint32_t b = 0; b < kinds; ++b) {
      for (uint32_t state = 0; state < states_; ++state) {
        const Step one = steps_[size_t{a} << state_shift_ | state];
        const Step two = steps_[size_t{b} << state_shift_ | one.next];
        const bool special = one.flags > 3 || two.flags > 3;
        pairs_[(size_t{a} * kinds + b) * states_ + state] = {
            two.next, static_cast<uint16_t>(special ? kPairSpecial : (one.flags | two.flags << 1))};
      }
    }
  }
}

// The class and length of the character at text[at]; at < size.
inline Automaton::Character Automaton::character(const uint8_t* text, size_t at, size_t size) const {
  const uint8_t lead = text[at];
  if (lead < 0x80) return {ascii_[lead], 1};
  const uint32_t length = length_of_lead(lead);
  if (length == 1) return {class_at(kReplacement), 1};
  if (size - at < length) return {0, 0};
  return {class_at(std::min(code_point(text + at, length), kCodePoints - 1)), length};
}

// The end of the match that begins at `begin` < size; npos if nothing matches there; size + 1 if more text decides.
size_t Automaton::plain_match(const uint8_t* text, size_t begin, size_t size, bool at_end) const {
  size_t matched = npos;
  uint32_t state = 1;
  size_t at = begin;
  while (state != 0) {
    if (at >= size) {
      if (!at_end) return size + 1;
      if (plain_[size_t{state} * classes_ + classes_ - 1] & 1) matched = size;
      break;
    }
    Character next = character(text, at, size);
    if (next.length == 0) {
      if (!at_end) return size + 1;
      next = {class_at(kReplacement), 1};
    }
    const uint16_t entry = plain_[size_t{state} * classes_ + next.cls];
    if (entry & 1) matched = at;
    state = entry >> 1;
    at += next.length;
  }
  return matched;
}

// The end of the piece that begins at `begin` < size, by the plain table; size + 1 if more text decides.
size_t Automaton::plain_piece(const uint8_t* text, size_t begin, size_t size, bool at_end) const {
  for (size_t start = begin; start < size;) {
    const size_t matched = plain_match(text, start, size, at_end);
    if (matched == size + 1) return matched;
    if (matched != npos) return start == begin ? matched : start;
    const uint32_t length = character(text, start, size).length;
    start += length == 0 ? 1 : length;
  }
  return at_end ? size : size + 1;
}

size_t Automaton::cut(const uint8_t* text, size_t begin, size_t size, bool at_end, uint32_t* ends, size_t max_ends,
                      size_t* n_ends) const {
  constexpr size_t kGroup = 8;    // bytes that one round of pair steps takes
  constexpr size_t kMargin = 16;  // a round may write that many
  size_t count = 0;
  size_t at = begin;
  if (max_ends >= 2 * kMargin) {
    const size_t limit = max_ends - kMargin;
    const Step* const steps = steps_.data();
    const Step* const pairs = pairs_.empty() ? nullptr : pairs_.data();
    uint32_t state = 0;
    size_t previous = begin;  // where the character before `at` begins
    bool stopped = false;     // more text is needed, or there is no room
    while (at < size) {
      if (count > limit) {
        stopped = true;
        break;
      }
      if (pairs && size - at >= kGroup && at - previous == 1) {
        uint64_t word;
        std::memcpy(&word, text + at, kGroup);
        if ((word & 0x8080808080808080u) == 0) {
          uint32_t now = state;
          uint32_t special = 0;
          uint32_t marks = 0;
          for (uint32_t index = 0; index < kGroup; index += 2) {
            const Step* const row = pairs + first_[text[at + index]] + second_[text[at + index + 1]];
            const Step step = row[now];
            now = step.next;
            special |= step.flags;
            marks |= uint32_t{step.flags} << index;
          }
          if (!(special & kPairSpecial)) {
            state = now;
            while (marks) {  // bit k: a boundary at at - 1 + k
              ends[count++] = static_cast<uint32_t>(at - 1 + static_cast<size_t>(std::countr_zero(marks)));
              marks &= marks - 1;
            }
            at += kGroup;
            previous = at - 1;
            continue;
          }
        }
      }
      Character next = character(text, at, size);
      if (next.length == 0) {
        if (!at_end) {
          stopped = true;
          break;
        }
        next = {class_at(kReplacement), 1};
      }
      const Step step = steps[size_t{next.cls} << state_shift_ | state];
      if (step.flags > 3) {
        if (step.flags & kSlow) {
          count -= tentative_[state];
          const size_t from = count ? ends[count - 1] : begin;
          const size_t to = plain_piece(text, from, size, at_end);
          if (to > size) {
            *n_ends = count;
            return from;
          }
          ends[count++] = static_cast<uint32_t>(to);
          at = previous = to;
          state = 0;
          continue;
        }
        count -= step.flags >> kRetractShift & kRetractMask;
      }
      ends[count] = static_cast<uint32_t>(previous);
      count += step.flags & kBack;
      ends[count] = static_cast<uint32_t>(at);
      count += (step.flags & kHere) >> 1;
      state = step.next;
      previous = at;
      at += next.length;
    }
    if (stopped || !at_end) {
      count -= tentative_[state];
      *n_ends = count;
      return count ? ends[count - 1] : begin;
    }
    if (at == begin || (count && ends[count - 1] == size)) {
      *n_ends = count;
      return size;
    }
    const Step step = steps[size_t{classes_ - 1} << state_shift_ | state];
    if (!(step.flags & kSlow)) {
      count -= step.flags >> kRetractShift & kRetractMask;
      ends[count] = static_cast<uint32_t>(previous);
      count += step.flags & kBack;
      ends[count++] = static_cast<uint32_t>(size);
      *n_ends = count;
      return size;
    }
    count -= tentative_[state];
    at = count ? ends[count - 1] : begin;
  }
  while (at < size && count < max_ends) {
    const size_t to = plain_piece(text, at, size, at_end);
    if (to > size) break;
    ends[count++] = static_cast<uint32_t>(to);
    at = to;
  }
  *n_ends = count;
  return at;
}

size_t Automaton::find_provable_cut(const uint8_t* text, size_t size, size_t from, size_t to) const {
  const auto valid_length = [&](size_t at) -> uint32_t {  // of the character at `at`, 0 if it is not valid UTF-8
    const uint32_t length = length_of_lead(text[at]);
    if (length == 1) return text[at] < 0x80;
    if (size - at < length) return 0;
    for (uint32_t index = 1; index < length; ++index) {
      if ((text[at + index] & 0xC0) != 0x80) return 0;
    }
    const uint32_t code = code_point(text + at, length);
    if (length == 3 && (code < 0x800 || (code >= 0xD800 && code < 0xE000))) return 0;
    if (length == 4 && (code < 0x10000 || code >= kCodePoints)) return 0;
    return length;
  };
  to = std::min(to, size);
  for (size_t at = std::max<size_t>(from, 1); at < to; ++at) {
    if (valid_length(at) == 0) continue;
    size_t before = at - 1;
    while (before > 0 && at - before < 4 && (text[before] & 0xC0) == 0x80) --before;
    if (valid_length(before) != at - before) continue;
    const uint32_t left = class_at(code_point(text + before, valid_length(before)));
    const uint32_t right = class_at(code_point(text + at, valid_length(at)));
    if (provable_[left * (classes_ - 1) + right]) return at;
  }
  return npos;
}

size_t Automaton::memory_bytes() const {
  return steps_.size() * sizeof(Step) + pairs_.size() * sizeof(Step) + block_of_.size() * 2 + blocks_.size() +
         plain_.size() * 2 + tentative_.size() + provable_.size() + sizeof(*this);
}

}  // namespace bpe
