#include "merge/sketch.hpp"

namespace bpe::merge {

Sketch::Sketch(uint64_t slots, uint64_t mass) {
  const auto bits = std::clamp(static_cast<unsigned>(std::bit_width(slots / 32)), 14u, kMaxBits);
  while (mass >> weight_shift_ > kTop / 2) ++weight_shift_;
  size_ = size_t{1} << bits;
  counters_ = Array<uint32_t>(size_);
}

uint32_t Sketch::lowest_reaching(uint64_t threshold) const {
  const auto scaled = (threshold >> weight_shift_) + ((threshold & ((uint64_t{1} << weight_shift_) - 1)) != 0);
  return static_cast<uint32_t>(std::min<uint64_t>(scaled, kTop));
}

Filter::Filter(const Sketch& sketch, uint64_t threshold) {
  const auto lowest = sketch.lowest_reaching(threshold);
  for (size_t counter = 0; counter < sketch.size(); ++counter) reaching_ += sketch.reaches(counter, lowest);
  size_t places = size_t{1} << 14;
  while (places < sketch.size() && places < 32 * reaching_) places *= 2;
  mask_ = places - 1;
  if (places <= kMaxBytes)
    bytes_.assign(places, 0);
  else
    words_.assign(places / 64, 0);
  for (size_t counter = 0; counter < sketch.size(); ++counter) {
    if (!sketch.reaches(counter, lowest)) continue;
    const auto place = counter & mask_;
    if (in_bytes())
      bytes_[place] = 1;
    else
      words_[place >> 6] |= uint64_t{1} << (place & 63);
  }
}

BoundHistogram::BoundHistogram(const Sketch& sketch) {
  for (size_t counter = 0; counter < sketch.size(); ++counter)
    if (const auto bound = sketch.bound(counter); bound != 0) ++pairs_[class_of(bound)];
}

unsigned BoundHistogram::class_of(uint64_t bound) {
  const auto exponent = 63u - static_cast<unsigned>(std::countl_zero(bound));
  const auto quarter = exponent < 2 ? bound << (2 - exponent) : bound >> (exponent - 2);
  return 4 * exponent + static_cast<unsigned>(quarter & 3);
}

uint64_t BoundHistogram::lowest_of(unsigned bound_class) {
  const auto exponent = bound_class / 4;
  const uint64_t quarters = 4 + bound_class % 4;
  return exponent < 2 ? ((quarters << exponent) + 3) >> 2 : quarters << (exponent - 2);
}

uint64_t BoundHistogram::threshold(uint64_t max_pairs, uint64_t max_positions, uint64_t min_frequency) const {
  uint64_t pairs = 0, positions = 0, lowest = 0;
  for (unsigned c = kClasses; c-- > 0;) {
    if (pairs_[c] == 0) continue;
    pairs += pairs_[c];
    positions += positions_[c];
    if (lowest != 0 && (pairs > max_pairs || positions > max_positions)) break;
    if (c + 1 < kClasses && lowest_of(c + 1) <= min_frequency) break;
    lowest = std::max(lowest_of(c), min_frequency);
  }
  return lowest;
}

}  // namespace bpe::merge
