#include "text/json_field.hpp"

#include "text/utf8.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace bpe {
namespace {

constexpr size_t kStep = 16;

constexpr bool ends_run(uint8_t byte) { return byte < 0x20 || byte == '"' || byte == '\\'; }

// Copies kStep bytes; returns how many of them come before a quote, a backslash or a control character.
inline size_t copy_run(const uint8_t* from, uint8_t* to) {
#if defined(__SSE2__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
  const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
  const __m128i marks =
      _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')), _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
  const auto found = static_cast<uint32_t>(_mm_movemask_epi8(_mm_or_si128(control, marks)));
  return found ? static_cast<size_t>(std::countr_zero(found)) : kStep;
#else
  std::memcpy(to, from, kStep);
  size_t count = 0;
  while (count < kStep && !ends_run(from[count])) ++count;
  return count;
#endif
}

constexpr auto kHex = [] {
  std::array<int8_t, 256> values{};
  values.fill(-1);
  for (int8_t i = 0; i < 10; ++i) values['0' + i] = i;
  for (int8_t i = 0; i < 6; ++i) values['a' + i] = values['A' + i] = static_cast<int8_t>(10 + i);
  return values;
}();

// What stands for itself or one control character behind a backslash; 0: nothing does.
constexpr auto kEscaped = [] {
  std::array<uint8_t, 256> values{};
  values['"'] = '"', values['\\'] = '\\', values['/'] = '/';
  values['b'] = '\b', values['f'] = '\f', values['n'] = '\n', values['r'] = '\r', values['t'] = '\t';
  return values;
}();

// Reads one line after the other. Functions that return bool return false for what is not JSON.
class Reader {
 public:
  Reader(const uint8_t* lines, size_t size, const std::vector<std::string>& path)
      : at_(lines), end_(lines + size), path_(path) {
    texts_.data = std::make_unique_for_overwrite<uint8_t[]>(size + 2 * kStep);
    out_ = texts_.data.get();
  }

  JsonTexts read() {
    const uint8_t* const begin = at_;
    while (at_ < end_) {
      start_ = static_cast<uint64_t>(at_ - begin);
      skip_blanks();
      if (at_ < end_ && *at_ != '\n') read_row();
      ++at_;
    }
    return std::move(texts_);
  }

 private:
  enum class Found { text, missing, other };

  uint8_t peek() const { return at_ < end_ ? *at_ : uint8_t{'\n'}; }
  bool take(uint8_t byte) {
    const bool taken = peek() == byte;
    at_ += taken;
    return taken;
  }
  void skip_blanks() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }

  // Reads a row up to its line feed or the end.
  void read_row() {
    found_ = Found::missing;
    text_ = out_;
    const bool is_json = peek() == '{' && record();
    if (!is_json) {
      const void* feed = std::memchr(at_, '\n', static_cast<size_t>(end_ - at_));
      at_ = feed ? static_cast<const uint8_t*>(feed) : end_;
    }
    if (is_json && found_ == Found::text) {
      out_ = text_;
    } else {
      const NoText kind = !is_json                   ? NoText::not_json
                          : found_ == Found::missing ? NoText::without_field
                                                     : NoText::not_text;
      JsonTexts::Skipped& skipped = texts_.skipped[static_cast<size_t>(kind)];
      if (skipped.count++ < JsonTexts::kExamples) skipped.starts.push_back(start_);
    }
    texts_.offsets.push_back(out_ - texts_.data.get());
  }

  // An object and nothing else on the line. `on_path_` of the open containers are objects that the path leads through:
  // if all are, the innermost may have its next key.
  bool record() {
    open_.clear();
    on_path_ = 0;
    enter('{', true);
    bool first = true;  // in the innermost container
    while (!open_.empty()) {
      skip_blanks();
      const bool in_object = open_.back() == '{';
      if (take(in_object ? '}' : ']')) {
        on_path_ -= open_.size() == on_path_;
        open_.pop_back();
        first = false;
        continue;
      }
      if (!first) {
        if (!take(',')) return false;
        skip_blanks();
      }
      bool on_path = false;
      if (in_object) {
        if (!key(on_path)) return false;
        skip_blanks();
        if (!take(':')) return false;
        skip_blanks();
      }
      first = peek() == '{' || peek() == '[';
      if (first)
        note(Found::other, on_path), enter(peek(), on_path);
      else if (!scalar(on_path))
        return false;
    }
    skip_blanks();
    return peek() == '\n';
  }

