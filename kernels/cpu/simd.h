// What the kernels share: bfloat16 to and from float32, 16 lanes at a time (AVX-512 with BF16).
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

using bf16 = uint16_t;

constexpr int LANES = 16;  // float32 numbers in a register

// Below so many tokens one thread is done with the small steps before another has begun.
constexpr int64_t TOKENS_FOR_THREADS = 16;

inline __m512 load_bf16(const bf16* p) {
    __m256i raw = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(raw), 16));
}

inline __m512 load_bf16(const bf16* p, __mmask16 lanes) {
    const __m256i raw = _mm256_maskz_loadu_epi16(lanes, p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(raw), 16));
}

// The lanes of a register that `left` more numbers fill.
inline __mmask16 lanes_left(int64_t left) {
    return static_cast<__mmask16>(left >= LANES ? 0xffff : (1u << left) - 1);
}

// Rounds to nearest, ties to even.
inline void store_bf16(bf16* p, __m512 x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)_mm512_cvtneps_pbh(x));
}

inline void store_bf16(bf16* p, __m512 x, __mmask16 lanes) {
    _mm256_mask_storeu_epi16(p, lanes, (__m256i)_mm512_cvtneps_pbh(x));
}

// eˣ: 2ⁿ · eʳ with |r| ≤ ln 2 / 2, eʳ by its Taylor series to the sixth power; within 2 units in the
// last place. Large negative x gives 0, as a masked score must.
inline __m512 exp_ps(__m512 x) {
    x = _mm512_max_ps(_mm512_set1_ps(-105.0f), x);  // −∞ would become ∞ − ∞; NaN stays NaN
    const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 0);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
    __m512 p = _mm512_set1_ps(1.0f / 720);
    for (float c : {1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f})
        p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(c));
    return _mm512_scalef_ps(p, n);
}
