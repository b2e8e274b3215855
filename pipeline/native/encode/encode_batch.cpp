#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>

#include "encode/encode_state.hpp"

namespace bpe {

namespace {

constexpr size_t kTurnBytes = 32 << 10;  // what a thread takes at once, and what makes one more thread worth starting

}  // namespace

Encoder::Batch Encoder::encode_batch(std::span<const std::string_view> texts, const SpecialTokens* specials,
                                     std::span<const uint32_t> special_ids, size_t threads) {
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
      Lease state(*this);
      IdBuffer& ids = batch.rows[row];
      for (;;) {
        const size_t from = next.fetch_add(turn);
        if (from >= texts.size()) break;
        for (size_t i = from; i < std::min(from + turn, texts.size()); ++i) {
          const size_t before = ids.size();
          encode_text(texts[i], specials, special_ids, *state, ids, nullptr);
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
      break;  // no more threads to be had: those that run take all texts
    }
  }
  work(0);
  for (std::thread& other : others) other.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return batch;
}

}  // namespace bpe
