// Documents of token ids put into another order, in two passes, and a hash of their content.
//
// Idea: an external distribution sort. `Dealer` gives each document a key and groups the documents of a run by the
// bucket that the key falls into; `in_order` sorts the documents of one bucket, taken from all runs in the order of the
// corpus. Keys do not depend on the buckets, so neither does the order. A document may come in parts: they have the
// same key, and the sort is stable, so they stay together. Ids are moved as bytes, `width` (2 or 4) for each.
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

// The order of a corpus. key: of the shuffle, if it is one; documents: in all; held_out: hashes below it are
// validation's.
struct Selection {
  bool shuffled;
  uint64_t key, documents, held_out;
};

class Dealer {
 public:
  static constexpr uint64_t kEnded = uint64_t{1} << 63;  // of an entry's second word; the rest is its number of ids
  struct Dealt {
    std::vector<uint64_t> words;  // of each bucket: pairs of key and size
    std::vector<uint8_t> ids;     // of each bucket
    std::vector<uint64_t> table;  // of each bucket: entries, ids, those of `words` and `ids`
  };

  // expected: ids until `take`, whose memory is touched once
  Dealer(size_t width, Selection selection, size_t buckets, size_t validation_buckets, size_t expected)
      : width_(width), selection_(selection), buckets_(buckets), validation_(validation_buckets) {
    if (!buckets || !validation_buckets || !selection.documents)
      throw std::invalid_argument("buckets and documents must be at least 1");
    ids_.reserve(expected * width);
  }

  // A block whose first document has this number; hashes: one for each document in the block, if some are held out.
  void add(std::span<const uint8_t> ids, std::span<const uint64_t> ends, uint64_t first,
           std::span<const uint64_t> hashes, uint64_t number) {
    const size_t base = ids_.size();
    size_t index = 0;
    each_document(ids.size() / width_, ends, first, [&](size_t start, size_t stop, bool ended) {
      if (selection_.held_out && index >= hashes.size()) throw std::invalid_argument("a document has no hash");
      const bool held_out = selection_.held_out && hashes[index] < selection_.held_out;
      const uint64_t key = key_of(number + index++);
      const size_t bucket = held_out ? buckets_ + scale_hash(key, validation_) : scale_hash(key, buckets_);
      entries_.push_back({key, (stop - start) | (ended ? kEnded : 0), base + start * width_, bucket});
    });
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }

  size_t bytes() const { return 2 * ids_.size() + 2 * entries_.size() * sizeof(Entry); }

  // Everything since the last call, grouped by bucket.
  Dealt take() {
    const size_t count = buckets_ + validation_;
    Dealt dealt;
    dealt.table.assign(2 * count, 0);
    for (const Entry& entry : entries_) {
      ++dealt.table[2 * entry.bucket];
      dealt.table[2 * entry.bucket + 1] += entry.size & ~kEnded;
    }
    std::vector<size_t> word(count), id(count);
    for (size_t bucket = 1; bucket < count; ++bucket) {
      word[bucket] = word[bucket - 1] + 2 * dealt.table[2 * bucket - 2];
      id[bucket] = id[bucket - 1] + dealt.table[2 * bucket - 1] * width_;
    }
    dealt.words.resize(2 * entries_.size());
    dealt.ids.resize(ids_.size());
    for (const Entry& entry : entries_) {
      dealt.words[word[entry.bucket]++] = entry.key;
      dealt.words[word[entry.bucket]++] = entry.size;
      const size_t size = (entry.size & ~kEnded) * width_;
      std::copy_n(ids_.data() + entry.start, size, dealt.ids.data() + id[entry.bucket]);
      id[entry.bucket] += size;
    }
    entries_.clear();
    ids_.clear();
    return dealt;
  }

 private:
  struct Entry {
    uint64_t key, size;
    size_t start, bucket;
  };

  uint64_t key_of(uint64_t number) const {
    if (selection_.shuffled) return mixed(selection_.key, number);
    return static_cast<uint64_t>((static_cast<detail::uint128>(number) << 64) / selection_.documents);
  }

  size_t width_;
  Selection selection_;
  size_t buckets_, validation_;
  std::vector<uint8_t> ids_;
  std::vector<Entry> entries_;
};

// The numbers of the entries of one bucket in their order.
inline std::vector<uint64_t> order_of(std::span<const uint64_t> words) {
  std::vector<uint64_t> order(words.size() / 2);
  std::iota(order.begin(), order.end(), uint64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](uint64_t one, uint64_t other) { return words[2 * one] < words[2 * other]; });
  return order;
}

// The ids of one bucket in order, and where documents end among them. runs: the ids; no entry is of two runs.
inline std::pair<std::vector<uint8_t>, std::vector<uint64_t>> in_order(
    std::span<const uint64_t> words, const std::vector<std::span<const uint8_t>>& runs, size_t width) {
  const auto bytes_of = [&](size_t entry) { return (words[2 * entry + 1] & ~Dealer::kEnded) * width; };
  std::vector<const uint8_t*> starts(words.size() / 2);
  size_t run = 0, used = 0, total = 0;
  const auto all_used = [&] {
    while (run < runs.size() && used == runs[run].size()) ++run, used = 0;
    return run == runs.size();
  };
  for (size_t entry = 0; entry < starts.size(); ++entry) {
    const size_t size = bytes_of(entry);
    if (size == 0) continue;
    if (all_used() || size > runs[run].size() - used) throw std::invalid_argument("the entries are of other ids");
    starts[entry] = runs[run].data() + used;
    used += size;
    total += size;
  }
  if (!all_used()) throw std::invalid_argument("the entries are of other ids");
  std::vector<uint8_t> sorted;
  std::vector<uint64_t> ends;
  sorted.reserve(total);
  for (const uint64_t next : order_of(words)) {
    sorted.insert(sorted.end(), starts[next], starts[next] + bytes_of(next));
    if (words[2 * next + 1] & Dealer::kEnded) ends.push_back(sorted.size() / width);
  }
  return {std::move(sorted), std::move(ends)};
}

}  // namespace bpe
