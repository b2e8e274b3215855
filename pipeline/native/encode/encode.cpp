#include "encode/encode.hpp"

#include <thread>

#include "text/utf8.hpp"

namespace bpe {

namespace {

constexpr size_t kWindowBytes = RankMerger::kMaxPieceBytes + (size_t{1} << 20);
constexpr size_t kLeastStates = 4;
constexpr size_t kMostAside = size_t{1} << 20;  // ids of unknown pre-tokens whose memory is kept

constexpr size_t kReadAhead = 16;  // bytes that are read where a pre-token starts
// Pre-tokens are encoded in parts if they have more bytes, in blocks where pre-tokens have at least so many on the average.
constexpr size_t kMostWhole = 6, kLongOnAverage = 5;

}  // namespace

Encoder::Encoder(const Automaton* automaton, std::span<const Token> tokens, std::span<const Merge> merges,
                 bool whole_pre_tokens, size_t cache_bytes, size_t threads, const LostBytes& lost)
    : automaton_(automaton),
      merger_(tokens, merges),
      lossy_(!lost.bytes.empty()),
      fused_(lost.fused),
      unknown_(lost.unknown),
      pool_(threads ? threads : std::max<size_t>(kLeastStates, std::thread::hardware_concurrency())),
      known_ids_(cache_bytes, pool_.size()) {
  for (const char byte : lost.bytes) lost_[static_cast<uint8_t>(byte)] = true;
  if (!whole_pre_tokens) return;
  size_t total = 0;
  for (const Token& token : tokens) total += token.bytes.size();
  token_bytes_.reserve(total);
  whole_pre_tokens_.reserve(tokens.size());
  for (const Token& token : tokens) {
    if (token.bytes.size() == 1 && lost_[static_cast<uint8_t>(token.bytes[0])]) continue;
    const size_t start = token_bytes_.size();
    token_bytes_.append(token.bytes);
    whole_pre_tokens_.emplace(std::string_view(token_bytes_).substr(start), token.id);
  }
}

Encoder::~Encoder() {
  for (const auto& slot : pool_)
    if (const uintptr_t idle = slot.load(); idle % 2 == 0) delete reinterpret_cast<State*>(idle);
}

Encoder::Lease Encoder::lease() {
  const uintptr_t mark = 2 * uintptr_t{forks.load(std::memory_order_relaxed)} + 1;
  for (auto& slot : pool_) {
    uintptr_t found = slot.load(std::memory_order_relaxed);
    while (found != mark && !slot.compare_exchange_weak(found, mark, std::memory_order_acquire)) {
    }
    if (found == mark) continue;
    // A state that a thread of the parent had on lease is half-done work: another takes its place.
    const bool idle = found != 0 && found % 2 == 0;
    try {
      Lease state(idle ? reinterpret_cast<State*>(found) : new State, Return{&known_ids_, &slot, mark});
      known_ids_.open(state->reader, static_cast<size_t>(&slot - pool_.data()));
      return state;
    } catch (...) {
      slot.store(0, std::memory_order_relaxed);
      throw;
    }
  }
  return {new State, Return{&known_ids_, nullptr, 0}};
}

// A state that saw an exception may hold half-done work and is not used again; nor is one whose slot a child has given
// to another.
void Encoder::Return::operator()(State* state) const {
  std::unique_ptr<State> owned(state);
  if (!slot) return;
  uintptr_t leased = mark;
  if (slot->load(std::memory_order_relaxed) != mark) return;
  known_ids->close(state->reader);
  const bool whole = std::uncaught_exceptions() == 0;
  if (slot->compare_exchange_strong(leased, whole ? reinterpret_cast<uintptr_t>(state) : 0,
                                    std::memory_order_release) &&
      whole)
    owned.release();
}

size_t Encoder::encode(std::string_view text, const SpecialTokens* specials, bool at_end, IdBuffer& out) {
  return encode_text(text, specials, at_end, *lease(), out, nullptr);
}

size_t Encoder::count(std::string_view text, const SpecialTokens* specials) {
  IdBuffer ids;
  size_t counted = 0;
  encode_text(text, specials, true, *lease(), ids, &counted);
  return counted;
}

size_t Encoder::encode_text(std::string_view text, const SpecialTokens* specials, bool at_end, State& state,
                            IdBuffer& out, size_t* counted) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const size_t size = text.size(), longest = specials ? specials->longest() : 0;
  // From here on a special token may start that only more text completes, or makes a longer one.
  const size_t open = at_end || longest == 0 ? size : size - std::min(size, longest - 1);
  size_t begin = 0;
  while (longest != 0) {
    const SpecialTokens::Match match = specials->find(bytes, begin, size);
    if (!match || match.start >= open) break;
    encode_document(text, begin, match.start, true, state, out, counted);
    if (counted) {
      ++*counted;
    } else {
      out.push(match.id);
    }
    begin = match.end;
  }
  return encode_document(text, begin, character_start(bytes, open, size), at_end, state, out, counted);
}

