// How tokens lie in the slots of a shard, for each width of these: reading and joining them in place.
//
// Invariant: tokens are spans: `span` slots, a property of the symbol that is the same everywhere, since a token is
// always made of the same two. Both neighbours of a token are found without links: the right one starts where the span
// ends, the left one ends in the slot before.
//
// Slots of two or four bytes: a token of several slots has its symbol in the first, the symbol with the tail bit in the
// last, and holes between, which have the tail bit too. Compaction keeps the slots without tail bit: one a token.
//
// Slots of one byte, for text whose first tokens are made: UTF-8 never has thirteen of the byte values (RFC 3629). One
// is the boundary, one a hole, and the others say that a token has several slots: with a head and the low part of its
// number in the first two, and, from three slots on, the low part and a tail in the last two. Compaction keeps the first
// two. A slot that reads like a byte is one unless it is a low part: the slot before is a head then, or that after a tail.
#pragma once
#include <cstring>

#include "count/hash.hpp"
#include "merge/sketch.hpp"
#include "merge/tokens.hpp"

namespace bpe::merge {

using Position = uint32_t;
inline constexpr Position kMostAtOnce = 514;  // slots that are looked at together

template <class S>
inline constexpr S kTail = S{1} << (8 * sizeof(S) - 1);
template <class S>
inline constexpr S kHole = std::numeric_limits<S>::max();

template <class S>
struct Slots {
  static constexpr S kEnd = static_cast<S>(kBoundary);              // of a word
  static constexpr Position kFirst = 1;                             // where words begin, after the end of none
  static constexpr Symbol kEndSymbol = kTail<S> - (sizeof(S) > 2);  // the first one that does not fit

  static Position span(Symbol) { return 1; }  // after compaction
  // Whether a token or a boundary starts in a slot, and which one; the one that ends before a slot.
  static bool starts(const S* at) { return *at < kTail<S>; }
  static Symbol starting(const S* at) { return *at; }
  static Symbol ending(const S* end) { return end[-1] & ~kTail<S>; }
  // Where a block may end, at or after `end`.
  static Position whole(const S*, Position end) { return end; }
  // Makes what follows the last word harmless to look at.
  static void close(S*, Position) {}
  // The tokens of some slots, one after the other, with the one before them.
  class Block {
   public:
    // Closes the gaps of slots[in, end), if there are any, towards slots[out...]; returns the new end of what is kept.
    Position read(S* slots, Position in, Position end, Position out, bool gaps) {
      slots_ = slots;
      begin_ = out;
      if (!gaps) return end_ = end;
      for (; in < end; ++in) {
        const S symbol = slots[in];
        slots[out] = symbol;
        out += symbol < kTail<S>;
      }
      return end_ = out;
    }
    // Writes the pairs that pass, as numbers of this block; returns how many there are.
    template <class Passes>
    size_t pairs(const Passes& passes, Position* found) const {
      size_t n = 0;
      auto left = Sketch::product(slots_[begin_ - 1]);
      for (Position i = begin_; i < end_; ++i) {
        const auto right = Sketch::product(slots_[i]);
        found[n] = i - 1;
        n += passes((left << 32) + right);
        left = right;
      }
      return n;
    }
    // Calls visit(token) for each.
    template <class Visit>
    void each(Visit&& visit) const {
      for (Position i = begin_; i < end_; ++i) visit(Symbol{slots_[i]});
    }
    Position position(Position pair) const { return pair; }
    PairKey key(Position pair) const { return key_of(slots_[pair], slots_[pair + 1]); }

   private:
    const S* slots_;
    Position begin_, end_;
  };

  // Joins one pair, wherever it occurs.
  class Joiner {
   public:
    Joiner(Symbol left, Symbol right, Symbol made, Position left_span, Position right_span)
        : left_(static_cast<S>(left)),
          right_(static_cast<S>(right)),
          made_(static_cast<S>(made)),
          second_(left_span),
          last_(left_span + right_span - 1) {}
    // Whether the pair, which once started at `at`, still does.
    bool occurs(const S* at) const { return at[0] == left_ && at[second_] == right_; }
    void join(S* at) const {
      at[second_ - 1] = kHole<S>;
      at[second_] = kHole<S>;
      at[last_] = made_ | kTail<S>;
      at[0] = made_;
    }

