// Marks of code that is compiled for more instructions than the rest of the core: simd.hpp says where it may run.
#pragma once
#include "text/simd.hpp"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // of gcc 12, about its own avx512fintrin.h
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define BPE_X86 1
#elif defined(__aarch64__) && defined(__GNUC__)
#include <arm_neon.h>
#define BPE_NEON 1
#endif

// A function that is compiled again for the instructions of each function that calls it.
#if defined(__GNUC__)
#define BPE_EVERYWHERE __attribute__((always_inline)) inline
#else
#define BPE_EVERYWHERE inline
#endif

// Code between these is compiled for more instructions than the rest of the core.
#if defined(__clang__)
#define BPE_TARGET_BEGIN(attribute) _Pragma(attribute)
#define BPE_TARGET_END _Pragma("clang attribute pop")
#define BPE_AVX2 "clang attribute push(__attribute__((target(\"avx2\"))), apply_to = function)"
#define BPE_AVX512                                                                                                  \
  "clang attribute "                                                                                                \
  "push(__attribute__((target(\"avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,popcnt\"))), apply_to = " \
  "function)"
#else
#define BPE_TARGET_BEGIN(attribute) _Pragma("GCC push_options") _Pragma(attribute)
#define BPE_TARGET_END _Pragma("GCC pop_options")
#define BPE_AVX2 "GCC target(\"avx2\")"
#define BPE_AVX512 "GCC target(\"avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,popcnt\")"
#endif

namespace bpe {

#if BPE_X86
BPE_TARGET_BEGIN(BPE_AVX2)
template <auto work, class... Values>
auto run_with_avx2(Values... values) {
  return work(values...);
}
BPE_TARGET_END
#endif

// Calls `work`, which is BPE_EVERYWHERE, with the vector instructions that this machine has.
template <auto work, class... Values>
auto run_vectorized(Values... values) {
#if BPE_X86
  if (simd().avx2) return run_with_avx2<work>(values...);
#endif
  return work(values...);
}

}  // namespace bpe
