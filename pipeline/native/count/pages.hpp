// Pages: a large zeroed block of memory that asks for huge pages and can return its front or end to the system early.
// Array: the same as items of one type.
//
// Idea: memory comes from the system untouched (a page that is never used costs nothing). On Linux blocks of at least 2
// MiB are aligned to that and advised to use huge pages, which saves translation misses in random access (a sixth of
// the time of merging); where the system does not have them nothing is said. `release_front` returns what a table being
// rebuilt has already read, `release_back` what an array that shrinks in place no longer needs. `grow` moves a block
// without copying it where the system can: it gets another address, not other pages.
// Invariant: the block is all zero when made, and so is what growing adds.
#pragma once
#include "text/base.hpp"

namespace bpe {

// Returns freed memory to the system, as far as the allocator can.
void give_back_memory();

class Pages {
 public:
  static constexpr size_t kReleaseStep = size_t{4} << 20;  // at least as much is returned at once
  static constexpr size_t kHuge = size_t{2} << 20;         // a huge page

  Pages() = default;
  explicit Pages(size_t bytes);  // throws std::bad_alloc

  void* data() const { return memory_.get(); }
  // Makes the block larger, perhaps elsewhere. None of it was released. Throws std::bad_alloc and leaves it as it was.
  void grow(size_t bytes);
  // The first `bytes` will not be read again. Call with growing values.
  void release_front(size_t bytes);
  // Only the first `bytes` will be used again.
  void release_back(size_t bytes);

 private:
  struct Free {
    size_t mapped_bytes;  // 0: allocated
    void operator()(void* memory) const;
  };
  std::unique_ptr<void, Free> memory_{nullptr, Free{0}};
  size_t bytes_ = 0, released_ = 0;
};

template <class T>
class Array {
 public:
  Array() = default;
  explicit Array(size_t size) : pages_(size * sizeof(T)) {}
  T* data() const { return static_cast<T*>(pages_.data()); }
  void grow(size_t size) { pages_.grow(size * sizeof(T)); }
  // The first `size` items will not be read again.
  void release_front(size_t size) { pages_.release_front(size * sizeof(T)); }
  // Only the first `size` items will be used again.
  void shrink(size_t size) { pages_.release_back(size * sizeof(T)); }

 private:
  Pages pages_;
};

}  // namespace bpe
