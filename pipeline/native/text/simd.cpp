#include "text/simd.hpp"

#include <cstdlib>

#include "text/targets.hpp"

#if BPE_X86
#include <cpuid.h>
#endif

namespace bpe {
namespace {

#if BPE_X86
// The positions of the bits of a byte, the lowest first.
constexpr auto kPlaces = [] {
  std::array<std::array<uint8_t, 8>, 256> places{};
  for (size_t byte = 0; byte < 256; ++byte)
    for (uint8_t bit = 0, count = 0; bit < 8; ++bit)
      if (byte >> bit & 1) places[byte][count++] = bit;
  return places;
}();

BPE_TARGET_BEGIN(BPE_AVX2)
namespace avx2 {
struct Lanes {
  using Vector = __m256i;
  static constexpr size_t kBytes = 32;
  static Vector zero() { return _mm256_setzero_si256(); }
  static Vector load(const uint8_t* bytes) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)); }
  static Vector table(const uint8_t* entries) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(entries)));
  }
  // Eight rows of 16: all are looked up, and bits 4, 5 and 6 of the byte choose one.
  struct Kinds {
    Vector rows[8];
    explicit Kinds(const uint8_t* entries) {
      for (size_t row = 0; row < 8; ++row) rows[row] = table(entries + 16 * row);
    }
    Vector of(Vector bytes) const {
      const Vector bit4 = _mm256_slli_epi16(bytes, 3), bit5 = _mm256_slli_epi16(bytes, 2);
      const Vector bit6 = _mm256_slli_epi16(bytes, 1);
      Vector pairs[4];
      for (size_t i = 0; i < 4; ++i)
        pairs[i] = _mm256_blendv_epi8(lookup(rows[2 * i], bytes), lookup(rows[2 * i + 1], bytes), bit4);
      return _mm256_blendv_epi8(_mm256_blendv_epi8(pairs[0], pairs[1], bit5),
                                _mm256_blendv_epi8(pairs[2], pairs[3], bit5), bit6);
    }
  };
  static Vector lookup(Vector table, Vector indices) { return _mm256_shuffle_epi8(table, indices); }
  template <int n>
  static Vector shifted(Vector before, Vector now) {
    return _mm256_alignr_epi8(now, _mm256_permute2x128_si256(before, now, 0x21), 16 - n);
  }
  static Vector both(Vector a, Vector b) { return _mm256_and_si256(a, b); }
  static Vector either(Vector a, Vector b) { return _mm256_or_si256(a, b); }
  static uint64_t nonzero(Vector a) {
    return static_cast<uint32_t>(~_mm256_movemask_epi8(_mm256_cmpeq_epi8(a, _mm256_setzero_si256())));
  }
};
#include "text/window_masks.hpp"

// Eight ends for each byte of marks, of which as many count as it has bits.
static size_t write_marks(uint32_t* ends, uint64_t marks, uint32_t base) {
  uint64_t bits = marks - (marks >> 1 & 0x5555555555555555);
  bits = (bits & 0x3333333333333333) + (bits >> 2 & 0x3333333333333333);
  const uint64_t sums = ((bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0F) * 0x0101010101010101;  // up to each byte
  uint64_t starts = sums << 8;
  for (size_t byte = 0; byte < 8; ++byte, marks >>= 8, starts >>= 8, base += 8) {
    const __m128i places = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kPlaces[marks & 0xFF].data()));
    const __m256i found = _mm256_add_epi32(_mm256_cvtepu8_epi32(places), _mm256_set1_epi32(static_cast<int>(base)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(ends + (starts & 0xFF)), found);
  }
  return sums >> 56;
}
}  // namespace avx2
BPE_TARGET_END

BPE_TARGET_BEGIN(BPE_AVX512)
namespace avx512 {
struct Lanes {
  using Vector = __m512i;
  static constexpr size_t kBytes = 64;
  static Vector zero() { return _mm512_setzero_si512(); }
  static Vector load(const uint8_t* bytes) { return _mm512_loadu_si512(bytes); }
  static Vector table(const uint8_t* entries) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(entries)));
  }
  struct Kinds {
    Vector low, high;
    explicit Kinds(const uint8_t* entries) : low(load(entries)), high(load(entries + 64)) {}
    Vector of(Vector bytes) const {
      return _mm512_maskz_permutex2var_epi8(static_cast<__mmask64>(~_mm512_movepi8_mask(bytes)), low, bytes, high);
    }
  };
  static Vector lookup(Vector table, Vector indices) { return _mm512_shuffle_epi8(table, indices); }
  template <int n>
  static Vector shifted(Vector before, Vector now) {
    return _mm512_alignr_epi8(now, _mm512_alignr_epi32(now, before, 12), 16 - n);
  }
  static Vector both(Vector a, Vector b) { return _mm512_and_si512(a, b); }
  static Vector either(Vector a, Vector b) { return _mm512_or_si512(a, b); }
  static uint64_t nonzero(Vector a) { return _mm512_test_epi8_mask(a, a); }
};
#include "text/window_masks.hpp"

