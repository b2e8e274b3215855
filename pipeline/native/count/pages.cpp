#include "count/pages.hpp"

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

#if defined(__linux__)
// What the system reserves for a block of that many bytes; 0: the block is allocated.
size_t mapped_for(size_t bytes) {
  constexpr size_t kLargestPage = size_t{64} << 10;  // of the small ones, on any machine
  const size_t whole = (bytes + kLargestPage - 1) / kLargestPage * kLargestPage;
  return whole < Pages::kHuge ? 0 : whole;
}

// That many bytes of address space, aligned to huge pages.
void* map_aligned(size_t bytes, int protection) {
  void* const mapped = mmap(nullptr, bytes + Pages::kHuge, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  const size_t before = (Pages::kHuge - reinterpret_cast<uintptr_t>(mapped) % Pages::kHuge) % Pages::kHuge;
  char* const aligned = static_cast<char*>(mapped) + before;
  if (before) munmap(mapped, before);
  munmap(aligned + bytes, Pages::kHuge - before);
  return aligned;
}

// The system makes whole huge pages alone: the tail in small ones keeps unused memory unused.
void advise_huge([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes) {
#if defined(MADV_HUGEPAGE)
  (void)madvise(memory, bytes, MADV_HUGEPAGE);
#endif
}
#endif

}  // namespace

void give_back_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

Pages::Pages(size_t bytes) : bytes_(bytes) {
#if defined(__linux__)
  if (const size_t mapped = mapped_for(bytes)) {
    memory_ = {map_aligned(mapped, PROT_READ | PROT_WRITE), Free{mapped}};
    advise_huge(data(), mapped);
    return;
  }
#endif
  memory_.reset(std::calloc(bytes ? bytes : 1, 1));
  if (!memory_) throw std::bad_alloc();
}

void Pages::grow(size_t bytes) {
  if (bytes <= bytes_) return;
#if defined(__linux__)
  if (const size_t mapped = memory_.get_deleter().mapped_bytes) {
    const size_t wanted = mapped_for(bytes);
    void* const place = map_aligned(wanted, PROT_NONE);
    if (mremap(data(), mapped, wanted, MREMAP_MAYMOVE | MREMAP_FIXED, place) != MAP_FAILED) {
      static_cast<void>(memory_.release());
      memory_ = {place, Free{wanted}};
      advise_huge(place, wanted);
      bytes_ = bytes;
      return;
    }
    // The place stays reserved, without memory: whether the system gave it up before it failed is not known.
  }
#endif
  Pages larger(bytes);
  if (bytes_) std::memcpy(larger.data(), data(), bytes_);
  *this = std::move(larger);
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
  (void)madvise(static_cast<char*>(data()) + released_, whole - released_, MADV_DONTNEED);
  released_ = whole;
#endif
}

void Pages::release_back([[maybe_unused]] size_t bytes) {
#if defined(__linux__)
  const size_t kept = (bytes + kHuge - 1) / kHuge * kHuge;
  if (!memory_.get_deleter().mapped_bytes || kept >= bytes_) return;
  (void)madvise(static_cast<char*>(data()) + kept, bytes_ - kept, MADV_DONTNEED);
#endif
}

}  // namespace bpe
