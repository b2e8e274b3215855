// The vector instructions of this machine, and the code that uses them: one binary holds a build for each.
//
// Idea: `window_masks.hpp` is compiled once for each instruction set, with `target` attributes. When the core is
// loaded, the best that the processor has is chosen: AVX-512 with VBMI and VBMI2, AVX2, or NEON.
// BPE_PIPELINE_SIMD=baseline|avx2|avx512|neon forces another one.
// The baseline has no such code: the automaton then reads every character.
#pragma once
#include "text/windows.hpp"

namespace bpe {

// For each of `blocks` blocks of 64 bytes from `text`: bit i says that the position i - 1 of the block is a boundary
// for certain, or undecided. All 64 bytes of each block are read, and where `continues`, 64 bytes before the first.
using WindowMasks = void (*)(const WindowRules& rules, const uint8_t* text, size_t blocks, bool continues,
                             uint64_t* boundaries, uint64_t* undecided);

// Writes the positions of the bits of `marks`, counted from `base`, and returns how many they are. Up to 32 more ends
// are overwritten.
using WriteMarks = size_t (*)(uint32_t* ends, uint64_t marks, uint32_t base);

struct Simd {
  const char* name;
  WindowMasks window_masks;  // nullptr: none of the two
  WriteMarks write_marks;
  bool avx2;     // its code may be used
  bool gathers;  // AVX-512's are fast, and may be used
};

// The instruction sets that this machine can run; the first is used unless another is named.
std::vector<Simd> available_simd();

// The one in use; std::runtime_error if BPE_PIPELINE_SIMD names another than those.
const Simd& simd();

}  // namespace bpe
