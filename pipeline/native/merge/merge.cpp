#include "merge/merge.hpp"

#include "merge/on_disk.hpp"

namespace bpe {

void MergeEngine::add(const ColumnsView& columns, std::shared_ptr<void> owner) {
  if (used_ || source_) throw std::invalid_argument("pre-tokens cannot be added after run() or together with stream()");
  slots_ += static_cast<uint64_t>(columns.offsets[columns.rows] - columns.offsets[0]) + columns.rows;
  batches_.emplace_back(columns, std::move(owner));
}

void MergeEngine::stream(PreTokenSource source, uint64_t slots) {
  if (used_ || source_ || !batches_.empty())
    throw std::invalid_argument("stream() is called once, without add(), before run()");
  source_ = std::move(source);
  slots_ = slots;
}

void MergeEngine::resume(MergeResult known) {
  const auto merges = known.counts.size();
  if (known.left.size() != merges || known.right.size() != merges || known.joined.size() != merges)
    throw std::invalid_argument("known merges need a left, a right, a count and a number of joins each");
  for (size_t rank = 0; rank < merges; ++rank)
    if (known.left[rank] >= 256 + rank || known.right[rank] >= 256 + rank)
      throw std::invalid_argument("a known merge joins a token that comes after it");
  known_ = std::move(known);
}

MergeResult MergeEngine::run(const MergeOptions& options, const MergePoll& poll, const PhaseEnd& phase_end) {
  if (used_) throw std::invalid_argument("run() can be called once");
  if (options.rules.min_frequency == 0) throw std::invalid_argument("min_frequency must be at least 1");
  if (options.threads == 0) throw std::invalid_argument("threads must be at least 1");
  if (options.narrow_symbols > 65536) throw std::invalid_argument("narrow_symbols must be at most 65536");
  if (options.thread_bytes == 0) throw std::invalid_argument("thread_bytes must be at least 1");
  if (options.resident_bytes != 0 && options.scratch.empty())
    throw std::invalid_argument("resident_bytes needs scratch, a path");
  if (options.resident_bytes != 0 && options.start)
    throw std::invalid_argument("words that start from tokens are all kept in memory");
  if (options.start && !known_.counts.empty()) throw std::invalid_argument("merges that are known start from bytes");
  if (known_.counts.size() > options.max_merges) throw std::invalid_argument("more merges are known than asked for");
  used_ = true;
  MergeOptions chosen = options;
  chosen.threads = static_cast<unsigned>(std::min<uint64_t>(options.threads, 1 + slots_ / options.thread_bytes));
  // The source owns the columns, and is destroyed when they are taken in.
  if (!source_)
    source_ = [batches = std::make_shared<decltype(batches_)>(std::move(batches_))](const auto& take) {
      for (const auto& [columns, owner] : *batches) take(columns);
    };
  auto source = std::exchange(source_, nullptr);
  if (chosen.resident_bytes != 0)
    return merge::OnDisk(chosen, std::move(known_), poll, phase_end, std::move(source)).run();
  return merge::InMemory(chosen, std::move(known_), poll, phase_end, std::move(source), slots_).run();
}

}  // namespace bpe
