#include "count/pages.hpp"

#include <cstdlib>
#include <new>

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
    void* const mapped = mmap(nullptr, bytes + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    memory_ = {mapped, Free{bytes + kHuge}};
    data_ = static_cast<char*>(mapped) + (kHuge - reinterpret_cast<uintptr_t>(mapped) % kHuge) % kHuge;
#if defined(MADV_HUGEPAGE)
    // Only whole huge pages: the tail in small ones keeps unused memory unused.
    (void)madvise(data_, bytes / kHuge * kHuge, MADV_HUGEPAGE);
#endif
    return;
  }
#endif
  memory_.reset(data_ = std::calloc(bytes ? bytes : 1, 1));
  if (!data_) throw std::bad_alloc();
}

void Pages::Free::operator()(void* memory) const {
#if defined(__linux__)
  if (mapped_bytes) {
    munmap(memory, mapped_bytes);
    return;
  }
#endif
  std::free(memory);
}

void Pages::release_front([[maybe_unused]] size_t bytes) {
#if defined(__linux__)
  if (!memory_.get_deleter().mapped_bytes) return;
  const size_t whole = bytes / kReleaseStep * kReleaseStep;
  if (whole <= released_) return;
  (void)madvise(static_cast<char*>(data_) + released_, whole - released_, MADV_DONTNEED);
  released_ = whole;
#endif
}

void Pages::release_back([[maybe_unused]] size_t bytes) {
#if defined(__linux__)
  const size_t kept = (bytes + kHuge - 1) / kHuge * kHuge;
  if (!memory_.get_deleter().mapped_bytes || kept >= bytes_) return;
  (void)madvise(static_cast<char*>(data_) + kept, bytes_ - kept, MADV_DONTNEED);
#endif
}

}  // namespace bpe
