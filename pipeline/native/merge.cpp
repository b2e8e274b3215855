#include "merge.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <queue>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>

namespace bpe {
namespace {

std::array<std::uint8_t, 256> gpt2_order() {
  std::array<std::uint8_t, 256> order{};
  std::size_t next = 0;
  const auto printable = [](unsigned byte) {
    return (byte >= 33 && byte <= 126) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
  };
  for (const bool wanted : {true, false})
    for (unsigned byte = 0; byte < 256; ++byte)
      if (printable(byte) == wanted) order[next++] = static_cast<std::uint8_t>(byte);
  return order;
}

struct Word {
  std::vector<std::uint32_t> ids;
  std::uint64_t count;
};

struct Pair {
  std::uint64_t count = 0;
  std::vector<std::uint32_t> words;
};

struct Candidate {
  std::uint64_t count;
  std::uint32_t left, right;
};

}  // namespace

std::uint8_t byte_of_id(unsigned id) {
  static const auto order = gpt2_order();
  return order[id];
}

void MergeEngine::add(PieceBatch batch) {
  if (used_) throw std::invalid_argument("pieces cannot be added after run()");
  const auto& [offsets, data, counts, owner] = batch;
  if (offsets.size() != counts.size() + 1)
    throw std::invalid_argument("offsets must hold one number more than counts: " +
                                std::to_string(offsets.size()) + " and " + std::to_string(counts.size()));
  if (offsets.front() < 0) throw std::invalid_argument("the first offset is negative");
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (offsets[i + 1] < offsets[i])
      throw std::invalid_argument("offsets decrease at piece " + std::to_string(i));
  if (static_cast<std::uint64_t>(offsets.back()) > data.size())
    throw std::invalid_argument("the last offset lies beyond the data");
  batches_.push_back(std::move(batch));
}

MergeResult MergeEngine::run(const MergeOptions& options, const MergePoll& poll) {
  if (used_) throw std::invalid_argument("run() can be called once");
  if (options.min_frequency == 0) throw std::invalid_argument("min_frequency must be at least 1");
  if (options.threads == 0) throw std::invalid_argument("threads must be at least 1");
  if (options.narrow_symbols > 65536) throw std::invalid_argument("narrow_symbols must be at most 65536");
  used_ = true;
  std::array<std::uint8_t, 256> id_of{};
  for (unsigned id = 0; id < 256; ++id) id_of[byte_of_id(id)] = static_cast<std::uint8_t>(id);

  std::vector<Word> words;
  unsigned __int128 corpus_bytes = 0;
  for (const auto& batch : batches_)
    for (std::size_t i = 0; i < batch.counts.size(); ++i) {
      if (batch.counts[i] == 0) continue;
      Word word{{}, batch.counts[i]};
      corpus_bytes += static_cast<unsigned __int128>(batch.counts[i]) *
                      static_cast<std::uint64_t>(batch.offsets[i + 1] - batch.offsets[i]);
      if (corpus_bytes >> 63 != 0) throw std::overflow_error("the corpus holds 2^63 bytes or more");
      for (auto at = batch.offsets[i]; at < batch.offsets[i + 1]; ++at)
        word.ids.push_back(id_of[batch.data[static_cast<std::size_t>(at)]]);
      words.push_back(std::move(word));
    }
  batches_.clear();

  std::vector<std::vector<std::uint8_t>> bytes;
  for (unsigned id = 0; id < 256; ++id) bytes.push_back({byte_of_id(id)});
  const auto key = [](std::uint32_t left, std::uint32_t right) {
    return (static_cast<std::uint64_t>(left) << 32) | right;
  };
  std::unordered_map<std::uint64_t, Pair> pairs;
  const auto worse = [&](const Candidate& a, const Candidate& b) {
    if (a.count != b.count) return a.count < b.count;
    if (options.tie_break == TieBreak::lowest_ids)
      return std::pair(a.left, a.right) > std::pair(b.left, b.right);
    return std::tie(bytes[a.left], bytes[a.right]) < std::tie(bytes[b.left], bytes[b.right]);
  };
  std::priority_queue<Candidate, std::vector<Candidate>, decltype(worse)> queue(worse);
  const auto count_word = [&](std::uint32_t w, bool add) {
    const auto& word = words[w];
    for (std::size_t i = 0; i + 1 < word.ids.size(); ++i) {
      if (bytes[word.ids[i]].size() + bytes[word.ids[i + 1]].size() > options.max_token_bytes) continue;
      auto& pair = pairs[key(word.ids[i], word.ids[i + 1])];
      if (!add) {
        pair.count -= word.count;
        continue;
      }
      pair.count += word.count;
      if (pair.words.empty() || pair.words.back() != w) pair.words.push_back(w);
    }
  };
  MergeResult result;
  auto polled = std::chrono::steady_clock::now();
  const auto poll_now_and_then = [&] {
    const auto now = std::chrono::steady_clock::now();
    if (now - polled < std::chrono::milliseconds(50)) return;
    poll({result.counts.size(), options.max_merges, result.counts.empty() ? 0 : result.counts.back()});
    polled = now;
  };
  for (std::uint32_t w = 0; w < words.size(); ++w) {
    count_word(w, true);
    poll_now_and_then();
  }
  for (const auto& [pair, state] : pairs)
    queue.push({state.count, static_cast<std::uint32_t>(pair >> 32), static_cast<std::uint32_t>(pair)});

  result.stop = StopReason::min_frequency;
  while (true) {
    if (result.counts.size() == options.max_merges) {
      result.stop = StopReason::limit;
      break;
    }
    if (queue.empty()) break;
    auto best = queue.top();
    queue.pop();
    const auto current = pairs[key(best.left, best.right)].count;
    if (current != best.count) {
      best.count = current;
      if (current != 0) queue.push(best);
      continue;
    }
    if (best.count < std::max<std::uint64_t>(options.min_frequency, 1)) break;
    const auto id = static_cast<std::uint32_t>(bytes.size());
    auto joined = bytes[best.left];
    joined.insert(joined.end(), bytes[best.right].begin(), bytes[best.right].end());
    bytes.push_back(std::move(joined));
    result.left.push_back(best.left);
    result.right.push_back(best.right);
    result.counts.push_back(best.count);
    const auto places = std::move(pairs[key(best.left, best.right)].words);
    std::vector<std::uint64_t> fresh;
    for (const auto w : places) {
      count_word(w, false);
      auto& ids = words[w].ids;
      std::size_t out = 0;
      for (std::size_t i = 0; i < ids.size(); ++out) {
        const bool here = i + 1 < ids.size() && ids[i] == best.left && ids[i + 1] == best.right;
        ids[out] = here ? id : ids[i];
        i += here ? 2 : 1;
      }
      ids.resize(out);
      count_word(w, true);
      for (std::size_t i = 0; i + 1 < ids.size(); ++i)
        if (ids[i] == id || ids[i + 1] == id) fresh.push_back(key(ids[i], ids[i + 1]));
      poll_now_and_then();
    }
    std::sort(fresh.begin(), fresh.end());
    fresh.erase(std::unique(fresh.begin(), fresh.end()), fresh.end());
    for (const auto pair : fresh)
      queue.push({pairs[pair].count, static_cast<std::uint32_t>(pair >> 32), static_cast<std::uint32_t>(pair)});
  }
  return result;
}

}  // namespace bpe
