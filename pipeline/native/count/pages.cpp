#include "count/pages.hpp"

#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace bpe {
namespace {

[[maybe_unused]] constexpr size_t kHuge = size_t{2} << 20;

}  // namespace

void give_back_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

Pages::Pages(size_t bytes) : bytes_(bytes) {
#if defined(__linux__)
  if (bytes >= kHuge) {
    mapped_bytes_ = bytes + kHuge;
    mapped_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped_ == MAP_FAILED) throw std::bad_alloc();
    const auto address = reinterpret_cast<uintptr_t>(mapped_);
    const size_t skip = (kHuge - address % kHuge) % kHuge;
    data_ = static_cast<char*>(mapped_) + skip;
#if defined(MADV_HUGEPAGE)
    // Only whole huge pages: the tail in small ones keeps unused memory unused.
    (void)madvise(data_, bytes / kHuge * kHuge, MADV_HUGEPAGE);
#endif
    return;
  }
#endif
  mapped_ = data_ = std::calloc(bytes ? bytes : 1, 1);
  if (!data_) throw std::bad_alloc();
}

Pages::~Pages() {
#if defined(__linux__)
  if (mapped_bytes_) {
    munmap(mapped_, mapped_bytes_);
    return;
  }
#endif
  std::free(mapped_);
}

Pages::Pages(Pages&& other) noexcept { *this = std::move(other); }

Pages& Pages::operator=(Pages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(mapped_, other.mapped_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(released_, other.released_);
  return *this;
}

void Pages::release_front([[maybe_unused]] size_t bytes) {
#if defined(__linux__)
  if (!mapped_bytes_) return;
  const size_t whole = bytes / kReleaseStep * kReleaseStep;
  if (whole <= released_) return;
  (void)madvise(static_cast<char*>(data_) + released_, whole - released_, MADV_DONTNEED);
  released_ = whole;
#endif
}

void Pages::release_back([[maybe_unused]] size_t bytes) {
#if defined(__linux__)
  const size_t kept = (bytes + kHuge - 1) / kHuge * kHuge;
  if (!mapped_bytes_ || kept >= bytes_) return;
  (void)madvise(static_cast<char*>(data_) + kept, bytes_ - kept, MADV_DONTNEED);
#endif
}

}  // namespace bpe