size_t Encoder::encode_document(std::string_view text, size_t begin, size_t end, bool at_end, State& state,
                                IdBuffer& out, size_t* counted) {
  if (!automaton_) throw std::logic_error("this pattern has no automaton: cut the text and encode the pre-tokens");
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  AheadStretch ahead;
  while (begin < end) {
    // Offsets of pre-tokens are 32 bit and relative to `begin`: a larger document is cut window by window.
    const bool whole = end - begin <= kWindowBytes;
    const size_t window = whole ? end - begin : character_start(bytes, begin + kWindowBytes, end) - begin;
    size_t count = 0;
    const size_t taken =
        automaton_->cut(bytes + begin, 0, window, whole && at_end, state.ends.data(), kBlockPreTokens, &count, ahead);
    if (count == 0) {
      if (whole && !at_end) break;
      throw std::runtime_error("a pre-token of more than " + std::to_string(window) + " bytes: the limit is 1 GiB");
    }
    encode_block(bytes + begin, 0, {state.ends.data(), count}, text.size() - begin, state, out);
    if (counted) {
      *counted += out.size();
      out.clear();
    }
    begin += taken;
  }
  return begin;
}

void Encoder::encode_block(const uint8_t* text, size_t begin, std::span<const uint32_t> ends, size_t readable,
                           State& state, IdBuffer& out) {
  if (ends.back() - begin < kLongOnAverage * ends.size() || !whole_pre_tokens_.empty() || lossy_) {
    return encode_parts(text, begin, ends, readable, state, out);
  }
  const Borders& borders = merger_.borders();
  size_t parts = 0, from = begin, start = begin;
  const auto add = [&](size_t end) {
    state.part_ends[parts++] = static_cast<uint32_t>(end);
    if (parts < kBlockPreTokens) return;
    encode_parts(text, from, state.part_ends, readable, state, out);
    from = end;
    parts = 0;
  };
  for (const uint32_t end : ends) {
    const size_t last = end - start > kMostWhole ? std::min(size_t{end} + Borders::kBehind, readable) : 0;
    for (size_t at = start + Borders::kBefore; at + Borders::kBehind < last; ++at)
      if (!borders.joined(text + at)) add(at);
    add(end);
    start = end;
  }
  if (parts != 0) encode_parts(text, from, {state.part_ends.data(), parts}, readable, state, out);
}

void Encoder::encode_parts(const uint8_t* text, size_t begin, std::span<const uint32_t> ends, size_t readable,
                           State& state, IdBuffer& out) {
  size_t padded = ends.size();
  while (padded != 0 && start_of(begin, ends.data(), padded - 1) + kReadAhead > readable) --padded;
  if (padded != 0) encode_padded(text, begin, ends.first(padded), state, out);
  if (padded == ends.size()) return;
  // The last pre-tokens, of less than kReadAhead bytes together.
  const size_t from = start_of(begin, ends.data(), padded);
  std::array<uint8_t, 2 * kReadAhead> last{};
  std::array<uint32_t, kReadAhead> last_ends;
  std::memcpy(last.data(), text + from, ends.back() - from);
  const size_t count = ends.size() - padded;
  for (size_t i = 0; i < count; ++i) last_ends[i] = ends[padded + i] - static_cast<uint32_t>(from);
  encode_padded(last.data(), 0, {last_ends.data(), count}, state, out);
}

void Encoder::encode_padded(const uint8_t* text, size_t begin, std::span<const uint32_t> ends, State& state,
                            IdBuffer& out) {
  const size_t misses = state.hot.find(text, begin, ends.data(), ends.size(), state.ids.data(), state.missed.data());
  const size_t many = find_missed(text, begin, ends, misses, state);
  uint32_t* const first = out.reserve(many + HotIds::kMost * ends.size() + 1);
  uint32_t* row = first;
  for (const HotIds::Ids& ids : std::span(state.ids).first(ends.size())) {
    std::memcpy(row, &ids, sizeof ids);
    if (ids.count > HotIds::kMost) [[unlikely]]
      std::copy_n(state.others[ids.first[0]], ids.count, row);
    row += ids.count;
  }
  out.advance(static_cast<size_t>(row - first));
  if (state.aside.size() > kMostAside) state.aside = {};
}

