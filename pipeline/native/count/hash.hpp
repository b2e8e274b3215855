// hash64: the 64-bit hash of a pre-token, which never changes, because counters are stored in its order.
//
// Idea: folded multiplication (multiply two 64-bit words to 128 bits, xor the halves), the construction of Wang Yi's
// wyhash and its relatives, with constants of our own. Bytes are read as little-endian words on every machine, so
// x86-64 and ARM64 agree. A pre-token of at most 15 bytes is one `Key`: its bytes padded with zeros and its length in the
// last byte. A Key is what a table slot stores, so hashing a slot again needs nothing but the slot. The cache of
// frequent pre-tokens stores a pre-token of up to 7 bytes as one word; a weaker hash is enough there.
// Cost: two multiplications for a short pre-token, one more per 16 bytes for a long one. Not meant to resist an attacker.
#pragma once
#include "text/base.hpp"

namespace bpe {

inline constexpr size_t kInlineBytes = 15;  // the longest pre-token that fits in a Key

struct Key {
  uint64_t low, high;  // high's top byte is the length
};

inline uint64_t load64(const uint8_t* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
  return word;
}

inline void store64(uint8_t* bytes, uint64_t word) {
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
  std::memcpy(bytes, &word, sizeof word);
}

namespace detail {
// The bytes of a key that a pre-token of each size fills; a table, because shifting by 64 needs a branch.
inline constexpr std::array<Key, 17> kKeyMasks = [] {
  std::array<Key, 17> masks{};  // the last one is of any longer pre-token
  for (size_t size = 0; size < 16; ++size) {
    masks[size].low = size >= 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * size) - 1;
    masks[size].high = size >= 8 ? (uint64_t{1} << (8 * size - 64)) - 1 : 0;
  }
  return masks;
}();
}  // namespace detail

// The Key of `size` <= 15 bytes, or of 16 for any longer pre-token; 16 bytes must be readable at `pre_token`.
inline Key key_of_padded(const uint8_t* pre_token, size_t size) {
  const Key& mask = detail::kKeyMasks[size];
  return {load64(pre_token) & mask.low, (load64(pre_token + 8) & mask.high) | uint64_t{size} << 56};
}

inline Key key_of(const uint8_t* pre_token, size_t size) {
  uint8_t padded[16] = {};
  std::memcpy(padded, pre_token, size);
  return key_of_padded(padded, size);
}

namespace detail {
__extension__ typedef unsigned __int128 uint128;
inline constexpr uint64_t kSeed0 = 0x9e6c63d0876a9a47, kSeed1 = 0xd1b54a32d192ed03, kSeed2 = 0x8cb92ba72f3d8dd7;

inline uint64_t fold(uint64_t a, uint64_t b) {
  const uint128 product = static_cast<uint128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t finish(uint64_t a, uint64_t b) {
  const uint128 product = static_cast<uint128>(a ^ kSeed1) * (b ^ kSeed2);
  return fold(static_cast<uint64_t>(product) ^ kSeed0, static_cast<uint64_t>(product >> 64) ^ kSeed1);
}
}  // namespace detail

inline uint64_t hash_key(Key key) { return detail::finish(key.low, key.high); }

inline uint64_t hash_long(const uint8_t* pre_token, size_t size) {
  uint64_t state = detail::kSeed0 ^ size;
  const uint8_t* last = pre_token + size - 16;
  for (; pre_token < last; pre_token += 16)
    state = detail::fold(load64(pre_token) ^ detail::kSeed1, load64(pre_token + 8) ^ state);
  return detail::finish(load64(last) ^ state, load64(last + 8) ^ detail::kSeed0);
}

inline uint64_t hash64(const uint8_t* pre_token, size_t size) {
  return size <= kInlineBytes ? hash_key(key_of(pre_token, size)) : hash_long(pre_token, size);
}

inline constexpr size_t kHotBytes = 7, kHotSlots = size_t{1} << 13;

// The bytes and the length of a pre-token of at most kHotBytes, of its first 8 bytes; of a longer one, anything.
inline uint64_t hot_word(uint64_t beginning, size_t size) {
  return (beginning & ((uint64_t{1} << (8 * size & 63)) - 1)) | uint64_t{size} << 56;
}

inline constexpr uint64_t kHotFactor = 0x9e6c63d0876a9a47;
inline constexpr unsigned kHotShift = 51;
inline size_t hot_slot(uint64_t word) { return (word * kHotFactor) >> kHotShift; }

// Scales a hash to [0, count) so that a greater hash never gets a smaller number.
inline uint64_t scale_hash(uint64_t hash, uint64_t count) {
  return static_cast<uint64_t>(static_cast<detail::uint128>(hash) * count >> 64);
}

}  // namespace bpe