// Sixteen ends in each of two stores, and as many more as there are.
static size_t write_marks(uint32_t* ends, uint64_t marks, uint32_t base) {
  alignas(64) static constexpr auto kBytes = [] {
    std::array<uint8_t, 64> bytes{};
    for (uint8_t byte = 0; byte < 64; ++byte) bytes[byte] = byte;
    return bytes;
  }();
  const auto count = static_cast<size_t>(std::popcount(marks));
  const __m512i places = _mm512_maskz_compress_epi8(marks, _mm512_load_si512(kBytes.data()));
  const __m512i from = _mm512_set1_epi32(static_cast<int>(base));
  const auto store = [&](uint32_t* to, __m128i sixteen) {
    _mm512_storeu_si512(to, _mm512_add_epi32(_mm512_cvtepu8_epi32(sixteen), from));
  };
  store(ends, _mm512_castsi512_si128(places));
  store(ends + 16, _mm512_extracti32x4_epi32(places, 1));
  if (count > 32) [[unlikely]] {
    store(ends + 32, _mm512_extracti32x4_epi32(places, 2));
    store(ends + 48, _mm512_extracti32x4_epi32(places, 3));
  }
  return count;
}
}  // namespace avx512
BPE_TARGET_END
#endif

#if BPE_NEON
namespace neon {
struct Lanes {
  using Vector = uint8x16_t;
  static constexpr size_t kBytes = 16;
  static Vector zero() { return vdupq_n_u8(0); }
  static Vector load(const uint8_t* bytes) { return vld1q_u8(bytes); }
  static Vector table(const uint8_t* entries) { return vld1q_u8(entries); }
  struct Kinds {
    uint8x16x4_t low, high;
    explicit Kinds(const uint8_t* entries) : low(vld1q_u8_x4(entries)), high(vld1q_u8_x4(entries + 64)) {}
    Vector of(Vector bytes) const { return vqtbx4q_u8(vqtbl4q_u8(low, bytes), high, vsubq_u8(bytes, vdupq_n_u8(64))); }
  };
  static Vector lookup(Vector table, Vector indices) { return vqtbl1q_u8(table, indices); }
  template <int n>
  static Vector shifted(Vector before, Vector now) {
    return vextq_u8(before, now, 16 - n);
  }
  static Vector both(Vector a, Vector b) { return vandq_u8(a, b); }
  static Vector either(Vector a, Vector b) { return vorrq_u8(a, b); }
  static uint64_t nonzero(Vector a) {
    const uint8x16_t bits = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t found = vandq_u8(vtstq_u8(a, a), bits);
    return vaddv_u8(vget_low_u8(found)) | static_cast<uint64_t>(vaddv_u8(vget_high_u8(found))) << 8;
  }
};
#include "text/window_masks.hpp"

static size_t write_marks(uint32_t* ends, uint64_t marks, uint32_t base) {
  size_t count = 0;
  for (; marks; marks &= marks - 1) ends[count++] = base + static_cast<uint32_t>(std::countr_zero(marks));
  return count;
}
}  // namespace neon
#endif

#if BPE_X86
// Processors without AVX512-FP16 may have gathers that are slow, some since the mitigation of "gather data sampling".
bool gathers_fast() {
  unsigned a = 0, b = 0, c = 0, d = 0;  // asked directly: not every compiler knows the feature's name
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 23 & 1) != 0;
}
#endif

Simd chosen_simd() {
  const std::vector<Simd> all = available_simd();
  const char* const wanted = std::getenv("BPE_PIPELINE_SIMD");
  if (!wanted || !*wanted) return all.front();
  std::string names;
  for (const Simd& one : all) {
    if (std::string_view(one.name) == wanted) return one;
    names += (names.empty() ? "" : ", ") + std::string(one.name);
  }
  throw std::runtime_error("BPE_PIPELINE_SIMD=" + std::string(wanted) + ": this machine runs " + names +
                           "; choose one of them or unset the variable");
}

}  // namespace

std::vector<Simd> available_simd() {
  std::vector<Simd> all;
#if BPE_X86
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2"))
    all.push_back({"avx512", avx512::window_masks, avx512::write_marks, true, gathers_fast()});
  if (__builtin_cpu_supports("avx2")) all.push_back({"avx2", avx2::window_masks, avx2::write_marks, true, false});
#endif
#if BPE_NEON
  all.push_back({"neon", neon::window_masks, neon::write_marks, false, false});
#endif
  all.push_back({"baseline", nullptr, nullptr, false, false});
  return all;
}

const Simd& simd() {
  static const Simd chosen = chosen_simd();
  return chosen;
}

}  // namespace bpe
