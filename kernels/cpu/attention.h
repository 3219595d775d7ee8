// Attention of one query per sequence to its keys, read where they lie, through the block table.
//
// Nothing is gathered or padded. The work is cut into (sequence, KV head, 256 keys): each piece gives
// its greatest score m, its sum l = Σ e^(s − m) and Σ e^(s − m) · v, and pieces of one head are joined
// at the end ("flash decoding", Dao et al. 2023). All queries of a group read a key once (GQA). The
// cut does not depend on the batch, so neither do the numbers. Codes of 8 and 4 bits are widened in
// registers; the scale of a key meets its score, that of a value its weight.
#pragma once

#include <algorithm>
#include <cmath>

#include "formats.h"

constexpr int64_t PIECE = 256;  // keys
constexpr int64_t AHEAD = 16;   // keys
constexpr int MAX_GROUP = 8;    // queries at once; larger groups read their keys more than once

struct Decode {
    const bf16* qkv;       // [t, row_size], a row begins with its n_q queries
    int64_t row_size;
    const int64_t* rows;   // [b], which rows decode
    int64_t b, n_q;
    const int64_t* tables; // [b, width] blocks, the first holding position 0 of begins and ends
    int64_t width;
    const int64_t* begins; // [b], first key in view
    const int64_t* ends;   // [b], one after the last
    float scale;
    bf16* out;             // [t, n_q, d], the decoding rows are written
    float* partial;        // [b, n_kv, pieces, group, d + 2]: m, l, sums
    int64_t pieces;        // of the longest sequence
};

// One piece for GROUP queries q (each d numbers, one after another): keys begin … end − 1.
template <class Numbers, int GROUP>
void piece(const Blocks& blocks, const int64_t* table, int64_t head, const bf16* q, int64_t begin,
           int64_t end, float scale, float* partial) {
    const int64_t d = blocks.d, size = blocks.block_size, n = end - begin;
    const int64_t bytes = d * Numbers::BITS / 8;
    const uint8_t* keys[PIECE];  // where each lies; its value lies `values` bytes further on
    const int64_t values = blocks.value - blocks.key;
    float key_scale[PIECE], value_scale[PIECE];
    for (int64_t key = begin, i = 0; i < n;) {
        const int64_t block = table[key / size], token = key % size;
        const int64_t left = std::min(size - token, n - i);
        const uint8_t* k = blocks.key + ((block * blocks.n_kv + head) * size + token) * bytes;
        for (int64_t j = 0; j < left; j++) keys[i + j] = k + j * bytes;
        if constexpr (Numbers::SCALED) {
            const int64_t *k = blocks.key_steps, *v = blocks.value_steps;
            const float* of_key = blocks.key_scale + block * k[0] + head * k[1] + token * k[2];
            const float* of_value = blocks.value_scale + block * v[0] + head * v[1] + token * v[2];
            for (int64_t j = 0; j < left; j++) {
                key_scale[i + j] = of_key[j * k[2]];
                value_scale[i + j] = of_value[j * v[2]];
            }
        }
        i += left, key += left;
    }
    alignas(64) float scores[GROUP][PIECE];
    for (int64_t key = 0; key < n; key++) {
        const uint8_t* k = keys[key];
        // A block's run is too short for the processor to guess the next one.
        const uint8_t* next = keys[std::min(key + AHEAD, n - 1)];
        for (int64_t i = 0; i < bytes; i += 64) {
            _mm_prefetch(reinterpret_cast<const char*>(next + i), _MM_HINT_T0);
            _mm_prefetch(reinterpret_cast<const char*>(k + values + i), _MM_HINT_T1);
        }
        __m512 sums[GROUP];
        for (int g = 0; g < GROUP; g++) sums[g] = _mm512_setzero_ps();
        for (int64_t i = 0; i < d; i += STEP) {
            const __m512bh part = Numbers::pairs(k + i * Numbers::BITS / 8);
#pragma GCC unroll 8
            for (int g = 0; g < GROUP; g++)
                sums[g] = _mm512_dpbf16_ps(sums[g], (__m512bh)_mm512_loadu_si512(q + g * d + i), part);
        }
        float own = scale;
        if constexpr (Numbers::SCALED) own *= key_scale[key];
#pragma GCC unroll 8
        for (int g = 0; g < GROUP; g++)
            scores[g][key] = own * _mm512_reduce_add_ps(sums[g]);
    }
    for (int g = 0; g < GROUP; g++) {
        for (int64_t i = n; i % LANES; i++) scores[g][i] = -INFINITY;
        __m512 largest = _mm512_set1_ps(-INFINITY), total = _mm512_setzero_ps();
        for (int64_t i = 0; i < n; i += LANES)
            largest = _mm512_max_ps(largest, _mm512_load_ps(scores[g] + i));
        const float m = _mm512_reduce_max_ps(largest);
        for (int64_t i = 0; i < n; i += LANES) {
            __m512 e = exp_ps(_mm512_sub_ps(_mm512_load_ps(scores[g] + i), _mm512_set1_ps(m)));
            total = _mm512_add_ps(total, e);
            if constexpr (Numbers::SCALED)
                e = _mm512_mul_ps(e, _mm512_maskz_loadu_ps(lanes_left(n - i), value_scale + i));
            _mm512_store_ps(scores[g] + i, e);
        }
        partial[g * (d + 2)] = m;
        partial[g * (d + 2) + 1] = _mm512_reduce_add_ps(total);
    }
    for (int64_t i = 0; i < d; i += STEP) {
        const int64_t column = values + i * Numbers::BITS / 8;
        __m512 first[GROUP], second[GROUP];
        for (int g = 0; g < GROUP; g++) first[g] = second[g] = _mm512_setzero_ps();
        for (int64_t key = 0; key < n; key++) {
            __m512 v_first, v_second;
            Numbers::floats(keys[key] + column, v_first, v_second);
#pragma GCC unroll 8
            for (int g = 0; g < GROUP; g++) {
                const __m512 p = _mm512_set1_ps(scores[g][key]);
                first[g] = _mm512_fmadd_ps(p, v_first, first[g]);
                second[g] = _mm512_fmadd_ps(p, v_second, second[g]);
            }
        }
        for (int g = 0; g < GROUP; g++) {
            if constexpr (Numbers::IN_TURNS) in_order(first[g], second[g]);
            _mm512_storeu_ps(partial + g * (d + 2) + 2 + i, first[g]);
            _mm512_storeu_ps(partial + g * (d + 2) + 2 + i + LANES, second[g]);
        }
    }
}

