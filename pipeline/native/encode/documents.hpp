// Documents of token ids put into another order, and a hash of their content.
//
// Idea: an external distribution sort. Each document has a sort key, which depends on a seed and its number alone. `deal`
// groups documents by the top bits of their keys; `in_order` sorts those of one group. So the order does not depend on
// the groups. An entry is a document, or a stretch of one: its key, and its ids, with the highest bit set where the
// document ends. Stretches have the same key, and the sort is stable, so they stay together. Ids are moved as bytes,
// `width` (2 or 4) for each.
#pragma once
#include <numeric>

#include "count/hash.hpp"

namespace bpe {

inline uint64_t mixed(uint64_t word) { return detail::finish(word, detail::kSeed0); }
inline uint64_t mixed(uint64_t key, uint64_t number) { return detail::finish(mixed(key), number ^ detail::kSeed2); }

// A hash of ids that can be continued and joined: hash(a + b) == hash(a) * kStep ** size(b) + hash(b), modulo 2 ** 64.
template <class Id>
uint64_t content_hash(const uint8_t* ids, size_t count, uint64_t state) {
  constexpr uint64_t kStep = 0xd1342543de82ef95;
  for (size_t i = 0; i < count; ++i) {
    Id id;
    std::memcpy(&id, ids + i * sizeof id, sizeof id);
    state = state * kStep + id + 1;
  }
  return state;
}

// Calls visit(start, stop, ended) for each document, or part of one, of a block; ends are positions in the block.
template <class Visit>
void each_document(size_t ids, std::span<const uint64_t> ends, uint64_t first, Visit visit) {
  size_t start = 0;
  for (const uint64_t end : ends) {
    const size_t stop = end - first;
    if (end < first || stop < start || stop > ids)
      throw std::invalid_argument("ends must be in order and in the block");
    visit(start, stop, true);
    start = stop;
  }
  if (start < ids) visit(start, ids, false);
}

// A hash of each document that ends in a block; `state` goes from one block to the next.
inline std::vector<uint64_t> hash_documents(std::span<const uint8_t> ids, std::span<const uint64_t> ends, size_t width,
                                            uint64_t first, uint64_t& state) {
  std::vector<uint64_t> hashes;
  const auto hash = width == 2 ? content_hash<uint16_t> : content_hash<uint32_t>;
  each_document(ids.size() / width, ends, first, [&](size_t start, size_t stop, bool ended) {
    state = hash(ids.data() + start * width, stop - start, state);
    if (ended) hashes.push_back(mixed(std::exchange(state, 0)));
  });
  return hashes;
}

constexpr uint64_t kEnded = uint64_t{1} << 63;  // of the second word of an entry; the rest is its number of ids

// The entries of a block, two words each; `number` is that of its first document.
inline std::vector<uint64_t> entries_of(size_t ids, std::span<const uint64_t> ends, uint64_t first, uint64_t seed,
                                        uint64_t number) {
  std::vector<uint64_t> words;
  words.reserve(2 * ends.size() + 2);
  each_document(ids, ends, first, [&](size_t start, size_t stop, bool ended) {
    words.push_back(mixed(seed, number));
    words.push_back((stop - start) | (ended ? kEnded : 0));
    number += ended;
  });
  return words;
}

// Where the ids of each entry start; they are all of these ids.
inline std::vector<const uint8_t*> starts_of(std::span<const uint8_t> ids, std::span<const uint64_t> words,
                                             size_t width) {
  std::vector<const uint8_t*> starts(words.size() / 2);
  size_t used = 0;
  for (size_t entry = 0; entry < starts.size(); ++entry) {
    const size_t size = words[2 * entry + 1] & ~kEnded;
    if (size > (ids.size() - used) / width) throw std::invalid_argument("the entries are of other ids");
    starts[entry] = ids.data() + used;
    used += size * width;
  }
  if (used != ids.size()) throw std::invalid_argument("the entries are of other ids");
  return starts;
}

struct Dealt {
  std::vector<uint64_t> words;  // of each bucket: its entries
  std::vector<uint8_t> ids;     // of each bucket
  std::vector<uint64_t> sizes;  // of each bucket: its entries, and its ids
};

// The entries of a block by bucket: by the `bits` bits of their keys that follow the first `skip`.
inline Dealt deal(std::span<const uint8_t> ids, std::span<const uint64_t> words, size_t width, unsigned skip,
                  unsigned bits) {
  if (!bits || skip + bits > 64) throw std::invalid_argument("a key has 64 bits");
  const auto starts = starts_of(ids, words, width);
  const auto bucket_of = [&](size_t entry) { return (words[2 * entry] << skip) >> (64 - bits); };
  const size_t count = size_t{1} << bits;
  Dealt dealt{std::vector<uint64_t>(words.size()), std::vector<uint8_t>(ids.size()), std::vector<uint64_t>(2 * count)};
  for (size_t entry = 0; entry < starts.size(); ++entry) {
    ++dealt.sizes[2 * bucket_of(entry)];
    dealt.sizes[2 * bucket_of(entry) + 1] += words[2 * entry + 1] & ~kEnded;
  }
  std::vector<size_t> word(count), id(count);
  for (size_t bucket = 1; bucket < count; ++bucket) {
    word[bucket] = word[bucket - 1] + 2 * dealt.sizes[2 * bucket - 2];
    id[bucket] = id[bucket - 1] + dealt.sizes[2 * bucket - 1] * width;
  }
  for (size_t entry = 0; entry < starts.size(); ++entry) {
    const size_t bucket = bucket_of(entry), size = (words[2 * entry + 1] & ~kEnded) * width;
    dealt.words[word[bucket]++] = words[2 * entry];
    dealt.words[word[bucket]++] = words[2 * entry + 1];
    std::copy_n(starts[entry], size, dealt.ids.data() + id[bucket]);
    id[bucket] += size;
  }
  return dealt;
}

// The ids of entries in the order of their keys, and where documents end among them.
inline std::pair<std::vector<uint8_t>, std::vector<uint64_t>> in_order(std::span<const uint8_t> ids,
                                                                       std::span<const uint64_t> words, size_t width) {
  const auto starts = starts_of(ids, words, width);
  std::vector<uint64_t> order(starts.size());
  std::iota(order.begin(), order.end(), uint64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](uint64_t one, uint64_t other) { return words[2 * one] < words[2 * other]; });
  std::vector<uint8_t> sorted;
  std::vector<uint64_t> ends;
  sorted.reserve(ids.size());
  for (const uint64_t next : order) {
    const uint64_t size = words[2 * next + 1];
    sorted.insert(sorted.end(), starts[next], starts[next] + (size & ~kEnded) * width);
    if (size & kEnded) ends.push_back(sorted.size() / width);
  }
  return {std::move(sorted), std::move(ends)};
}

}  // namespace bpe
