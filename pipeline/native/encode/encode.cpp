#include "encode/encode.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

#include "encode/encode_state.hpp"
#include "text/utf8.hpp"

namespace bpe {

namespace {

constexpr size_t kWindowBytes = RankMerger::kMaxPieceBytes + (size_t{1} << 20);
constexpr size_t kLeastStates = 4;

// Instead of a number of ids: they lie aside; the piece is encoded when its turn comes.
constexpr uint8_t kAside = 254, kGiant = 255;

// The first eight bytes of a piece behind which hardly anything may be read, and its key.
[[gnu::noinline]] uint64_t beginning_at_end(const uint8_t* piece, size_t readable) {
  uint8_t padded[8] = {};
  std::memcpy(padded, piece, readable);
  return load64(padded);
}

[[gnu::noinline]] Key key_at_end(const uint8_t* piece, size_t size) {
  uint8_t padded[16] = {};
  std::memcpy(padded, piece, size);
  return PieceCache::key_of_any(padded, size);
}

}  // namespace

Encoder::Encoder(const Automaton* automaton, std::span<const Token> tokens, std::span<const Merge> merges,
                 bool whole_pieces, size_t cache_bytes, size_t threads)
    : automaton_(automaton),
      merger_(tokens, merges),
      pooled_states_(threads ? threads : std::max<size_t>(kLeastStates, std::thread::hardware_concurrency())),
      cache_bytes_(cache_bytes / pooled_states_) {
  idle_.reserve(pooled_states_);
  if (!whole_pieces) return;
  size_t total = 0;
  for (const Token& token : tokens) total += token.bytes.size();
  token_bytes_.reserve(total);
  whole_pieces_.reserve(tokens.size());
  for (const Token& token : tokens) {
    const size_t start = token_bytes_.size();
    token_bytes_.append(token.bytes);
    whole_pieces_.emplace(std::string_view(token_bytes_).substr(start), token.id);
  }
}

Encoder::~Encoder() = default;

void Encoder::encode(std::string_view text, const SpecialTokens* specials, std::span<const uint32_t> special_ids,
                     IdBuffer& out) {
  Lease state(*this);
  encode_text(text, specials, special_ids, *state, out, nullptr);
}

size_t Encoder::count(std::string_view text, const SpecialTokens* specials, std::span<const uint32_t> special_ids) {
  Lease state(*this);
  IdBuffer ids;
  size_t counted = 0;
  encode_text(text, specials, special_ids, *state, ids, &counted);
  return counted;
}

void Encoder::encode_text(std::string_view text, const SpecialTokens* specials, std::span<const uint32_t> special_ids,
                          State& state, IdBuffer& out, size_t* counted) const {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  size_t begin = 0;
  while (specials && !specials->empty()) {
    const SpecialTokens::Match match = specials->find(bytes, begin, text.size());
    if (match.start == SpecialTokens::npos) break;
    encode_document(text, begin, match.start, true, state, out, counted);
    if (counted) {
      ++*counted;
    } else {
      out.push(special_ids[match.index]);
    }
    begin = match.end;
  }
  encode_document(text, begin, text.size(), true, state, out, counted);
}

size_t Encoder::encode_part(std::string_view text, const SpecialTokens* specials,
                            std::span<const uint32_t> special_ids, IdBuffer& out) {
  Lease state(*this);
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const size_t size = text.size(), longest = specials ? specials->longest() : 0;
  // Where a special token may begin that only more text completes, or makes a longer one.
  const size_t open = longest == 0 ? size : size - std::min(size, longest - 1);
  size_t begin = 0, limit = open;
  while (longest != 0) {
    const SpecialTokens::Match match = specials->find(bytes, begin, size);
    if (match.start == SpecialTokens::npos || match.start >= open) break;
    encode_document(text, begin, match.start, true, *state, out, nullptr);
    out.push(special_ids[match.index]);
    begin = match.end;
  }
  limit = character_start(bytes, limit, size);
  return limit <= begin ? begin : encode_document(text, begin, limit, false, *state, out, nullptr);
}

size_t Encoder::encode_document(std::string_view text, size_t begin, size_t end, bool at_end, State& state,
                                IdBuffer& out, size_t* counted) const {
  if (!automaton_) throw std::logic_error("this pattern has no automaton: cut the text and encode the pieces");
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  while (begin < end) {
    // Offsets of pieces are 32 bit and relative to `begin`: a larger document is cut window by window.
    const bool whole = end - begin <= kWindowBytes;
    const size_t window = whole ? end - begin : character_start(bytes, begin + kWindowBytes, end) - begin;
    size_t count = 0;
    const size_t taken =
        automaton_->cut(bytes + begin, 0, window, whole && at_end, state.ends.data(), State::kBlockPieces, &count);
    if (count == 0) {
      if (whole && !at_end) break;
      throw std::runtime_error("a piece of more than " + std::to_string(window) + " bytes is beyond the limit of 1 GiB");
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
                           State& state, IdBuffer& out) const {
  // The ids of the frequent pieces are written end to end, as if there were no others; without a branch.
  size_t others = 0, known = 0, start = begin;
  for (size_t i = 0; i < ends.size(); ++i) {
    const size_t size = ends[i] - start;
    const uint8_t* const piece = text + start;
    const uint64_t beginning = readable - start >= 8 ? load64(piece) : beginning_at_end(piece, readable - start);
    HotIds::Ids ids;
    const size_t hit = state.hot.find(HotIds::word_of(beginning, size), size, ids);
    std::memcpy(state.known.data() + known, &ids, sizeof ids);
    state.others[others] = {static_cast<uint32_t>(i), static_cast<uint32_t>(known)};
    others += 1 - hit;
    known += hit + (hit & ids.has_second());
    start = ends[i];
  }
  find_others(text, begin, ends, readable, others, state);
  const size_t room = known + PieceCache::kMaxIds * others + state.aside.size() + State::kStride;
  uint32_t* row = out.reserve(room);
  const uint32_t* first = row;
  const uint32_t* aside = state.aside.data();
  size_t copied = 0;
  const auto copy_known = [&](size_t until) {
    for (size_t at = copied; at < until; at += State::kStride) {
      std::memcpy(row + (at - copied), state.known.data() + at, State::kStride * sizeof(uint32_t));
    }
    row += until - copied;
    copied = until;
  };
  for (size_t k = 0; k < others; ++k) {
    const auto [i, known_before] = state.others[k];
    copy_known(known_before);
    if (state.counts[k] < kAside) [[likely]] {
      std::memcpy(row, state.found[k].data(), sizeof state.found[k]);
      row += state.counts[k];
    } else if (state.counts[k] == kAside) {
      const size_t count = state.found[k][0];
      std::memcpy(row, aside, count * sizeof(uint32_t));
      row += count;
      aside += count;
    } else {
      out.advance(static_cast<size_t>(row - first));
      const size_t from = i ? ends[i - 1] : begin;
      encode_piece({reinterpret_cast<const char*>(text) + from, ends[i] - from}, state, out);
      first = row = out.reserve(room);
    }
  }
  copy_known(known);
  out.advance(static_cast<size_t>(row - first));
}

void Encoder::find_others(const uint8_t* text, size_t begin, std::span<const uint32_t> ends, size_t readable,
                          size_t others, State& state) const {
  size_t longer = 0;
  for (size_t k = 0; k < others; ++k) {
    const size_t i = state.others[k].piece, start = i ? ends[i - 1] : begin, size = ends[i] - start;
    const Key key = readable - start >= 16 ? PieceCache::key_of_any(text + start, size) : key_at_end(text + start, size);
    const uint64_t hash = PieceCache::hash(key);
    state.keys[k] = key;
    state.hashes[k] = hash;
    state.cache.prefetch(hash);
    state.longer[longer] = static_cast<uint32_t>(k);
    longer += static_cast<size_t>(size > PieceCache::kMaxBytes);
  }
  for (size_t n = 0; n < longer; ++n) {
    const size_t k = state.longer[n], i = state.others[k].piece, start = i ? ends[i - 1] : begin, size = ends[i] - start;
    if (size > LongPieceCache::kMaxBytes) continue;
    state.hashes[k] = hash_long(text + start, size);
    state.long_cache.prefetch(state.hashes[k]);
  }
  for (size_t n = 0; n < longer; ++n) state.long_cache.prefetch_record(state.hashes[state.longer[n]]);
  state.aside.clear();
  for (size_t k = 0; k < others; ++k) {
    const size_t i = state.others[k].piece, start = i ? ends[i - 1] : begin, size = ends[i] - start;
    if (const auto* entry = state.cache.find(state.keys[k], state.hashes[k])) [[likely]] {
      std::memcpy(state.found[k].data(), entry->ids, sizeof entry->ids);
      state.counts[k] = static_cast<uint8_t>(entry->count());
      state.hot.offer(state.keys[k], size, entry->ids, entry->count());
    } else if (size > LongPieceCache::kMaxBytes) {
      state.counts[k] = kGiant;
    } else {
      const size_t before = state.aside.size();
      encode_other(text + start, size, state.keys[k], state.hashes[k], state, state.aside);
      state.counts[k] = kAside;
      state.found[k][0] = static_cast<uint32_t>(state.aside.size() - before);
    }
  }
}

void Encoder::encode_other(const uint8_t* piece, size_t size, const Key& key, uint64_t hash, State& state,
                           IdBuffer& out) const {
  const bool is_short = size <= PieceCache::kMaxBytes;
  if (is_short) {
    if (const auto* entry = state.cache.find_aside(key, hash)) {
      std::memcpy(out.reserve(PieceCache::kMaxIds), entry->ids, sizeof(entry->ids));
      out.advance(entry->count());
      return;
    }
  }
  if (const auto ids = state.long_cache.find(piece, size, hash); !ids.empty()) {
    std::memcpy(out.reserve(ids.size()), ids.data(), ids.size_bytes());
    out.advance(ids.size());
    return;
  }
  const size_t before = out.size();
  encode_piece({reinterpret_cast<const char*>(piece), size}, state, out);
  const size_t made = out.size() - before;
  const uint32_t* const ids = out.data() + before;
  if (is_short && made <= PieceCache::kMaxIds) {
    state.cache.insert(key, hash, ids, made);
  } else {
    state.long_cache.insert(piece, size, hash, ids, made);
  }
}

void Encoder::encode_piece(std::string_view piece, State& state, IdBuffer& out) const {
  if (!whole_pieces_.empty()) {
    if (const auto token = whole_pieces_.find(piece); token != whole_pieces_.end()) {
      out.push(token->second);
      return;
    }
  }
  merger_.encode(piece, state.scratch, out);
}

void Encoder::encode_pieces(std::span<const std::string_view> pieces, IdBuffer& out) {
  Lease state(*this);
  for (const std::string_view piece : pieces) {
    if (piece.size() > RankMerger::kMaxPieceBytes) throw std::runtime_error("a piece is beyond the limit of 1 GiB");
    const auto end = static_cast<uint32_t>(piece.size());
    if (end == 0) continue;
    encode_block(reinterpret_cast<const uint8_t*>(piece.data()), 0, {&end, 1}, end, *state, out);
  }
}

void Encoder::encode_cut(std::string_view text, std::span<const uint32_t> ends, IdBuffer& out) {
  Lease state(*this);
  std::vector<uint32_t> block;
  size_t begin = 0;
  for (size_t at = 0; at < ends.size(); at += State::kBlockPieces) {
    block.clear();
    for (const uint32_t end : ends.subspan(at, std::min(State::kBlockPieces, ends.size() - at))) {
      const size_t before = begin + (block.empty() ? 0 : block.back());
      if (end <= before || end > text.size()) throw std::invalid_argument("encode_cut: ends must rise within the text");
      if (end - before > RankMerger::kMaxPieceBytes) throw std::runtime_error("a piece is beyond the limit of 1 GiB");
      block.push_back(static_cast<uint32_t>(end - begin));
    }
    encode_block(reinterpret_cast<const uint8_t*>(text.data()) + begin, 0, block, text.size() - begin, *state, out);
    begin += block.back();
  }
}

void Encoder::merge_only(std::string_view bytes, IdBuffer& out) {
  Lease state(*this);
  merger_.encode(bytes, (*state).scratch, out);
}

}  // namespace bpe