using Piece = void (*)(const Blocks&, const int64_t*, int64_t, const bf16*, int64_t, int64_t, float,
                       float*);

// `piece` for 1 … MAX_GROUP queries.
template <class Numbers>
const Piece* pieces() {
    static constexpr Piece all[MAX_GROUP] = {
        piece<Numbers, 1>, piece<Numbers, 2>, piece<Numbers, 3>, piece<Numbers, 4>,
        piece<Numbers, 5>, piece<Numbers, 6>, piece<Numbers, 7>, piece<Numbers, 8>};
    return all;
}

inline const Piece* pieces(Format format) {
    switch (format) {
        case INT8: return pieces<Int8Numbers>();
        case FP8_E4M3: return pieces<E4m3Numbers>();
        case INT4: return pieces<Int4Numbers>();
        default: return pieces<NativeNumbers>();
    }
}

inline void decode(const Decode& a, const Blocks& blocks, Format format, int threads) {
    const int64_t n_kv = blocks.n_kv, group = a.n_q / n_kv, d = blocks.d, record = d + 2;
    const Piece* by_group = pieces(format);
    const int64_t jobs = a.b * n_kv * a.pieces;
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(dynamic)
        for (int64_t job = 0; job < jobs; job++) {
            const int64_t i = job / (n_kv * a.pieces), head = job / a.pieces % n_kv;
            const int64_t begin = a.begins[i] + job % a.pieces * PIECE;
            const int64_t end = std::min(a.ends[i], begin + PIECE);
            if (begin >= end) continue;
            const bf16* q = a.qkv + a.rows[i] * a.row_size + head * group * d;
            for (int64_t g = 0; g < group; g += MAX_GROUP)
                by_group[std::min<int64_t>(MAX_GROUP, group - g) - 1](
                    blocks, a.tables + i * a.width, head, q + g * d, begin, end, a.scale,
                    a.partial + (job * group + g) * record);
        }
#pragma omp for schedule(static)
        for (int64_t query = 0; query < a.b * a.n_q; query++) {
            const int64_t i = query / a.n_q, head = query % a.n_q / group, g = query % group;
            const int64_t pieces = (a.ends[i] - a.begins[i] + PIECE - 1) / PIECE;
            const int64_t step = group * record;
            const float* first = a.partial + ((i * n_kv + head) * a.pieces * group + g) * record;
            float m = -INFINITY, l = 0;
            for (int64_t p = 0; p < pieces; p++) m = std::max(m, first[p * step]);
            for (int64_t p = 0; p < pieces; p++)
                l += std::exp(first[p * step] - m) * first[p * step + 1];
            bf16* out = a.out + (a.rows[i] * a.n_q + query % a.n_q) * d;
            for (int64_t j = 0; j < d; j += LANES) {
                __m512 sum = _mm512_setzero_ps();
                for (int64_t p = 0; p < pieces; p++) {
                    const float share = std::exp(first[p * step] - m) / l;
                    sum = _mm512_fmadd_ps(_mm512_set1_ps(share),
                                          _mm512_loadu_ps(first + p * step + 2 + j), sum);
                }
                store_bf16(out + j, sum);
            }
        }
    }
}
