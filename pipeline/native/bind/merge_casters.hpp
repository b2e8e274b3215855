// What the bindings of the folder merge share: sources of pre-tokens that Python reads, and merges that are known.
#pragma once
#include "bind/merge_rules.hpp"
#include "merge/merge.hpp"

namespace bpe {

// A value that may be destroyed only with the GIL held, wherever the engine drops the last copy of the pointer.
template <class T>
std::shared_ptr<T> held(T value) {
  return {new T(std::move(value)), [](T* last) {
            const Locked gil;
            delete last;
          }};
}

// Pre-tokens in the columns that read() returns, which is called each time.
inline PreTokenSource source_of(Reader read) {
  return [read = held(std::move(read))](const std::function<void(const ColumnsView&)>& take) {
    const Locked gil;
    for (nanobind::handle one : nanobind::iter((*read)())) {
      const auto columns = nanobind::cast<BorrowedColumns>(one);
      unlocked([&] { take(columns.view()); });
    }
  };
}

inline MergeResult known_merges(const Buffer& left, const Buffer& right, const Buffer& counts, const Buffer& joined) {
  MergeResult known;
  known.left = copy_of<uint32_t>(left, "left");
  known.right = copy_of<uint32_t>(right, "right");
  known.counts = copy_of<uint64_t>(counts, "counts");
  known.joined = copy_of<uint64_t>(joined, "joined");
  return known;
}

}  // namespace bpe
