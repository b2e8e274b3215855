// Pages: a large zeroed block of memory that asks for huge pages and can give its front back early.
//
// Idea: memory comes from the system untouched (a page that is never used costs nothing). On Linux blocks of at least
// 4 MiB are aligned to 2 MiB and advised to use huge pages, which saves translation misses in random access; where
// that is not on offer it is skipped silently. `release_front` returns what a table being rebuilt has already read.
// Invariant: the block is all zero when made.
#pragma once
#include <cstddef>

namespace bpe {

// Returns to the system what was freed before, as far as the allocator can.
void give_back_memory();

class Pages {
 public:
  static constexpr size_t kReleaseStep = size_t{4} << 20;  // so much is given back at once

  Pages() = default;
  explicit Pages(size_t bytes);  // throws std::bad_alloc
  ~Pages();
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&& other) noexcept;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // The first `bytes` will not be read again. Call with growing values.
  void release_front(size_t bytes);

 private:
  void* data_ = nullptr;    // what is used
  void* mapped_ = nullptr;  // what was mapped or allocated
  size_t bytes_ = 0, mapped_bytes_ = 0, released_ = 0;
};

}  // namespace bpe
