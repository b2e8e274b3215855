#include "text/automaton.hpp"

#include <algorithm>

namespace bpe {
namespace {

constexpr uint32_t kReplacement = 0xFFFD;  // the class of a byte that is not valid UTF-8
constexpr size_t kMargin = PairTable::kMargin;

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

}  // namespace

// The class and length of the character at text[at]; at < size.
inline Automaton::Character Automaton::character(const uint8_t* text, size_t at, size_t size) const {
  const uint8_t lead = text[at];
  if (lead < 0x80) return {low_[lead], 1};
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
  Cursor cursor{0, begin, begin, 0};
  size_t rest = begin;
  if (max_ends >= 2 * kMargin) {  // so that at least one end is final when there is no more room
    const bool arrived = run(cursor, text, begin, size, at_end, ends, max_ends - kMargin);
    if (arrived && at_end && finish(cursor, begin, size, ends)) {
      *n_ends = cursor.count;
      return size;
    }
    cursor.count -= tentative_[cursor.state];
    rest = cursor.count ? ends[cursor.count - 1] : begin;
    if (!arrived || !at_end) {
      *n_ends = cursor.count;
      return rest;
    }
  }
  // Hardly any room, or a last step that is SLOW: piece by piece.
  while (rest < size && cursor.count < max_ends) {
    const size_t to = plain_piece(text, rest, size, at_end);
    if (to > size) break;
    ends[cursor.count++] = static_cast<uint32_t>(to);
    rest = to;
  }
  *n_ends = cursor.count;
  return rest;
}

// Takes the step of the document's end; false if that is SLOW.
bool Automaton::finish(Cursor& now, size_t begin, size_t size, uint32_t* ends) const {
  if (begin == size || (now.count && ends[now.count - 1] == size)) return true;
  const Step next = steps_[size_t{classes_ - 1} << state_shift_ | now.state];
  if (next.flags & kSlow) return false;
  now.count -= next.flags >> kRetractShift & kRetractMask;
  ends[now.count] = static_cast<uint32_t>(now.previous);
  now.count += next.flags & kBack;
  ends[now.count++] = static_cast<uint32_t>(size);
  return true;
}

// Takes steps until the text or the room for ends is used up, or SLOW needs more text. True: all characters were read.
bool Automaton::run(Cursor& out, const uint8_t* text, size_t begin, size_t size, bool at_end, uint32_t* ends,
                    size_t limit) const {
  const Step* const steps = steps_.data();
  const uint32_t shift = state_shift_;
  Cursor now = out;
  bool enough = true;  // no SLOW step met the end of the text
  // One character; `length` bytes long, of class `cls`.
  const auto step = [&](uint32_t cls, size_t length) -> bool {
    const Step next = steps[size_t{cls} << shift | now.state];
    if (next.flags > (kBack | kHere)) [[unlikely]] {
      if (next.flags & kSlow) {
        now.count -= tentative_[now.state];
        const size_t from = now.count ? ends[now.count - 1] : begin;
        const size_t to = plain_piece(text, from, size, at_end);
        now.state = 0;
        now.at = now.previous = std::min(to, size);
        enough = to <= size;
        if (enough) ends[now.count++] = static_cast<uint32_t>(to);
        return false;
      }
      now.count -= next.flags >> kRetractShift & kRetractMask;
    }
    ends[now.count] = static_cast<uint32_t>(now.previous);
    now.count += next.flags & kBack;
    ends[now.count] = static_cast<uint32_t>(now.at);
    now.count += (next.flags & kHere) >> 1;
    now.state = next.next;
    now.previous = now.at;
    now.at += length;
    return true;
  };
  while (now.at < size && now.count <= limit && enough) {
    if (!pairs_.empty() && now.at - now.previous == 1) {
      const auto after = pairs_.run({now.state, now.at, now.count}, text, size, ends, limit);
      if (after.at > now.at) now = {after.state, after.at, after.at - 1, after.count};
      if (now.at >= size || now.count > limit) break;
    }
    const uint8_t lead = text[now.at];
    if (lead >= 0xE0 && lead < 0xF0) {  // runs of three bytes a character
      for (int round = 0; round < 8 && size - now.at >= 3 && (text[now.at] & 0xF0) == 0xE0; ++round) {
        if (!step(class_at(code_point(text + now.at, 3)), 3)) break;
      }
      if (size - now.at >= 3) continue;
    } else if (lead < 0xE0) {  // one and two bytes, without a branch that depends on which
      for (int round = 0; round < 8 && size - now.at >= 2 && text[now.at] < 0xE0; ++round) {
        const uint32_t one = text[now.at];
        const uint32_t two = (one & 31) << 6 | (text[now.at + 1] & 63u);
        const bool wide = one >= 0x80;
        if (!step(low_[wide ? two : one], 1u + wide)) break;
      }
      if (size - now.at >= 2) continue;
    }
    if (now.at >= size || !enough) break;
    Character next = character(text, now.at, size);
    if (next.length == 0) {
      if (!at_end) break;
      next = {class_at(kReplacement), 1};
    }
    step(next.cls, next.length);
  }
  out = now;
  return enough && now.at >= size;
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

}  // namespace bpe