   private:
    S left_, right_, made_;
    Position second_, last_;
  };
};

template <>
struct Slots<uint8_t> {
 private:
  static constexpr unsigned kMarks = 5, kFirstHead = 256 - kMarks, kFirstTail = kFirstHead - kMarks;
  static constexpr unsigned kLowParts = kFirstTail;
  static constexpr uint8_t kGap = 0xC1;
  static_assert(kFirstTail >= 0xF5);
  // By slot: the symbol of a byte or a boundary; of a head or a tail, that of its lowest number.
  static constexpr auto kValues = [] {
    std::array<uint16_t, 256> made{};
    for (unsigned id = 0; id < 256; ++id) made[kByteOfId[id]] = static_cast<uint16_t>(id);
    made[0xC0] = kBoundary;
    for (unsigned mark = 0; mark < kMarks; ++mark)
      made[kFirstHead + mark] = made[kFirstTail + mark] = static_cast<uint16_t>(kFirstMerge + mark * kLowParts);
    return made;
  }();
  static bool is_head(uint8_t slot) { return slot >= kFirstHead; }
  static bool is_tail(uint8_t slot) { return static_cast<uint8_t>(slot - kFirstTail) < kMarks; }
  // All bits where true: what comes next in text cannot be predicted, so it is not branched on.
  static uint32_t mask(bool all) { return 0u - uint32_t{all}; }

 public:
  static constexpr uint8_t kEnd = 0xC0;
  static constexpr Position kFirst = 2;
  static constexpr Symbol kEndSymbol = kFirstMerge + kMarks * kLowParts;

  // Whether a byte of a pre-token can be a slot.
  static bool is_text(uint8_t byte) { return byte < 0xF5 && byte != kEnd && byte != kGap; }

  static Position span(Symbol symbol) { return 1 + (symbol > kBoundary); }
  static bool starts(const uint8_t* at) {
    return !is_head(at[-1]) & !is_tail(at[0]) & !is_tail(at[1]) & (at[0] != kGap);
  }
  static Symbol starting(const uint8_t* at) { return kValues[at[0]] + (at[1] & mask(is_head(at[0]))); }
  static Symbol ending(const uint8_t* end) {
    const Symbol of_two = kValues[end[-2]] + end[-1], other = kValues[end[-1]] + (end[-2] & mask(is_tail(end[-1])));
    return other ^ ((of_two ^ other) & mask(is_head(end[-2])));
  }
  static Position whole(const uint8_t* symbols, Position end) { return end + is_head(symbols[end - 1]); }
  static void close(uint8_t* symbols, Position end) { symbols[end] = kEnd; }

  class Block {
   public:
    // Where tokens start follows, for all slots at once, from each one and its neighbours. Not inlined, since the walk
    // around it would leave it too few registers. Without gaps all slots are kept and none moves: that is no special case.
    [[gnu::noinline]] Position read(uint8_t* slots, Position in, Position end, Position out, bool) {
      const size_t size = end - in;
      std::array<uint8_t, kMostAtOnce + kAtOnce> held;  // with the slot before, no low part starts a block, and after
      held[0] = kEnd;
      std::memcpy(held.data() + 1, slots + in, size + 1);
      tokens_[0] = static_cast<uint16_t>(ending(slots + out));
      begin_ = out - 1 - is_head(slots[out - 2]);
      starts_[0] = 0;
      size_t n = 1;
      for (size_t i = 0; i < size; i += kAtOnce) {
        auto starting = starts_of(held.data() + i + 1);
        if (size - i < kAtOnce) starting &= (uint64_t{1} << (size - i)) - 1;
        if (starting == ~uint64_t{0} && !is_head(held[i + kAtOnce])) {  // as most do before the first merges
          std::memcpy(slots + out, held.data() + i + 1, kAtOnce);
          for (size_t j = 0; j < kAtOnce; ++j) {
            tokens_[n + j] = static_cast<uint16_t>(kValues[held[i + 1 + j]]);
            starts_[n + j] = static_cast<uint16_t>(out - begin_ + j);
          }
          n += kAtOnce;
          out += kAtOnce;
          continue;
        }
        for (; starting != 0; starting &= starting - 1) {
          const uint8_t* const at = held.data() + i + 1 + std::countr_zero(starting);
          const bool head = is_head(at[0]);
          std::memcpy(slots + out, at, 2);  // the second is not read again where it is not kept
          tokens_[n] = static_cast<uint16_t>(kValues[at[0]] + (at[1] & mask(head)));
          starts_[n] = static_cast<uint16_t>(out - begin_);
          ++n;
          out += 1 + Position{head};
        }
      }
      n_ = n;
      return out;
    }
    template <class Passes>
    size_t pairs(const Passes& passes, Position* found) const {
      size_t n = 0;
      auto left = Sketch::product(tokens_[0]);
      for (Position i = 1; i < n_; ++i) {
        const auto right = Sketch::product(tokens_[i]);
        found[n] = i - 1;
        n += passes((left << 32) + right);
        left = right;
      }
      return n;
    }
    template <class Visit>
    void each(Visit&& visit) const {
      for (Position i = 1; i < n_; ++i) visit(Symbol{tokens_[i]});
    }
    Position position(Position pair) const { return begin_ + starts_[pair]; }
    PairKey key(Position pair) const { return key_of(tokens_[pair], tokens_[pair + 1]); }

