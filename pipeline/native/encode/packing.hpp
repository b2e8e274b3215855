// Documents packed into rows of a fixed number of tokens.
//
// Best fit decreasing: a document longer than a row is cut into parts of that length; the parts of a window of
// documents are taken from the longest to the shortest, each into the fullest row that has space for it. Rows, and the
// parts in them, are then put back into the order of the documents. Where a window ends depends on the documents alone.
// The other ways: one document a row, whose rest is left out, and documents end to end. Ids are bytes, `width` for each.
#pragma once
#include <set>

#include "encode/documents.hpp"

namespace bpe {

struct PackedRows {
  std::vector<uint8_t> ids;
  std::vector<uint64_t> row_ends;           // among these ids
  std::vector<int32_t> positions, numbers;  // of each token: in its document; of the document in the row, 0: padding
};

enum class Packing { kConcat, kBestFit, kNone };

class Packer {
 public:
  // window: tokens that are packed together, at least. padded: rows are filled up to `row` tokens.
  Packer(size_t width, size_t row, uint32_t pad, size_t window, Packing packing, bool padded)
      : width_(width), row_(row), window_(window), packing_(packing), padded_(padded) {
    const auto narrow = static_cast<uint16_t>(pad);
    std::memcpy(pad_.data(), width == 2 ? static_cast<const void*>(&narrow) : &pad, width);
    if (!row) throw std::invalid_argument("row must be at least 1");
  }

  uint64_t padded_tokens = 0, truncated_tokens = 0, truncated_documents = 0;

  void add(std::span<const uint8_t> ids, std::span<const uint64_t> ends, uint64_t first) {
    each_document(ids.size() / width_, ends, first, [&](size_t start, size_t stop, bool ended) {
      extend(ids.subspan(start * width_, (stop - start) * width_));
      if (ended) finish();
    });
  }
  // The last document, which continues elsewhere, ends here.
  void end() {
    if (open_ || long_) finish();
    close();
  }
  bool ready() const { return !rows_.empty(); }

  // The rows so far, with columns of positions and numbers if they are asked for.
  PackedRows take(bool columns) {
    PackedRows taken{std::exchange(rows_, {}), std::exchange(row_ends_, {}), {}, {}};
    const std::vector<size_t> pre_tokens = std::exchange(pre_token_ends_, {});
    if (!columns) return taken;
    taken.positions.resize(taken.ids.size() / width_);
    taken.numbers.resize(taken.positions.size());
    size_t pre_token = 0, at = 0;
    for (const uint64_t end : taken.row_ends) {
      for (int32_t number = 1; pre_token < pre_tokens.size() && pre_tokens[pre_token] <= end; ++pre_token, ++number)
        for (int32_t position = 0; at < pre_tokens[pre_token]; ++at) {
          taken.positions[at] = position++;
          taken.numbers[at] = number;
        }
      at = end;
    }
    return taken;
  }

 private:
  void extend(std::span<const uint8_t> ids) {
    while (!ids.empty()) {
      if (open_ == row_ - filled_) {
        if (packing_ != Packing::kConcat && !long_) ++truncated_documents;
        long_ = true;
        if (packing_ == Packing::kNone) {
          truncated_tokens += ids.size() / width_;
          return;
        }
        cut();
      }
      const size_t count = std::min(ids.size() / width_, row_ - filled_ - open_);
      waiting_.insert(waiting_.end(), ids.data(), ids.data() + count * width_);
      open_ += count;
      ids = ids.subspan(count * width_);
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
    const bool alone = packing_ == Packing::kNone && padded_;  // each is a row, however short it is
    if ((alone ? sizes_.size() * row_ : waiting_.size() / width_) >= window_ && !filled_) close();
  }

  // Packs what waits into rows.
  void close() {
    std::vector<size_t> row_of(sizes_.size()), starts(sizes_.size());
    std::exclusive_scan(sizes_.begin(), sizes_.end(), starts.begin(), size_t{0});
    size_t rows = sizes_.size();
    if (packing_ == Packing::kBestFit)
      rows = fit(row_of);
    else
      for (size_t pre_token = 0; pre_token < rows; ++pre_token)
        row_of[pre_token] = packing_ == Packing::kConcat ? starts[pre_token] / row_ : pre_token;
    std::vector<size_t> order(sizes_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::vector<size_t> first(rows, sizes_.size());  // part of each row
    for (size_t pre_token = sizes_.size(); pre_token-- > 0;) first[row_of[pre_token]] = pre_token;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t one, size_t other) { return first[row_of[one]] < first[row_of[other]]; });
    rows_.reserve(rows_.size() + (padded_ ? rows * row_ * width_ : waiting_.size()));
    for (size_t at = 0; at < order.size();) {
      const size_t row = row_of[order[at]], begin = rows_.size() / width_;
      for (; at < order.size() && row_of[order[at]] == row; ++at) {
        const uint8_t* const ids = waiting_.data() + starts[order[at]] * width_;
        rows_.insert(rows_.end(), ids, ids + sizes_[order[at]] * width_);
        pre_token_ends_.push_back(rows_.size() / width_);
      }
      if (padded_) {
        const size_t filled = rows_.size();
        rows_.resize((begin + row_) * width_);
        padded_tokens += (rows_.size() - filled) / width_;
        for (size_t to = filled; to < rows_.size(); to += width_) std::memcpy(rows_.data() + to, pad_.data(), width_);
      }
      row_ends_.push_back(rows_.size() / width_);
    }
    waiting_.clear();
    sizes_.clear();
  }

  // Sets the row of each part; returns the number of rows.
  size_t fit(std::vector<size_t>& row_of) const {
    std::vector<size_t> order(sizes_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t one, size_t other) { return sizes_[one] > sizes_[other]; });
    std::set<std::pair<size_t, size_t>> spaces;  // free tokens and number of each row that has some
    size_t rows = 0;
    for (const size_t pre_token : order) {
      const auto found = spaces.lower_bound({sizes_[pre_token], 0});
      const auto [space, row] = found == spaces.end() ? std::pair{row_, rows++} : *found;
      if (found != spaces.end()) spaces.erase(found);
      row_of[pre_token] = row;
      if (space > sizes_[pre_token]) spaces.insert({space - sizes_[pre_token], row});
    }
    return rows;
  }

  size_t width_, row_;
  std::array<uint8_t, 4> pad_;
  size_t window_;
  Packing packing_;
  bool padded_;
  std::vector<uint8_t> waiting_, rows_;
  std::vector<size_t> sizes_;  // of the parts that wait
  size_t open_ = 0;            // ids of the last part, which has not ended
  size_t filled_ = 0;          // of the last row, if documents are end to end
  bool long_ = false;          // the document is longer than a row
  std::vector<uint64_t> row_ends_;
  std::vector<size_t> pre_token_ends_;
};

}  // namespace bpe
