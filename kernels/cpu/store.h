// Keys and values of new tokens rounded to codes of 8 and 4 bits, bit for bit as kernels/kv_blocks.py
// says it: divided by a scale, clamped, rounded to even.
#pragma once

#include <algorithm>

#include "formats.h"

// float32 within ±448 → codes, for lack of an instruction.
inline __m512i encode_e4m3(__m512 x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i size = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
    // 20 of float32's 23 bits of mantissa go; the exponent's bias falls from 127 to 7.
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(size, 20), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(_mm512_add_epi32(size, _mm512_set1_epi32(0x7ffff)), odd);
    const __m512i normal = _mm512_sub_epi32(_mm512_srli_epi32(up, 20), _mm512_set1_epi32(120 << 3));
    // Below 2⁻⁶ the codes are even steps of 2⁻⁹: the last bits of 2¹⁴ + |x|.
    const __m512 sum = _mm512_add_ps(_mm512_castsi512_ps(size), _mm512_set1_ps(16384.0f));
    const __m512i small = _mm512_sub_epi32(_mm512_castps_si512(sum), _mm512_set1_epi32(0x46800000));
    const __mmask16 below = _mm512_cmplt_epi32_mask(size, _mm512_set1_epi32(0x3c800000));
    const __m512i code = _mm512_mask_mov_epi32(normal, below, small);
    const __m512i sign = _mm512_and_si512(_mm512_srli_epi32(bits, 24), _mm512_set1_epi32(0x80));
    return _mm512_or_si512(code, sign);
}

constexpr float TOP = 0x1p100f;  // the largest number for which a scale is made

inline float largest_code(Format format) {
    return format == INT8 ? 127.0f : format == INT4 ? 7.0f : 448.0f;
}

// d numbers x → codes at `stored`. dynamic: *scale becomes what makes the largest number the largest
// code, or 1 if there is none; otherwise it is used as it is.
inline void encode(const bf16* x, int64_t d, Format format, bool dynamic, float* scale, uint8_t* stored) {
    const float most = largest_code(format);
    if (dynamic) {
        __m512 top = _mm512_setzero_ps();
        for (int64_t i = 0; i < d; i += LANES)
            top = _mm512_max_ps(top, _mm512_abs_ps(load_bf16(x + i)));
        const float found = std::min(_mm512_reduce_max_ps(top), TOP) / most;
        *scale = found > 0 ? found : 1.0f;
    }
    const __m512 divisor = _mm512_set1_ps(*scale), high = _mm512_set1_ps(most);
    for (int64_t i = 0; i < d; i += LANES) {
        __m512 y = _mm512_div_ps(load_bf16(x + i), divisor);
        y = _mm512_max_ps(_mm512_min_ps(y, high), _mm512_sub_ps(_mm512_setzero_ps(), high));
        if (format == FP8_E4M3) {
            _mm_storeu_si128(reinterpret_cast<__m128i*>(stored + i), _mm512_cvtepi32_epi8(encode_e4m3(y)));
            continue;
        }
        __m512i code = _mm512_cvtps_epi32(y);
        if (format == INT8) {
            _mm_storeu_si128(reinterpret_cast<__m128i*>(stored + i), _mm512_cvtepi32_epi8(code));
            continue;
        }
        // Two neighbours share 64 bits; the second one's four come to stand above the first one's.
        code = _mm512_add_epi32(code, _mm512_set1_epi32(8));
        code = _mm512_or_si512(code, _mm512_srli_epi64(code, 28));
        _mm_storel_epi64(reinterpret_cast<__m128i*>(stored + i / 2), _mm512_cvtepi64_epi8(code));
    }
}

// qkv [t, n_q + 2 · n_kv, d]: K and V of each token → its slot, where that is not negative.
inline void store(const bf16* qkv, int64_t t, int64_t n_q, const int64_t* slots, const Blocks& blocks,
                  Format format, bool dynamic, int threads) {
    const int64_t n_kv = blocks.n_kv, d = blocks.d, bytes = format == INT4 ? d / 2 : d;
#pragma omp parallel for schedule(static) num_threads(threads) if (t >= TOKENS_FOR_THREADS)
    for (int64_t row = 0; row < t; row++) {
        if (slots[row] < 0) continue;
        const bf16* key = qkv + (row * (n_q + 2 * n_kv) + n_q) * d;
        const int64_t block = slots[row] / blocks.block_size, token = slots[row] % blocks.block_size;
        const int64_t *k = blocks.key_steps, *v = blocks.value_steps;
        for (int64_t head = 0; head < n_kv; head++) {
            const int64_t place = ((block * n_kv + head) * blocks.block_size + token) * bytes;
            encode(key + head * d, d, format, dynamic,
                   blocks.key_scale + block * k[0] + head * k[1] + token * k[2], blocks.key + place);
            encode(key + (n_kv + head) * d, d, format, dynamic,
                   blocks.value_scale + block * v[0] + head * v[1] + token * v[2],
                   blocks.value + place);
        }
    }
}
