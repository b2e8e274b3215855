// Large uninitialised arrays that can give their end back to the system, in huge pages where the system has
// them to give: lists send the merges all over the words, and page walks would cost a sixth of the time.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace bpe::merge {

template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t size) {
    const std::size_t bytes = size * sizeof(T);
    const bool large = bytes >= kHugePage;
    if (large) bytes_ = whole_pages(bytes);
    data_.reset(static_cast<T*>(large ? std::aligned_alloc(kHugePage, bytes_) : std::malloc(bytes + 1)));
    if (!data_) throw std::bad_alloc();
#if defined(__linux__)
    if (large) madvise(data_.get(), bytes_, MADV_HUGEPAGE);
#endif
  }
  // Only the first `size` items are still needed.
  void shrink([[maybe_unused]] std::size_t size) {
#if defined(__linux__)
    const std::size_t kept = whole_pages(size * sizeof(T));
    if (kept >= bytes_) return;
    madvise(reinterpret_cast<char*>(data_.get()) + kept, bytes_ - kept, MADV_DONTNEED);
    bytes_ = kept;
#endif
  }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }

 private:
  static constexpr std::size_t kHugePage = std::size_t{1} << 21;
  static std::size_t whole_pages(std::size_t bytes) { return (bytes + kHugePage - 1) / kHugePage * kHugePage; }
  struct Free {
    void operator()(T* memory) const { std::free(memory); }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t bytes_ = 0;  // those that may be given back
};

}  // namespace bpe::merge
