#include "count/hot_pre_tokens.hpp"

#include "text/targets.hpp"

namespace bpe {

#if BPE_X86
BPE_TARGET_BEGIN(BPE_AVX512)
size_t HotPreTokens::find_by_eights(const uint8_t* text, size_t start, const uint32_t* ends, size_t pre_tokens,
                                    uint32_t* found, uint32_t* missed) const {
  const __m512i none = _mm512_setzero_si512(), ones = _mm512_set1_epi64(-1);
  const __m512i factor = _mm512_set1_epi64(static_cast<long long>(kHotFactor));
  size_t hits = 0, misses = 0;
  __m256i last = _mm256_set1_epi32(static_cast<int>(start));
  __m256i numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  for (size_t i = 0; i < pre_tokens; i += 8) {
    const auto all = static_cast<__mmask8>(pre_tokens - i >= 8 ? 0xFF : (1u << (pre_tokens - i)) - 1);
    const __m256i to = _mm256_maskz_loadu_epi32(all, ends + i);
    const __m256i from = _mm256_alignr_epi32(to, last, 7), size = _mm256_sub_epi32(to, from);
    last = to;
    const __mmask8 brief = _mm256_mask_cmple_epu32_mask(all, size, _mm256_set1_epi32(kHotBytes));
    __m512i words = _mm512_mask_i64gather_epi64(none, brief, _mm512_cvtepu32_epi64(from), text, 1);
    const __m512i sizes = _mm512_cvtepu32_epi64(size);
    words = _mm512_andnot_si512(_mm512_sllv_epi64(ones, _mm512_slli_epi64(sizes, 3)), words);
    words = _mm512_or_si512(words, _mm512_slli_epi64(sizes, 56));
    const __m512i slots = _mm512_srli_epi64(_mm512_mullo_epi64(words, factor), kHotShift);
    const __m512i entries = _mm512_mask_i64gather_epi64(none, brief, slots, words_.data(), 8);
    const __mmask8 hit = _mm512_mask_cmpeq_epi64_mask(brief, entries, words);
    const auto miss = static_cast<__mmask8>(all & ~hit);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(found + hits),
                        _mm256_maskz_compress_epi32(hit, _mm512_cvtepi64_epi32(slots)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(missed + misses), _mm256_maskz_compress_epi32(miss, numbers));
    hits += static_cast<size_t>(std::popcount(hit));
    misses += static_cast<size_t>(std::popcount(miss));
    numbers = _mm256_add_epi32(numbers, _mm256_set1_epi32(8));
  }
  return misses;
}
BPE_TARGET_END
#endif

size_t HotPreTokens::find(const uint8_t* text, size_t start, const uint32_t* ends, size_t pre_tokens, uint32_t* found,
                          uint32_t* missed) const {
#if BPE_X86
  if (simd().gathers) return find_by_eights(text, start, ends, pre_tokens, found, missed);
#endif
  size_t hits = 0, misses = 0, at = start;
  for (size_t i = 0; i < pre_tokens; ++i) {
    const size_t size = ends[i] - at;
    const uint64_t word = hot_word(load64(text + at), size);
    const size_t slot = hot_slot(word);
    const size_t hit = static_cast<size_t>(words_[slot] == word) & static_cast<size_t>(size <= kHotBytes);
    found[hits] = static_cast<uint32_t>(slot);
    hits += hit;
    missed[misses] = static_cast<uint32_t>(i);
    misses += 1 - hit;
    at = ends[i];
  }
  return misses;
}

}  // namespace bpe
