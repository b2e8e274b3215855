#include "text/normal_form.hpp"

#include "text/utf8.hpp"

namespace bpe {
namespace {

constexpr size_t kBlock = 64;
constexpr uint64_t kEach = 0x0101010101010101u;

// The high bit of each byte that is at or above `least`, which is above 0x80.
constexpr uint64_t at_least(uint64_t bytes, uint8_t least) {
  return ((bytes & 0x7F * kEach) + (0x100u - least) * kEach) & bytes & 0x80 * kEach;
}

// The same of bytes with which a character may start that is active: U+0300 and above, but U+4000 to U+9FFF and U+B000
// to U+DFFF.
constexpr uint64_t may_start_active(uint64_t bytes) {
  return at_least(bytes, 0xCC) & ~(at_least(bytes, 0xE4) & ~at_least(bytes, 0xEA)) &
         ~(at_least(bytes, 0xEB) & ~at_least(bytes, 0xEE));
}

bool block_is_below(const uint8_t* block) {
  uint8_t highest = 0;
  for (size_t i = 0; i < kBlock; ++i) highest = std::max(highest, block[i]);
  return highest < 0xCC;
}

constexpr bool may_be_active(uint32_t code) {
  return code >= 0x300 && !(code >= 0x4000 && code < 0xA000) && !(code >= 0xB000 && code < 0xE000);
}

}  // namespace

NormalForm::NormalForm(const std::vector<std::pair<uint32_t, uint32_t>>& runs, Normalize normalize)
    : active_(kCodePoints / 64), normalize_(std::move(normalize)) {
  uint32_t next = 0;
  for (const auto& [first, last] : runs) {
    if (first < next || last < first || last >= kCodePoints)
      throw std::invalid_argument("runs of code points do not rise");
    for (auto code = first; code <= last; ++code) {
      if (!may_be_active(code)) throw std::invalid_argument("a character that is taken for inert is active");
      active_[code >> 6] |= uint64_t{1} << (code & 63);
    }
    next = last + 1;
  }
}

size_t NormalForm::first_active(Text text, size_t from) const {
  const uint8_t* const data = text.data();
  const auto is_active_at = [&](size_t at) {
    if ((data[at] & 0xF0) == 0xE0)
      return is_active((data[at] & 15u) << 12 | (data[at + 1] & 63u) << 6 | (data[at + 2] & 63u));
    return is_active(code_point(data + at, length_of_lead(data[at])));
  };
  size_t at = from;
  for (; text.size() - at >= 8; at += 8) {
    while (text.size() - at >= kBlock && block_is_below(data + at)) at += kBlock;
    if (text.size() - at < 8) break;
    uint64_t bytes;
    std::memcpy(&bytes, data + at, sizeof bytes);
    if constexpr (std::endian::native == std::endian::big) bytes = __builtin_bswap64(bytes);
    for (auto found = may_start_active(bytes); found != 0; found &= found - 1)
      if (const size_t start = at + static_cast<size_t>(std::countr_zero(found)) / 8; is_active_at(start)) return start;
  }
  for (; at < text.size(); ++at)
    if (may_start_active(data[at]) && is_active_at(at)) return at;
  return text.size();
}

bool NormalForm::can_cut(Text text, size_t at) const {
  if (at == 0 || at >= text.size()) return true;
  const size_t before = character_start(text.data(), at - 1, text.size());
  size_t end = at + length_of_lead(text[at]);
  if (end < text.size()) end += character_size(&text[end], text.size() - end);  // which may join with the one at `at`
  return first_active(text.first(end), before) == end;
}

size_t NormalForm::last_cut(Text text) const {
  for (size_t end = text.size(); end != 0;) {
    const size_t start = character_start(text.data(), end - 1, text.size());
    if (first_active(text.first(end), start) == end) return start;
    end = start;
  }
  return 0;
}

// Calls visit(start, end, normalized) for each cluster with active characters, until it returns false.
template <class Visit>
void NormalForm::each_cluster(Text text, Known& known, const Visit& visit) const {
  std::vector<uint8_t> normal;
  for (size_t at = 0, end; (at = first_active(text, at)) < text.size(); at = end) {
    const size_t start = at == 0 ? 0 : character_start(text.data(), at - 1, text.size());
    for (end = at; end < text.size(); end += length_of_lead(text[end]))
      if (const auto size = length_of_lead(text[end]); !is_active(code_point(&text[end], size))) break;
    const auto cluster = text.subspan(start, end - start);
    const auto normalized = [&] {
      normal.clear();
      normalize_(cluster, normal);
      return Text(normal);
    };
    if (cluster.size() > Known::kMost) {
      if (!visit(start, end, normalized())) return;
      continue;
    }
    Known::Word word;
    std::copy(cluster.begin(), cluster.end(), word.bytes.begin());
    word.size = static_cast<uint8_t>(cluster.size());
    auto& entry = known.entry_of(word);
    if (std::memcmp(&entry.cluster, &word, sizeof word) != 0) {
      if (const auto found = normalized(); found.size() > Known::kMost) {
        if (!visit(start, end, found)) return;
        continue;
      }
      entry = {word, {}};
      std::copy(normal.begin(), normal.end(), entry.normal.bytes.begin());
      entry.normal.size = static_cast<uint8_t>(normal.size());
    }
    if (!visit(start, end, Text(entry.normal.bytes.data(), entry.normal.size))) return;
  }
}

bool NormalForm::has(Text text, Known& known) const {
  bool same = true;
  each_cluster(text, known, [&](size_t start, size_t end, Text normal) {
    return same = std::equal(normal.begin(), normal.end(), text.begin() + start, text.begin() + end);
  });
  return same;
}

void NormalForm::append(Text text, Known& known, std::vector<uint8_t>& to) const {
  size_t done = 0;
  each_cluster(text, known, [&](size_t start, size_t end, Text normal) {
    to.insert(to.end(), text.begin() + done, text.begin() + start);
    to.insert(to.end(), normal.begin(), normal.end());
    done = end;
    return true;
  });
  to.insert(to.end(), text.begin() + done, text.end());
}

}  // namespace bpe