  void enter(uint8_t bracket, bool on_path) {
    on_path_ += on_path && bracket == '{' && on_path_ < path_.size();
    open_.push_back(static_cast<char>(bracket));
    ++at_;
  }

  // Notes what the key leads to, if it is on the path.
  void note(Found found, bool on_path) {
    if (on_path) found_ = on_path_ == path_.size() ? found : Found::missing;
  }

  bool key(bool& on_path) {
    if (!take('"')) return false;
    if (open_.size() != on_path_) return skip_string();
    uint8_t* end = text_;  // behind a text that the field had, if its key comes again
    if (!string<true>(end)) return false;
    const std::string& name = path_[on_path_ - 1];
    on_path = static_cast<size_t>(end - text_) == name.size() && std::memcmp(text_, name.data(), name.size()) == 0;
    return true;
  }

  bool scalar(bool on_path) {
    const uint8_t head = peek();
    if (head == '"') {
      ++at_;
      note(Found::text, on_path);
      if (!on_path || found_ != Found::text) return skip_string();
      text_ = out_;
      return string<true>(text_);
    }
    note(head == 'n' ? Found::missing : Found::other, on_path);
    switch (head) {
      case 'n':
        return word("null");
      case 't':
        return word("true");
      case 'f':
        return word("false");
      case 'N':
        return word("NaN");
      case 'I':
        return word("Infinity");
    }
    return number();
  }

  bool word(std::string_view letters) {
    const bool is =
        static_cast<size_t>(end_ - at_) >= letters.size() && std::memcmp(at_, letters.data(), letters.size()) == 0;
    at_ += is ? letters.size() : 0;
    return is;
  }

  bool digits() {
    const uint8_t* const start = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    return at_ > start;
  }

  bool number() {
    if (take('-') && peek() == 'I') return word("Infinity");
    if (!take('0') && !digits()) return false;
    if (take('.') && !digits()) return false;
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      return digits();
    }
    return true;
  }

  bool skip_string() {
    uint8_t* nowhere = nullptr;
    return string<false>(nowhere);
  }

  // Behind the opening quote; what is decoded goes to `out`, which it moves.
  template <bool kKept>
  bool string(uint8_t*& out) {
    std::array<uint8_t, kStep> dropped;
    while (true) {
      size_t count = kStep;
      while (count == kStep && static_cast<size_t>(end_ - at_) >= kStep) {
        count = copy_run(at_, kKept ? out : dropped.data());
        at_ += count;
        if (kKept) out += count;
      }
      for (; at_ < end_ && !ends_run(*at_); ++at_)
        if (kKept) *out++ = *at_;
      while (peek() == '\\')
        if (!escape<kKept>(out)) return false;
      if (take('"')) return true;
      if (peek() < 0x20) return false;
    }
  }

  template <bool kKept>
  bool escape(uint8_t*& out) {
    ++at_;
    const uint8_t letter = peek();
    ++at_;
    uint32_t code = kEscaped[letter];
    if (letter == 'u') {
      if (!four_digits(code)) return false;
      if (code >> 10 == 0x36) {
        const uint8_t* const alone = at_;
        uint32_t low = 0;
        if (!(take('\\') && take('u') && four_digits(low) && low >> 10 == 0x37))
          at_ = alone;
        else
          code = 0x10000 + ((code & 0x3ff) << 10 | (low & 0x3ff));
      }
    } else if (code == 0) {
      --at_;  // perhaps a line feed
      return false;
    }
    if (kKept && code >> 11 == 0x1b)
      *out++ = 0xff;
    else if (kKept)
      out = write_character(code, out);
    return true;
  }

  bool four_digits(uint32_t& code) {
    if (end_ - at_ < 4) return false;
    code = 0;
    for (int i = 0; i < 4; ++i) {
      const int8_t value = kHex[at_[i]];
      if (value < 0) return false;
      code = code << 4 | static_cast<uint32_t>(value);
    }
    at_ += 4;
    return true;
  }

  const uint8_t *at_, *end_;
  uint64_t start_ = 0;  // of the line, from the first line's
  const std::vector<std::string>& path_;
  JsonTexts texts_;
  uint8_t* out_;   // where the texts of the rows before end
  uint8_t* text_;  // where this row's text ends, if it is found
  Found found_ = Found::missing;
  std::string open_;  // the open containers, by their brackets
  size_t on_path_ = 0;
};

}  // namespace

JsonTexts json_texts(const uint8_t* lines, size_t size, const std::vector<std::string>& path) {
  if (path.empty()) throw std::invalid_argument("json_texts: a field needs a name");
  return Reader(lines, size, path).read();
}

}  // namespace bpe
