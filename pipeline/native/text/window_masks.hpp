// window_masks for one instruction set: included by simd.cpp once for each, inside of a namespace and of its `target`,
// with a type Lanes that wraps its instructions:
//   kBytes                 bytes of a vector
//   zero(), load(bytes), table(16 bytes)
//   kinds(table of 128, bytes)      the entry of each ASCII byte, 0 for the others
//   lookup(table, indices)          indices below 16
//   shifted<n>(before, now)         the bytes n before those of `now`
//   both(a, b), either(a, b), nonzero(a): bits
// No include guard: that is the purpose.

template <size_t boundary_planes, size_t undecided_planes>
static void masks_of_planes(const WindowRules& rules, const uint8_t* text, size_t blocks, bool continues,
                            uint64_t* boundaries, uint64_t* undecided) {
  constexpr size_t all = boundary_planes + undecided_planes;
  using Vector = Lanes::Vector;
  const Lanes::Kinds kinds(rules.kinds.data());
  Vector tables[all][WindowRules::kOffsets];
  for (size_t plane = 0; plane < all; ++plane) {
    const size_t from = plane < boundary_planes ? plane : plane - boundary_planes + WindowRules::kBoundaryPlanes;
    for (size_t offset = 0; offset < WindowRules::kOffsets; ++offset)
      tables[plane][offset] = Lanes::table(rules.planes[from][offset].data());
  }
  Vector before = continues ? kinds.of(Lanes::load(text - Lanes::kBytes)) : Lanes::zero();
  for (size_t block = 0; block < blocks; ++block) {
    uint64_t found = 0, open = 0;
    for (size_t at = 0; at < 64; at += Lanes::kBytes) {
      const Vector now = kinds.of(Lanes::load(text + 64 * block + at));
      const Vector window[] = {Lanes::shifted<4>(before, now), Lanes::shifted<3>(before, now),
                               Lanes::shifted<2>(before, now), Lanes::shifted<1>(before, now), now};
      Vector hits[2] = {Lanes::zero(), Lanes::zero()};
      for (size_t plane = 0; plane < all; ++plane) {
        Vector hit = Lanes::lookup(tables[plane][0], window[0]);
        for (size_t offset = 1; offset < WindowRules::kOffsets; ++offset)
          hit = Lanes::both(hit, Lanes::lookup(tables[plane][offset], window[offset]));
        hits[plane >= boundary_planes] = Lanes::either(hits[plane >= boundary_planes], hit);
      }
      found |= Lanes::nonzero(hits[0]) << at;
      open |= Lanes::nonzero(hits[1]) << at;
      before = now;
    }
    boundaries[block] = found;
    undecided[block] = open;
  }
}

static void window_masks(const WindowRules& rules, const uint8_t* text, size_t blocks, bool continues,
                         uint64_t* boundaries, uint64_t* undecided) {
  const auto masks = rules.small ? masks_of_planes<2, 2> : masks_of_planes<3, 4>;
  masks(rules, text, blocks, continues, boundaries, undecided);
}
