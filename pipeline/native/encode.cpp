#include "encode.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include "utf8.hpp"

namespace bpe {

namespace {

constexpr size_t kBlockPieces = 256;
constexpr size_t kWindowBytes = RankMerger::kMaxPieceBytes + (size_t{1} << 20);
constexpr size_t kMaxStates = 8;  // threads that keep a full cache; more of them make do with a tiny one

}  // namespace

struct Encoder::State {
  explicit State(size_t cache_bytes) : cache(cache_bytes) {}
  PieceCache cache;
  RankMerger::Scratch scratch;
  std::array<uint32_t, kBlockPieces> ends;
  std::array<PieceCache::Key, kBlockPieces> keys;
  std::array<size_t, kBlockPieces> places;
};

class Encoder::Lease {
 public:
  explicit Lease(Encoder& encoder) : encoder_(encoder) {
    {
      const std::lock_guard lock(encoder.mutex_);
      if (!encoder.idle_.empty()) {
        state_ = std::move(encoder.idle_.back());
        encoder.idle_.pop_back();
        return;
      }
      pooled_ = encoder.states_ < kMaxStates;
      if (pooled_) ++encoder.states_;
    }
    try {
      state_ = std::make_unique<State>(pooled_ ? encoder.state_cache_bytes_ : 0);
    } catch (...) {
      give_back();
      throw;
    }
  }
  // A state that saw an exception may hold half-done work and is not used again.
  ~Lease() {
    if (std::uncaught_exceptions() > 0) state_.reset();
    give_back();
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  State& operator*() { return *state_; }

 private:
  void give_back() {
    if (!pooled_) return;
    const std::lock_guard lock(encoder_.mutex_);
    if (state_) {
      encoder_.idle_.push_back(std::move(state_));
    } else {
      --encoder_.states_;
    }
  }
  Encoder& encoder_;
  std::unique_ptr<State> state_;
  bool pooled_ = true;
};

Encoder::Encoder(const Automaton* automaton, std::span<const Token> tokens, std::span<const Merge> merges,
                 bool whole_pieces, size_t cache_bytes)
    : automaton_(automaton), merger_(tokens, merges), state_cache_bytes_(cache_bytes / kMaxStates) {
  idle_.reserve(kMaxStates);
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
  if (!automaton_) throw std::logic_error("this pattern has no automaton: cut the text and encode the pieces");
  Lease state(*this);
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  size_t begin = 0;
  while (specials && !specials->empty()) {
    const SpecialTokens::Match match = specials->find(bytes, begin, text.size());
    if (match.start == SpecialTokens::npos) break;
    encode_document(text, begin, match.start, *state, out);
    out.push(special_ids[match.index]);
    begin = match.end;
  }
  encode_document(text, begin, text.size(), *state, out);
}

void Encoder::encode_document(std::string_view text, size_t begin, size_t end, State& state, IdBuffer& out) const {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  while (begin < end) {
    // Offsets of pieces are 32 bit and relative to `begin`: a larger document is cut window by window.
    const bool whole = end - begin <= kWindowBytes;
    const size_t window = whole ? end - begin : character_start(bytes, begin + kWindowBytes, end) - begin;
    size_t count = 0;
    const size_t taken =
        automaton_->cut(bytes + begin, 0, window, whole, state.ends.data(), kBlockPieces, &count);
    if (count == 0) {
      throw std::runtime_error("a piece of more than " + std::to_string(window) + " bytes is beyond the limit of 1 GiB");
    }
    encode_block(bytes + begin, {state.ends.data(), count}, text.size() - begin, state, out);
    begin += taken;
  }
}

void Encoder::encode_block(const uint8_t* text, std::span<const uint32_t> ends, size_t readable, State& state,
                           IdBuffer& out) const {
  size_t begin = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    const size_t size = ends[i] - begin;
    if (size <= PieceCache::kMaxBytes) {
      state.keys[i] = begin + 16 <= readable ? PieceCache::key_with_room(text + begin, size)
                                             : PieceCache::key(text + begin, size);
      state.places[i] = state.cache.place(state.keys[i]);
      state.cache.prefetch(state.places[i]);
    }
    begin = ends[i];
  }
  begin = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    const std::string_view piece(reinterpret_cast<const char*>(text) + begin, ends[i] - begin);
    begin = ends[i];
    if (piece.size() > PieceCache::kMaxBytes) {
      encode_piece(piece, state, out);
      continue;
    }
    if (const auto* entry = state.cache.find(state.keys[i], state.places[i])) {
      std::memcpy(out.reserve(PieceCache::kMaxIds), entry->ids, sizeof(entry->ids));
      out.advance(entry->count());
      continue;
    }
    const size_t before = out.size();
    encode_piece(piece, state, out);
    const size_t made = out.size() - before;
    if (made <= PieceCache::kMaxIds) {
      state.cache.insert(state.keys[i], state.places[i], out.data() + before, made);
    }
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
    encode_block(reinterpret_cast<const uint8_t*>(piece.data()), {&end, 1}, end, *state, out);
  }
}

void Encoder::encode_cut(std::string_view text, std::span<const uint32_t> ends, IdBuffer& out) {
  Lease state(*this);
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
    encode_block(reinterpret_cast<const uint8_t*>(text.data()) + begin, block, text.size() - begin, *state, out);
    begin += block.back();
  }
}

void Encoder::merge_only(std::string_view bytes, IdBuffer& out) {
  Lease state(*this);
  merger_.encode(bytes, (*state).scratch, out);
}

}  // namespace bpe
