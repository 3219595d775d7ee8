// The small steps of a layer: normalise; turn queries and keys, and store keys and values.
#pragma once

#include "simd.h"

// x [t, h] → out [t, h] = x / √(mean(x²) + eps) · weight.
inline void rms_norm(const float* x, int64_t t, int64_t h, const float* weight, float eps, bf16* out,
                     int threads) {
#pragma omp parallel for schedule(static) num_threads(threads) if (t >= TOKENS_FOR_THREADS)
    for (int64_t row = 0; row < t; row++) {
        const float* in = x + row * h;
        __m512 squares = _mm512_setzero_ps();
        for (int64_t i = 0; i < h; i += LANES) {
            const __mmask16 lanes = lanes_left(h - i);
            const __m512 v = _mm512_maskz_loadu_ps(lanes, in + i);
            squares = _mm512_fmadd_ps(v, v, squares);
        }
        const float mean = _mm512_reduce_add_ps(squares) / static_cast<float>(h);
        const __m512 scale = _mm512_set1_ps(1.0f / __builtin_sqrtf(mean + eps));
        for (int64_t i = 0; i < h; i += LANES) {
            const __mmask16 lanes = lanes_left(h - i);
            const __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, in + i), scale);
            store_bf16(out + row * h + i, _mm512_mul_ps(v, _mm512_maskz_loadu_ps(lanes, weight + i)),
                       lanes);
        }
    }
}

// Where keys and values lie: [2, num_blocks, n_kv, block_size, d], K then V.
struct Pool {
    bf16* data;
    int64_t num_blocks, n_kv, block_size, d;

    bf16* vector(int64_t side, int64_t block, int64_t head, int64_t offset) const {
        return data + (((side * num_blocks + block) * n_kv + head) * block_size + offset) * d;
    }
};

// qkv [t, n_q + 2 · n_kv, d]: queries and keys are normalised (with weights, [n_q + n_kv, d], as Qwen3
// does) and turned in place; keys and values are copied to their slots, where a slot is not negative.
// cos, sin: [t, d / 2]; pair (i, i + d / 2) turns by angle i.
inline void rotate_and_store(bf16* qkv, int64_t t, int64_t n_q, const float* cos, const float* sin,
                             const float* weights, float eps, const int64_t* slots, const Pool& pool,
                             int threads) {
    const int64_t n_kv = pool.n_kv, d = pool.d, half = d / 2;
#pragma omp parallel for schedule(static) num_threads(threads) if (t >= TOKENS_FOR_THREADS)
    for (int64_t row = 0; row < t; row++) {
        bf16* token = qkv + row * (n_q + 2 * n_kv) * d;
        for (int64_t head = 0; head < n_q + n_kv; head++) {
            bf16* v = token + head * d;
            __m512 scale = _mm512_set1_ps(1.0f);
            const float* weight = weights == nullptr ? nullptr : weights + head * d;
            if (weight != nullptr) {
                __m512 squares = _mm512_setzero_ps();
                for (int64_t i = 0; i < d; i += LANES) {
                    const __m512 x = load_bf16(v + i);
                    squares = _mm512_fmadd_ps(x, x, squares);
                }
                const float mean = _mm512_reduce_add_ps(squares) / static_cast<float>(d);
                scale = _mm512_set1_ps(1.0f / __builtin_sqrtf(mean + eps));
            }
            for (int64_t i = 0; i < half; i += LANES) {
                __m512 first = load_bf16(v + i), second = load_bf16(v + half + i);
                if (weight != nullptr) {
                    first = _mm512_mul_ps(_mm512_mul_ps(first, scale), _mm512_loadu_ps(weight + i));
                    second = _mm512_mul_ps(_mm512_mul_ps(second, scale),
                                           _mm512_loadu_ps(weight + half + i));
                }
                const __m512 c = _mm512_loadu_ps(cos + row * half + i);
                const __m512 s = _mm512_loadu_ps(sin + row * half + i);
                store_bf16(v + i, _mm512_fmsub_ps(first, c, _mm512_mul_ps(second, s)));
                store_bf16(v + half + i, _mm512_fmadd_ps(second, c, _mm512_mul_ps(first, s)));
            }
        }
        if (slots == nullptr || slots[row] < 0) continue;
        const int64_t block = slots[row] / pool.block_size, offset = slots[row] % pool.block_size;
        for (int64_t head = 0; head < n_kv; head++) {
            std::memcpy(pool.vector(0, block, head, offset), token + (n_q + head) * d, d * 2);
            std::memcpy(pool.vector(1, block, head, offset), token + (n_q + n_kv + head) * d, d * 2);
        }
    }
}
