// Attention of one query per sequence to its keys, read where they lie, through the block table.
//
// Nothing is gathered or padded. The work is cut into (sequence, KV head, 256 keys): each piece gives
// its greatest score m, its sum l = Σ e^(s − m) and Σ e^(s − m) · v, and pieces of one head are joined
// at the end ("flash decoding", Dao et al. 2023). All queries of a group read a key once (GQA). The
// cut does not depend on the batch, so neither do the numbers.
#pragma once

#include <algorithm>
#include <cmath>

#include "layer.h"

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
template <int GROUP>
void piece(const Pool& pool, const int64_t* table, int64_t head, const bf16* q, int64_t begin,
           int64_t end, float scale, float* partial) {
    const int64_t d = pool.d, size = pool.block_size, n = end - begin;
    const bf16* keys[PIECE];  // where each lies; its value lies `values` numbers further on
    const int64_t values = pool.num_blocks * pool.n_kv * size * d;
    for (int64_t key = begin, i = 0; i < n;) {
        const bf16* k = pool.vector(0, table[key / size], head, key % size);
        const int64_t left = std::min(size - key % size, n - i);
        for (int64_t j = 0; j < left; j++) keys[i++] = k + j * d;
        key += left;
    }
    alignas(64) float scores[GROUP][PIECE];
    for (int64_t key = 0; key < n; key++) {
        const bf16* k = keys[key];
        // A block's run is too short for the processor to guess the next one.
        const bf16* next = keys[std::min(key + AHEAD, n - 1)];
        for (int64_t i = 0; i < d; i += 2 * LANES) {
            _mm_prefetch(reinterpret_cast<const char*>(next + i), _MM_HINT_T0);
            _mm_prefetch(reinterpret_cast<const char*>(k + values + i), _MM_HINT_T1);
        }
        __m512 sums[GROUP];
        for (int g = 0; g < GROUP; g++) sums[g] = _mm512_setzero_ps();
        for (int64_t i = 0; i < d; i += 2 * LANES) {
            const auto part = (__m512bh)_mm512_loadu_si512(k + i);
#pragma GCC unroll 8
            for (int g = 0; g < GROUP; g++)
                sums[g] = _mm512_dpbf16_ps(sums[g], (__m512bh)_mm512_loadu_si512(q + g * d + i), part);
        }
#pragma GCC unroll 8
        for (int g = 0; g < GROUP; g++)
            scores[g][key] = scale * _mm512_reduce_add_ps(sums[g]);
    }
    for (int g = 0; g < GROUP; g++) {
        for (int64_t i = n; i % LANES; i++) scores[g][i] = -INFINITY;
        __m512 largest = _mm512_set1_ps(-INFINITY), total = _mm512_setzero_ps();
        for (int64_t i = 0; i < n; i += LANES)
            largest = _mm512_max_ps(largest, _mm512_load_ps(scores[g] + i));
        const float m = _mm512_reduce_max_ps(largest);
        for (int64_t i = 0; i < n; i += LANES) {
            const __m512 e = exp_ps(_mm512_sub_ps(_mm512_load_ps(scores[g] + i), _mm512_set1_ps(m)));
            _mm512_store_ps(scores[g] + i, e);
            total = _mm512_add_ps(total, e);
        }
        partial[g * (d + 2)] = m;
        partial[g * (d + 2) + 1] = _mm512_reduce_add_ps(total);
    }
    for (int64_t i = 0; i < d; i += 2 * LANES) {
        __m512 low[GROUP], high[GROUP];
        for (int g = 0; g < GROUP; g++) low[g] = high[g] = _mm512_setzero_ps();
        for (int64_t key = 0; key < n; key++) {
            const bf16* v = keys[key] + values + i;
            const __m512 v_low = load_bf16(v), v_high = load_bf16(v + LANES);
#pragma GCC unroll 8
            for (int g = 0; g < GROUP; g++) {
                const __m512 p = _mm512_set1_ps(scores[g][key]);
                low[g] = _mm512_fmadd_ps(p, v_low, low[g]);
                high[g] = _mm512_fmadd_ps(p, v_high, high[g]);
            }
        }
        for (int g = 0; g < GROUP; g++) {
            _mm512_storeu_ps(partial + g * (d + 2) + 2 + i, low[g]);
            _mm512_storeu_ps(partial + g * (d + 2) + 2 + i + LANES, high[g]);
        }
    }
}

inline void piece(int group, const Pool& pool, const int64_t* table, int64_t head, const bf16* q,
                  int64_t begin, int64_t end, float scale, float* partial) {
    using Piece = void (*)(const Pool&, const int64_t*, int64_t, const bf16*, int64_t, int64_t, float,
                           float*);
    static constexpr Piece all[MAX_GROUP] = {piece<1>, piece<2>, piece<3>, piece<4>,
                                             piece<5>, piece<6>, piece<7>, piece<8>};
    all[group - 1](pool, table, head, q, begin, end, scale, partial);
}

inline void decode(const Decode& a, const Pool& pool, int threads) {
    const int64_t n_kv = pool.n_kv, group = a.n_q / n_kv, d = pool.d, record = d + 2;
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
                piece(static_cast<int>(std::min<int64_t>(MAX_GROUP, group - g)), pool,
                      a.tables + i * a.width, head, q + g * d, begin, end, a.scale,
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
