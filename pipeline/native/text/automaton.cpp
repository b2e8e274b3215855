#include "text/automaton.hpp"

#include "text/utf8.hpp"

namespace bpe {
namespace {

constexpr uint32_t kReplacement = 0xFFFD;  // the class of a byte that is not valid UTF-8
constexpr size_t kMargin = 104;            // ends that one block of a window, or one group of pairs, may write
constexpr size_t kBlock = 64, kMostBlocks = 32;
constexpr int kManyUndecided = 20;        // of a block: the automaton reads it
constexpr size_t kNear = 64, kFar = 256;  // bytes from the last boundary: windows start, windows end
constexpr size_t kPause = 128;            // bytes until windows are tried again
constexpr uint32_t kBlocks = kCodePoints / 64;

void require(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(std::string("automaton tables do not fit together: ") + what);
}

// Takes an ordinary step over a character of `length` bytes.
template <class Cursor>
inline void take(Cursor& now, Step step, size_t length, uint32_t* ends) {
  ends[now.count] = static_cast<uint32_t>(now.previous);
  now.count += step.flags & kBack;
  ends[now.count] = static_cast<uint32_t>(now.at);
  now.count += (step.flags & kHere) >> 1;
  now = {step.next, now.at + length, now.at, now.count};
}

bool starts_with_ascii(const uint8_t* text) {
  uint64_t words[2];
  std::memcpy(words, text, sizeof words);
  return ((words[0] | words[1]) & 0x8080808080808080u) == 0;
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

// The same where the class may be open, and an incomplete character at the end of a document is not valid.
inline Automaton::Character Automaton::character_ahead(const uint8_t* text, size_t at, size_t size,
                                                       AheadStretch& ahead) const {
  Character next = character(text, at, size);
  if (next.length == 0 && ahead.at_end) next = {class_at(kReplacement), 1};
  return ahead_.open(next.cls) && next.length != 0 ? open_character(next, text, at, size, ahead) : next;
}

Automaton::Character Automaton::open_character(Character next, const uint8_t* text, size_t at, size_t size,
                                               AheadStretch& ahead) const {
  const uint8_t* const here = text + at;
  const auto known = [&] { return ahead.classes[static_cast<size_t>(here - ahead.from)]; };
  const bool inside = !std::less<>()(here, ahead.from) && std::less<>()(here, ahead.to);
  if (!inside || (known() == Ahead::kUnknown && ahead.seen != text + size)) {
    const auto character_at = [&](size_t place) {
      const Character found = character(text, place, size);
      return found.length == 0 && ahead.at_end ? Character{class_at(kReplacement), 1} : found;
    };
    ahead_.read(text, at, size, character_at, ahead);
  }
  return known() == Ahead::kUnknown ? Character{0, 0} : Character{known(), next.length};
}

// The end of the match that starts at `begin` < size; npos if nothing matches there; size + 1 if more text decides.
size_t Automaton::plain_match(const uint8_t* text, size_t begin, size_t size, AheadStretch& ahead) const {
  size_t matched = npos;
  uint32_t state = 1;
  size_t at = begin;
  while (state != 0) {
    if (at >= size) {
      if (!ahead.at_end) return size + 1;
      if (plain_[size_t{state} * classes_ + classes_ - 1] & 1) matched = size;
      break;
    }
    const Character next = character_ahead(text, at, size, ahead);
    if (next.length == 0) return size + 1;
    const uint16_t entry = plain_[size_t{state} * classes_ + next.cls];
    if (entry & 1) matched = at;
    state = entry >> 1;
    at += next.length;
  }
  return matched;
}

// The end of the pre-token that starts at `begin` < size, by the plain table; size + 1 if more text decides.
size_t Automaton::plain_pre_token(const uint8_t* text, size_t begin, size_t size, AheadStretch& ahead) const {
  for (size_t start = begin; start < size;) {
    const size_t matched = plain_match(text, start, size, ahead);
    if (matched == size + 1) return matched;
    if (matched != npos) return start == begin ? matched : start;
    const uint32_t length = character(text, start, size).length;
    start += length == 0 ? 1 : length;
  }
  return ahead.at_end ? size : size + 1;
}

size_t Automaton::cut(const uint8_t* text, size_t begin, size_t size, bool at_end, uint32_t* ends, size_t max_ends,
                      size_t* n_ends, AheadStretch& ahead) const {
  ahead.at_end = at_end;
  Cursor cursor{0, begin, begin, 0};
  size_t rest = begin;
  if (max_ends >= 2 * kMargin) {  // so that at least one end is final when `ends` is full
    const bool arrived = run(cursor, text, begin, size, ends, max_ends - kMargin, ahead);
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
  // Hardly any space for ends, or a last step that is SLOW: pre-token by pre-token.
  while (rest < size && cursor.count < max_ends) {
    const size_t to = plain_pre_token(text, rest, size, ahead);
    if (to > size) break;
    ends[cursor.count++] = static_cast<uint32_t>(to);
    rest = to;
  }
  *n_ends = cursor.count;
  return rest;
}

// Takes steps from a boundary until the windows decide again, past the first bit of `undecided`, whose bits count from
// `base`. False: they do not for a while, or more ends than `limit` were written; `now` is where steps go on.
bool Automaton::pass_undecided(Cursor& now, size_t base, uint64_t undecided, const uint8_t* text, size_t size,
                               uint32_t* ends, size_t limit, AheadStretch& ahead) const {
  const size_t start = now.at;
  const auto first = static_cast<std::ptrdiff_t>(std::countr_zero(undecided));
  while (true) {
    if (size - now.at < 4) return false;
    const Character next = character_ahead(text, now.at, size, ahead);
    if (next.length == 0) return false;
    const Step step = steps_[size_t{next.cls} << state_shift_ | now.state];
    now.count -= step.flags >> kRetractShift & kRetractMask;
    take(now, step, next.length, ends);
    // The boundaries before `previous` are written.
    const auto bit = static_cast<std::ptrdiff_t>(now.previous - base);  // negative in blocks before
    if (bit > first && !tentative_[now.state] && (bit >= 64 || (undecided >> bit & 3) == 0)) return true;
    if (now.at - start > kFar || now.count > limit) return false;
  }
}

// Writes boundaries from a boundary on, where `now` is with state 0, as long as windows decide nearly all of them.
Automaton::Cursor Automaton::run_windows(Cursor now, const uint8_t* text, size_t size, uint32_t* ends, size_t limit,
                                         AheadStretch& ahead) const {
  std::array<uint64_t, kMostBlocks> boundaries, undecided;
  const size_t origin = now.at;
  size_t settled = origin + 1;  // the first position whose boundary is not yet written
  const auto restart = [&]() -> Cursor {
    const size_t last = now.count ? std::max<size_t>(ends[now.count - 1], origin) : origin;
    return {0, last, last, now.count};
  };
  for (size_t at = origin, most = 1; size - at >= kBlock && now.count <= limit; most = kMostBlocks) {
    const size_t blocks = std::min({most, (size - at) / kBlock, (limit - now.count) / 16 + 1});
    simd_.window_masks(*windows_, text + at, blocks, at != origin, boundaries.data(), undecided.data());
    for (size_t block = 0; block < blocks && now.count <= limit; ++block, at += kBlock) {
      const size_t base = at - 1;  // wraps at the start of the text, as do the bits that count from it
      const auto unsettled = [&] { return settled - base < kBlock ? ~uint64_t{0} << (settled - base) : 0; };
      uint64_t open = undecided[block] & unsettled();
      uint64_t found = boundaries[block] & unsettled();
      if (open && std::popcount(open) > kManyUndecided) return restart();
      while (open) {
        now.count += simd_.write_marks(ends + now.count, found & ((open & -open) - 1), static_cast<uint32_t>(base));
        Cursor steps = restart();
        if (!pass_undecided(steps, base, open, text, size, ends, limit + kBlock, ahead))
          return size - steps.at < 4 ? restart() : steps;
        now.count = steps.count;
        settled = steps.previous + (now.count && ends[now.count - 1] == steps.previous);
        open &= unsettled();
        found &= unsettled();
      }
      now.count += simd_.write_marks(ends + now.count, found, static_cast<uint32_t>(base));
      settled = std::max(settled, base + kBlock);
    }
  }
  return restart();
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

// Takes the step of any character, or a whole pre-token where the step is SLOW; false if more text is needed for that.
bool Automaton::run_one(Cursor& now, const uint8_t* text, size_t begin, size_t size, uint32_t* ends,
                        AheadStretch& ahead) const {
  const Character next = character_ahead(text, now.at, size, ahead);
  if (next.length == 0) return false;
  const Step step = steps_[size_t{next.cls} << state_shift_ | now.state];
  now.count -= step.flags & kSlow ? tentative_[now.state] : step.flags >> kRetractShift & kRetractMask;
  if (!(step.flags & kSlow)) {
    take(now, step, next.length, ends);
    return true;
  }
  const size_t from = now.count ? ends[now.count - 1] : begin;
  const size_t to = plain_pre_token(text, from, size, ahead);
  now = {0, std::min(to, size), std::min(to, size), now.count};
  if (to <= size) ends[now.count++] = static_cast<uint32_t>(to);
  return to <= size;
}

// Takes steps until the text or the space for ends is used up, or SLOW needs more text. True: all characters were read.
bool Automaton::run(Cursor& out, const uint8_t* text, size_t begin, size_t size, uint32_t* ends, size_t limit,
                    AheadStretch& ahead) const {
  const Step* const steps = steps_.data();
  const uint32_t shift = state_shift_;
  Cursor now = out;
  size_t windows_from = windows_ ? begin : npos;
  // Ordinary steps for a few characters of a kind, in registers; then windows and pairs may take over.
  const auto lane = [&](size_t longest, auto character_at) {
    Cursor here = now;
    for (int round = 0; round < 16 && size - here.at >= longest; ++round) {
      const Character next = character_at(here.at);
      const Step taken = steps[size_t{next.cls} << shift | here.state];
      if (next.length == 0 || taken.flags > (kBack | kHere)) break;
      take(here, taken, next.length, ends);
    }
    const bool any = here.at != now.at;
    now = here;
    return any;
  };
  // One or two bytes, without a branch that depends on which; length 0 for others.
  const auto short_character = [&](size_t at) -> Character {
    const uint32_t one = text[at];
    const uint32_t two = (one & 31) << 6 | (text[at + 1] & 63u);
    const bool wide = one >= 0x80;
    return one < 0xE0 ? Character{low_[wide ? two : one], 1u + wide} : Character{0, 0};
  };
  const auto long_character = [&](size_t at) -> Character {
    return (text[at] & 0xF0) == 0xE0 ? Character{class_at(code_point(text + at, 3)), 3} : Character{0, 0};
  };
  while (now.at < size && now.count <= limit) {
    if (now.at >= windows_from && size - now.at >= kBlock && !tentative_[now.state] &&
        starts_with_ascii(text + now.at)) {
      const size_t last = now.count ? ends[now.count - 1] : begin;
      if (now.at - last < kNear) {
        now = run_windows({0, last, last, now.count}, text, size, ends, limit, ahead);
        windows_from = now.at + kPause;
        if (now.count > limit) break;
      }
    }
    if (!pairs_.empty() && now.at - now.previous == 1) {
      const auto after = pairs_.run({now.state, now.at, now.count}, text, size, ends, limit);
      if (after.at > now.at) now = {after.state, after.at, after.at - 1, after.count};
      if (now.at >= size || now.count > limit) break;
    }
    const uint8_t lead = text[now.at];
    if (lead < 0xE0 ? lane(2, short_character) : lead < 0xF0 && lane(3, long_character)) continue;
    if (!run_one(now, text, begin, size, ends, ahead)) {
      out = now;
      return false;
    }
  }
  out = now;
  return now.at >= size;
}

size_t Automaton::find_provable_cut(const uint8_t* text, size_t size, size_t from, size_t to) const {
  to = std::min(to, size);
  for (size_t at = std::max<size_t>(from, 1); at < to; ++at) {
    const size_t after = character_size(text + at, size - at);
    if (after == 0) continue;
    const size_t before = character_start(text, at - 1, size), length = at - before;
    if (length > 4 || character_size(text + before, length) != length) continue;
    const uint32_t left = class_at(code_point(text + before, static_cast<uint32_t>(length)));
    const uint32_t right = class_at(code_point(text + at, static_cast<uint32_t>(after)));
    if (provable_[left * (classes_ - 1) + right]) return at;
  }
  return npos;
}

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
  const uint32_t kinds = *std::max_element(tables.class_ids.begin(), tables.class_ids.end()) + 1u;
  ahead_ = Ahead(tables.ahead, tables.variants, kinds, classes_ - 1);

  state_shift_ = static_cast<uint32_t>(std::bit_width(states_ - 1));
  steps_.assign(size_t{classes_} << state_shift_, Step{0, static_cast<uint16_t>(kSlow)});
  for (uint32_t state = 0; state < states_; ++state) {
    for (uint32_t cls = 0; cls < classes_; ++cls) {
      const uint32_t entry = tables.folded[size_t{state} * classes_ + cls];
      require(entry >> 16 < states_, "folded table's states");
      if (!ahead_.open(cls))
        steps_[size_t{cls} << state_shift_ | state] = {static_cast<uint16_t>(entry >> 16),
                                                       static_cast<uint16_t>(entry & 0xFFFF)};
    }
  }
  pairs_ = PairTable({low_.data(), 128}, steps_, state_shift_, states_);
  simd_ = simd();
  if (!simd_.window_masks) return;
  std::vector<uint32_t> ordinary;
  for (uint32_t cls = 0; cls + 1 < classes_; ++cls)
    if (!ahead_.open(cls)) ordinary.push_back(cls);
  windows_ = derive_windows({low_.data(), 128}, ordinary, steps_, state_shift_, tentative_);
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
  return steps_.size() * sizeof(Step) + pairs_.bytes() + block_of_.size() * 2 + blocks_.size() + plain_.size() * 2 +
         tentative_.size() + provable_.size() + sizeof(*this);
}

}  // namespace bpe
