// Stored keys and values as numbers, 32 at a time: bfloat16, or codes of 8 and 4 bits (see
// kernels/kv_blocks.py), whose scale is multiplied in elsewhere.
//
// `pairs` gives them in order as bfloat16, which holds every code exactly, as a product of two wants
// them. `floats` gives them in two registers, of float32: the first 16 and the last 16, or, where that
// saves instructions, the even and the odd ones (IN_TURNS).
#pragma once

#include "simd.h"

constexpr int STEP = 2 * LANES;  // numbers

enum Format { NATIVE = 0, INT8 = 1, FP8_E4M3 = 2, INT4 = 3 };

// One layer's keys and values: [num_blocks, n_kv, block_size, d], a head of a block in one piece, and
// the scales of codes, [num_blocks, n_kv, block_size] with any steps.
struct Blocks {
    uint8_t *key, *value;
    int64_t n_kv, block_size, d;
    float *key_scale, *value_scale;
    const int64_t *key_steps, *value_steps;
};

// The even and the odd numbers of 32 bfloat16.
inline void split(__m512i pairs, __m512& even, __m512& odd) {
    even = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
    odd = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000))));
}

// The even and the odd ones of 32 numbers → the first and the last 16.
inline void in_order(__m512& even, __m512& odd) {
    const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i last = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    const __m512 low = _mm512_permutex2var_ps(even, first, odd);
    odd = _mm512_permutex2var_ps(even, last, odd);
    even = low;
}

struct NativeNumbers {
    static constexpr int BITS = 16;
    static constexpr bool SCALED = false, IN_TURNS = false;

    static __m512bh pairs(const uint8_t* p) { return (__m512bh)_mm512_loadu_si512(p); }

    static void floats(const uint8_t* p, __m512& first, __m512& last) {
        const bf16* numbers = reinterpret_cast<const bf16*>(p);
        first = load_bf16(numbers), last = load_bf16(numbers + LANES);
    }
};

struct Int8Numbers {
    static constexpr int BITS = 8;
    static constexpr bool SCALED = true, IN_TURNS = false;

    static __m512bh pairs(const uint8_t* p) {
        __m512 first, last;
        floats(p, first, last);
        return _mm512_cvtne2ps_pbh(last, first);
    }

    static void floats(const uint8_t* p, __m512& first, __m512& last) {
        const __m128i* codes = reinterpret_cast<const __m128i*>(p);
        first = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(codes)));
        last = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(codes + 1)));
    }
};

struct E4m3Numbers {
    static constexpr int BITS = 8;
    static constexpr bool SCALED = true, IN_TURNS = true;

    // bfloat16 has the same fields, wider: the exponent's bias grows by 120. Below 2⁻⁶ the codes have
    // no leading one, and bfloat16 has none so small: those eight come from a table.
    static __m512bh pairs(const uint8_t* p) {
        alignas(64) static constexpr bf16 small[32] = {0,      0x3b00, 0x3b80, 0x3bc0,
                                                       0x3c00, 0x3c20, 0x3c40, 0x3c60};  // m · 2⁻⁹
        const __m512i code = _mm512_cvtepu8_epi16(
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
        const __m512i size = _mm512_and_si512(code, _mm512_set1_epi16(0x7f));
        const __m512i sign = _mm512_slli_epi16(_mm512_srli_epi16(code, 7), 15);
        const __m512i normal = _mm512_add_epi16(_mm512_slli_epi16(size, 4), _mm512_set1_epi16(120 << 7));
        const __mmask32 below = _mm512_cmplt_epu16_mask(size, _mm512_set1_epi16(8));
        const __m512i found = _mm512_mask_permutexvar_epi16(normal, below, size, _mm512_load_si512(small));
        return (__m512bh)_mm512_or_si512(found, sign);
    }

    static void floats(const uint8_t* p, __m512& even, __m512& odd) {
        split((__m512i)pairs(p), even, odd);
    }
};

struct Int4Numbers {
    static constexpr int BITS = 4;
    static constexpr bool SCALED = true, IN_TURNS = true;

    // A byte holds two neighbours, as a pair of bfloat16 does; 16 codes are one table.
    static __m512bh pairs(const uint8_t* p) {
        const __m512i byte = bytes(p), values = _mm512_castps_si512(table());
        const __m512i high = _mm512_permutexvar_epi32(_mm512_srli_epi32(byte, 4), values);
        const __m512i low = _mm512_permutexvar_epi32(byte, _mm512_srli_epi32(values, 16));
        return (__m512bh)_mm512_or_si512(low, high);
    }

    static void floats(const uint8_t* p, __m512& even, __m512& odd) {
        const __m512i byte = bytes(p);
        even = _mm512_permutexvar_ps(byte, table());
        odd = _mm512_permutexvar_ps(_mm512_srli_epi32(byte, 4), table());
    }

    // 16 bytes, one in 32 bits. A permutation reads the lowest four alone.
    static __m512i bytes(const uint8_t* p) {
        return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    }

    // What each code stands for; bfloat16 is the upper half of each.
    static __m512 table() {
        return _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
    }
};