   private:
    static constexpr size_t kAtOnce = 64;
    // A bit for each of kAtOnce slots: whether a token or a boundary starts there.
    static uint64_t starts_of(const uint8_t* slots) {
      std::array<uint8_t, kAtOnce> flags;
      for (size_t i = 0; i < kAtOnce; ++i) flags[i] = starts(slots + i);
      uint64_t bits = 0;
      for (size_t i = 0; i < kAtOnce; i += 8) bits |= (load64(flags.data() + i) * 0x0102040810204080u >> 56) << i;
      return bits;
    }
    std::array<uint16_t, kMostAtOnce> tokens_, starts_;
    Position begin_, n_ = 0;
  };

  class Joiner {
   public:
    Joiner(Symbol left, Symbol right, Symbol made, Position left_span, Position right_span)
        : second_(left_span), size_(left_span + right_span), after_low_(left < kBoundary) {
      uint8_t before[kWide]{}, marked[kWide]{}, after[kWide]{};
      if (size_ <= kWide) {
        write(before, left, left_span);
        write(before + left_span, right, right_span);
        write(after, made, size_);
        std::memset(marked, 0xFF, size_);
        std::memcpy(&before_, before, kWide);
        std::memcpy(&marked_, marked, kWide);
        std::memcpy(&after_, after, kWide);
      } else {
        write(left_, left, std::min(left_span, 2u));
        write(right_, right, std::min(right_span, 2u));
        write(made_, made, 2);
        left_size_ = std::min(left_span, 2u);
        right_size_ = std::min(right_span, 2u);
      }
    }
    bool occurs(const uint8_t* at) const {
      if (size_ > kWide) [[unlikely]]
        return occurs_far(at);
      uint64_t found;
      std::memcpy(&found, at, sizeof found);
      return (found & marked_) == before_ && !(after_low_ && is_head(at[-1]));
    }
    void join(uint8_t* at) const {
      if (size_ > kWide) [[unlikely]]
        return join_far(at);
      uint64_t found;
      std::memcpy(&found, at, sizeof found);
      found = (found & ~marked_) | after_;
      std::memcpy(at, &found, sizeof found);
    }

   private:
    static constexpr Position kWide = 8;
    // A token as it lies in that many slots; of one that is longer, only its first two.
    static void write(uint8_t* at, Symbol symbol, Position span) {
      if (symbol < kBoundary) {
        at[0] = byte_of_id(symbol);
        return;
      }
      const auto number = symbol - kFirstMerge;
      const auto low = static_cast<uint8_t>(number % kLowParts);
      std::memset(at, kGap, span);
      at[0] = static_cast<uint8_t>(kFirstHead + number / kLowParts);
      at[1] = low;
      if (span == 2) return;
      at[span - 2] = low;
      at[span - 1] = static_cast<uint8_t>(kFirstTail + number / kLowParts);
    }
    bool occurs_far(const uint8_t* at) const {
      return std::memcmp(at, left_, left_size_) == 0 && std::memcmp(at + second_, right_, right_size_) == 0 &&
             !(after_low_ && is_head(at[-1]));
    }
    void join_far(uint8_t* at) const {
      const auto from = second_ > 4 ? second_ - 2 : 2;
      const auto to = std::min(second_ + 2, size_ - 2);
      if (from < to) std::memset(at + from, kGap, to - from);
      at[0] = made_[0];
      at[1] = at[size_ - 2] = made_[1];
      at[size_ - 1] = static_cast<uint8_t>(made_[0] - kMarks);
    }
    Position second_, size_;
    bool after_low_;  // where a low part may look like the left token
    uint64_t before_ = 0, marked_ = 0, after_ = 0;
    uint8_t left_[2]{}, right_[2]{}, made_[2]{};
    Position left_size_ = 0, right_size_ = 0;
  };
};

}  // namespace bpe::merge