size_t Encoder::find_missed(const uint8_t* text, size_t begin, std::span<const uint32_t> ends, size_t misses,
                            State& state) {
  const KnownIds::Table* const table = known_ids_.table(state.reader);
  key_missed(text, begin, ends.data(), state.missed.data(), misses, state.pre_tokens.data(),
             [&](uint64_t hash) { return table ? table->home(hash) : 0; });
  for (size_t n = 0; table && n < misses; ++n) table->prefetch_record(state.pre_tokens[n]);
  state.others.clear();
  state.aside.clear();
  const uint32_t* made = state.aside.reserve(ends.back() - begin + HotIds::kMost);  // at most an id for each byte
  size_t many = 0;
  for (size_t n = 0; n < misses; ++n) {
    const size_t i = state.missed[n], at = start_of(begin, ends.data(), i), size = ends[i] - at;
    const MissedPreToken& pre_token = state.pre_tokens[n];
    const bool kept = table && size <= KnownIds::kMaxBytes;
    KnownIds::Ids ids = kept ? table->find(pre_token, text + at, size) : KnownIds::Ids{nullptr, 0};
    if (!ids.first) [[unlikely]] {
      encode_pre_token({reinterpret_cast<const char*>(text) + at, size}, state, state.aside);
      ids = {made, static_cast<size_t>(state.aside.data() + state.aside.size() - made)};
      made += ids.count;
      if (kept && ids.count != 0) known_ids_.enter(state.reader, pre_token, text + at, size, ids.first, ids.count);
    }
    HotIds::Ids& few = state.ids[i];
    few.count = static_cast<uint32_t>(ids.count);
    if (ids.count > HotIds::kMost) {
      few.first[0] = static_cast<uint32_t>(state.others.size());
      state.others.push_back(ids.first);
      many += ids.count;
    } else {
      std::memcpy(few.first.data(), ids.first, sizeof few.first);
      if (size <= kInlineBytes) state.hot.enter(pre_token.key, few);
    }
  }
  return many;
}

void Encoder::encode_pre_token(std::string_view pre_token, State& state, IdBuffer& out) const {
  if (!whole_pre_tokens_.empty()) {
    if (const auto token = whole_pre_tokens_.find(pre_token); token != whole_pre_tokens_.end()) {
      out.push(token->second);
      return;
    }
  }
  if (lossy_) [[unlikely]]
    return encode_lossy(pre_token, state, out);
  merger_.encode(pre_token, state.scratch, out);
}

void Encoder::encode_lossy(std::string_view pre_token, State& state, IdBuffer& out) const {
  std::string kept;
  const auto encode_kept = [&] {
    if (!kept.empty()) merger_.encode(kept, state.scratch, out);
    kept.clear();
  };
  bool after_lost = false;
  for (const char byte : pre_token) {
    const bool lost = lost_[static_cast<uint8_t>(byte)];
    if (!lost) {
      kept.push_back(byte);
    } else if (unknown_ == LostBytes::kRefused) {
      constexpr std::string_view digits = "0123456789ABCDEF";
      const auto value = static_cast<uint8_t>(byte);
      throw std::runtime_error(std::string("no token stands for the byte 0x") + digits[value / 16] +
                               digits[value % 16]);
    } else if (unknown_ && !(after_lost && fused_)) {
      encode_kept();
      out.push(*unknown_);
    }
    after_lost = lost;
  }
  encode_kept();
}

void Encoder::encode_cut(std::string_view text, std::span<const uint32_t> ends, IdBuffer& out) {
  const Lease state = lease();
  std::vector<uint32_t> block;
  size_t begin = 0;
  for (size_t at = 0; at < ends.size(); at += kBlockPreTokens) {
    block.clear();
    for (const uint32_t end : ends.subspan(at, std::min(kBlockPreTokens, ends.size() - at))) {
      const size_t before = begin + (block.empty() ? 0 : block.back());
      if (end <= before || end > text.size()) throw std::invalid_argument("encode_cut: ends must rise within the text");
      if (end - before > RankMerger::kMaxPieceBytes)
        throw std::runtime_error("a pre-token is beyond the limit of 1 GiB");
      block.push_back(static_cast<uint32_t>(end - begin));
    }
    encode_block(reinterpret_cast<const uint8_t*>(text.data()) + begin, 0, block, text.size() - begin, *state, out);
    begin += block.back();
  }
}

}  // namespace bpe
