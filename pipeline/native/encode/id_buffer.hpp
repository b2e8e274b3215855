// A growable row of token ids that does not clear memory before writing to it and can be handed to Python whole.
#pragma once
#include <cstdlib>
#include <new>

#include "text/base.hpp"

namespace bpe {

class IdBuffer {
 public:
  size_t size() const { return size_; }
  const uint32_t* data() const { return ids_.get(); }

  // Where the next `count` ids may be written; `advance` says how many were.
  uint32_t* reserve(size_t count) {
    if (capacity_ - size_ < count) grow(count);
    return ids_.get() + size_;
  }
  void advance(size_t written) { size_ += written; }
  void push(uint32_t id) {
    *reserve(1) = id;
    ++size_;
  }
  void clear() { size_ = 0; }
  void shrink(size_t size) { size_ = size; }
  void drop_front(size_t count) {
    size_ -= count;
    if (size_) std::memmove(ids_.get(), ids_.get() + count, size_ * sizeof(uint32_t));
  }
  // Gives the memory away; the owner frees it with std::free.
  uint32_t* release() {
    size_ = capacity_ = 0;
    return ids_.release();
  }

 private:
  struct Free {
    void operator()(uint32_t* ids) const { std::free(ids); }
  };
  void grow(size_t count) {
    const size_t capacity = capacity_ + capacity_ / 2 + count + 16;
    void* larger = std::realloc(ids_.get(), capacity * sizeof(uint32_t));
    if (!larger) throw std::bad_alloc();
    (void)ids_.release();
    ids_.reset(static_cast<uint32_t*>(larger));
    capacity_ = capacity;
  }
  std::unique_ptr<uint32_t, Free> ids_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace bpe
