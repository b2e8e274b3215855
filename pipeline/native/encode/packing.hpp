// Documents packed into rows of a fixed number of tokens.
//
// Best fit decreasing: a document longer than a row is cut into pieces of that length; the pieces of a window of
// documents are taken from the longest to the shortest, each into the fullest row that has space for it. Rows, and the
// pieces in them, are then put back into the order of the documents. Where a window ends depends on the documents alone.
// The other ways: one document a row, whose rest is left out, and documents end to end.
#pragma once
#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "text/base.hpp"

namespace bpe {

struct PackedColumns {
  std::vector<int32_t> positions, numbers;  // of each token: in its document; of the document in the row, 0: padding
};

enum class Packing { kConcat, kBestFit, kNone };

template <class Id>
class Packer {
 public:
  // window: tokens that are packed together, at least. padded: rows are filled up to `row` tokens.
  Packer(size_t row, Id pad, size_t window, Packing packing, bool padded)
      : row_(row), pad_(pad), window_(window), packing_(packing), padded_(padded) {}

  uint64_t padded_tokens = 0, truncated_tokens = 0, truncated_documents = 0;

  void add(std::span<const Id> ids, std::span<const uint64_t> ends, uint64_t first) {
    size_t start = 0;
    for (const uint64_t end : ends) {
      if (end < first + start || end - first > ids.size()) throw std::invalid_argument("ends must be in the block");
      extend(ids.subspan(start, end - first - start));
      finish();
      start = end - first;
    }
    extend(ids.subspan(start));
  }
  // The last document, which continues elsewhere, ends here.
  void end() {
    if (open_ || long_) finish();
    close();
  }
  bool ready() const { return !rows_.empty(); }

  // The rows so far: ids, where each row ends among those of this call, and other columns if they are asked for.
  void take(std::vector<Id>& ids, std::vector<uint64_t>& row_ends, PackedColumns* columns) {
    ids.swap(rows_);
    row_ends.swap(row_ends_);
    if (columns) {
      columns->positions.reserve(ids.size());
      columns->numbers.reserve(ids.size());
      size_t piece = 0, at = 0;
      for (const uint64_t end : row_ends) {
        for (int32_t number = 1; piece < piece_ends_.size() && piece_ends_[piece] <= end; ++piece, ++number)
          for (int32_t position = 0; at < piece_ends_[piece]; ++at) {
            columns->positions.push_back(position++);
            columns->numbers.push_back(number);
          }
        for (; at < end; ++at) {
          columns->positions.push_back(0);
          columns->numbers.push_back(0);
        }
      }
    }
    rows_.clear();
    row_ends_.clear();
    piece_ends_.clear();
  }

 private:
  void extend(std::span<const Id> ids) {
    while (!ids.empty()) {
      if (open_ == row_ - filled_) {
        if (packing_ != Packing::kConcat && !long_) ++truncated_documents;
        long_ = true;
        if (packing_ == Packing::kNone) {
          truncated_tokens += ids.size();
          return;
        }
        cut();
      }
      const size_t count = std::min(ids.size(), row_ - filled_ - open_);
      waiting_.insert(waiting_.end(), ids.begin(), ids.begin() + count);
      open_ += count;
      ids = ids.subspan(count);
    }
  }
  void finish() {
    if (open_) cut();
    long_ = false;
  }
  void cut() {
    sizes_.push_back(open_);
    if (packing_ == Packing::kConcat) filled_ = (filled_ + open_) % row_;
    open_ = 0;
    if (waiting_.size() >= window_ && !filled_) close();
  }

  // Packs what waits into rows.
  void close() {
    std::vector<size_t> row_of(sizes_.size()), starts(sizes_.size());
    std::exclusive_scan(sizes_.begin(), sizes_.end(), starts.begin(), size_t{0});
    size_t rows = sizes_.size();
    if (packing_ == Packing::kBestFit)
      rows = fit(row_of);
    else
      for (size_t piece = 0; piece < rows; ++piece)
        row_of[piece] = packing_ == Packing::kConcat ? starts[piece] / row_ : piece;
    std::vector<size_t> order(sizes_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::vector<size_t> first(rows, sizes_.size());  // piece of each row
    for (size_t piece = sizes_.size(); piece-- > 0;) first[row_of[piece]] = piece;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t one, size_t other) { return first[row_of[one]] < first[row_of[other]]; });
    for (size_t at = 0; at < order.size();) {
      const size_t row = row_of[order[at]], begin = rows_.size();
      for (; at < order.size() && row_of[order[at]] == row; ++at) {
        const Id* const ids = waiting_.data() + starts[order[at]];
        rows_.insert(rows_.end(), ids, ids + sizes_[order[at]]);
        piece_ends_.push_back(rows_.size());
      }
      if (padded_) {
        padded_tokens += begin + row_ - rows_.size();
        rows_.resize(begin + row_, pad_);
      }
      row_ends_.push_back(rows_.size());
    }
    waiting_.clear();
    sizes_.clear();
  }

  // Sets the row of each piece; returns the number of rows.
  size_t fit(std::vector<size_t>& row_of) const {
    std::vector<size_t> order(sizes_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t one, size_t other) { return sizes_[one] > sizes_[other]; });
    std::set<std::pair<size_t, size_t>> spaces;  // free tokens and number of each row that has some
    size_t rows = 0;
    for (const size_t piece : order) {
      const auto found = spaces.lower_bound({sizes_[piece], 0});
      const auto [space, row] = found == spaces.end() ? std::pair{row_, rows++} : *found;
      if (found != spaces.end()) spaces.erase(found);
      row_of[piece] = row;
      if (space > sizes_[piece]) spaces.insert({space - sizes_[piece], row});
    }
    return rows;
  }

  size_t row_;
  Id pad_;
  size_t window_;
  Packing packing_;
  bool padded_;
  std::vector<Id> waiting_, rows_;
  std::vector<size_t> sizes_;  // of the pieces that wait
  size_t open_ = 0;            // ids of the last piece, which has not ended
  size_t filled_ = 0;          // of the last row, if documents are end to end
  bool long_ = false;          // the document is longer than a row
  std::vector<uint64_t> row_ends_, piece_ends_;
};

}  // namespace bpe
