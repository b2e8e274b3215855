#include "encode/encode.hpp"

#include <exception>
#include <system_error>
#include <thread>

#include "text/utf8.hpp"

namespace bpe {

namespace {

constexpr size_t kWindowBytes = RankMerger::kMaxPieceBytes + (size_t{1} << 20);
constexpr size_t kLeastStates = 4;
constexpr size_t kTurnBytes = 32 << 10;  // what a thread takes at once, and what makes one more thread worth starting

// Instead of a number of ids: they are in `aside`; the piece is encoded when its turn comes.
constexpr uint8_t kAside = 254, kGiant = 255;

}  // namespace

Encoder::Encoder(const Automaton* automaton, std::span<const Token> tokens, std::span<const Merge> merges,
                 bool whole_pieces, size_t cache_bytes, size_t threads)
    : automaton_(automaton), merger_(tokens, merges),
      pool_(threads ? threads : std::max<size_t>(kLeastStates, std::thread::hardware_concurrency())),
      cache_bytes_(cache_bytes / pool_.size()) {
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
    if (idle) return {reinterpret_cast<State*>(found), Return{&slot, mark}};
    try {
      return {new State(cache_bytes_), Return{&slot, mark}};
    } catch (...) {
      slot.store(0, std::memory_order_relaxed);
      throw;
    }
  }
  return {new State(0), Return{nullptr, 0}};
}

// A state that saw an exception may hold half-done work and is not used again; nor is one whose slot a child has given
// to another.
void Encoder::Return::operator()(State* state) const {
  std::unique_ptr<State> owned(state);
  if (!slot) return;
  uintptr_t leased = mark;
  const bool whole = std::uncaught_exceptions() == 0;
  if (slot->compare_exchange_strong(leased, whole ? reinterpret_cast<uintptr_t>(state) : 0, std::memory_order_release) &&
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
                            IdBuffer& out, size_t* counted) const {
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
                                IdBuffer& out, size_t* counted) const {
  if (!automaton_) throw std::logic_error("this pattern has no automaton: cut the text and encode the pieces");
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  AheadStretch ahead;
  while (begin < end) {
    // Offsets of pieces are 32 bit and relative to `begin`: a larger document is cut window by window.
    const bool whole = end - begin <= kWindowBytes;
    const size_t window = whole ? end - begin : character_start(bytes, begin + kWindowBytes, end) - begin;
    size_t count = 0;
    const size_t taken =
        automaton_->cut(bytes + begin, 0, window, whole && at_end, state.ends.data(), kBlockPieces, &count, ahead);
    if (count == 0) {
      if (whole && !at_end) break;
      throw std::runtime_error("a piece of more than " + std::to_string(window) + " bytes: the limit is 1 GiB");
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
    const uint64_t beginning = readable - start >= 8 ? load64(piece) : key_of(piece, readable - start).low;
    HotIds::Ids ids;
    const size_t hit = state.hot.find(hot_word(beginning, size), size, ids);
    std::memcpy(state.known.data() + known, &ids, sizeof ids);
    state.others[others] = {static_cast<uint32_t>(i), static_cast<uint32_t>(known)};
    others += 1 - hit;
    known += hit + (hit & ids.has_second());
    start = ends[i];
  }
  find_others(text, begin, ends, readable, others, state);
  const size_t needed = known + PieceCache::kMaxIds * others + state.aside.size() + kStride;
  uint32_t* row = out.reserve(needed);
  const uint32_t* first = row;
  const uint32_t* aside = state.aside.data();
  size_t copied = 0;
  const auto copy_known = [&](size_t until) {
    for (size_t at = copied; at < until; at += kStride) {
      std::memcpy(row + (at - copied), state.known.data() + at, kStride * sizeof(uint32_t));
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
      first = row = out.reserve(needed);
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
    const Key key = PieceCache::key_of_any(text + start, size, readable - start);
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

Encoder::Batch Encoder::encode_batch(std::span<const std::string_view> texts, const SpecialTokens* specials,
                                     size_t threads) {
  size_t total = 0;
  for (const std::string_view text : texts) total += text.size();
  threads = std::clamp<size_t>(std::min(texts.size(), total / kTurnBytes), 1, std::max<size_t>(threads, 1));
  const size_t turn = std::clamp<size_t>(kTurnBytes * texts.size() / (total + 1), 1, texts.size() + 1);
  Batch batch;
  batch.rows.resize(threads);
  batch.places.resize(texts.size());
  std::vector<std::exception_ptr> failures(threads);
  std::atomic<size_t> next{0};
  const auto work = [&](size_t row) {
    try {
      const Lease state = lease();
      IdBuffer& ids = batch.rows[row];
      for (;;) {
        const size_t from = next.fetch_add(turn);
        if (from >= texts.size()) break;
        for (size_t i = from; i < std::min(from + turn, texts.size()); ++i) {
          const size_t before = ids.size();
          encode_text(texts[i], specials, true, *state, ids, nullptr);
          batch.places[i] = {row, before, ids.size()};
        }
      }
    } catch (...) {
      failures[row] = std::current_exception();
      next = texts.size();
    }
  };
  std::vector<std::thread> others;
  for (size_t row = 1; row < threads; ++row) {
    try {
      others.emplace_back(work, row);
    } catch (const std::system_error&) {
      break;  // the system allows no more threads: those that run take all texts
    }
  }
  work(0);
  for (std::thread& other : others) other.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return batch;
}

void Encoder::encode_cut(std::string_view text, std::span<const uint32_t> ends, IdBuffer& out) {
  const Lease state = lease();
  std::vector<uint32_t> block;
  size_t begin = 0;
  for (size_t at = 0; at < ends.size(); at += kBlockPieces) {
    block.clear();
    for (const uint32_t end : ends.subspan(at, std::min(kBlockPieces, ends.size() - at))) {
      const size_t before = begin + (block.empty() ? 0 : block.back());
      if (end <= before || end > text.size()) throw std::invalid_argument("encode_cut: ends must rise within the text");
      if (end - before > RankMerger::kMaxPieceBytes) throw std::runtime_error("a piece is beyond the limit of 1 GiB");
      block.push_back(static_cast<uint32_t>(end - begin));
    }
    encode_block(reinterpret_cast<const uint8_t*>(text.data()) + begin, 0, block, text.size() - begin, *state, out);
    begin += block.back();
  }
}

}  // namespace bpe
