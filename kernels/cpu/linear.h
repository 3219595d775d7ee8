// x · Wᵀ: from one row of x to many, W in bfloat16 or int8.
//
// W lies in panels of 32 output columns, and inside a panel piece by piece along the sum:
//
//     bfloat16   [panel][k / 2][32 columns][2]     two of x times 16 columns: one instruction
//     int8       [panel][k / 4][32 columns][4]     four of x times 16 columns: one instruction
//
// A product reads each panel once from memory, from its first byte to its last. That is all there is
// to gain with few rows, where memory is the limit; with many rows, up to 12 of them stay in
// registers while a panel passes, and the panel stays in the cache for the next 12. The sum of one
// row never depends on the other rows: a sequence's numbers are the same in any batch.
#pragma once

#include <algorithm>

#include "simd.h"

constexpr int PANEL = 2 * LANES;
constexpr int MAX_ROWS = 12;                // 24 sums, 2 pieces of W and 1 of x: 27 of 32 registers
constexpr int64_t PIECE_BYTES = PANEL * 4;  // of a panel, for one step along the sum
constexpr int64_t PREFETCH_BYTES = 2048;    // across the page boundary, where the processor stops

enum Output { BF16 = 0, FLOAT32 = 1, ADD_FLOAT32 = 2, SWIGLU_BF16 = 3 };

struct Product {
    const char* x;       // [m, k] bfloat16, or uint8 with 128 for zero
    int64_t m, k;        // k in whole pieces: even, or a multiple of 4
    const char* panels;  // [ceil(n / 32), …] as above, the last panel filled up with zeros
    int64_t n;
    const float* bias;   // [32 · number of panels], in the panels' order, or null
    void* out;           // [m, n], of SWIGLU_BF16 [m, n / 2]
    Output output;
    // int8 only: x = x_scale[row] · (byte − 128), W = w_scale[column] · number, and offset[column] =
    // 128 · Σ numbers, which the 128 adds to every sum.
    const float* x_scale;
    const float* w_scale;
    const int32_t* offset;
};

// What a tile of sums becomes. low and high: the panel's first and last 16 columns.
inline void finish(const Product& p, int64_t row, int64_t panel, __m512 low, __m512 high) {
    if (p.bias != nullptr) {
        low = _mm512_add_ps(low, _mm512_loadu_ps(p.bias + panel * PANEL));
        high = _mm512_add_ps(high, _mm512_loadu_ps(p.bias + panel * PANEL + LANES));
    }
    if (p.output == SWIGLU_BF16) {
        // The panel holds 16 columns of the gate, then the same 16 of up: silu(gate) · up.
        const __m512 one = _mm512_set1_ps(1.0f);
        const __m512 bottom = _mm512_add_ps(one, exp_ps(_mm512_sub_ps(_mm512_setzero_ps(), low)));
        const __m512 y = _mm512_mul_ps(_mm512_div_ps(low, bottom), high);
        const int64_t width = p.n / 2, left = std::min<int64_t>(LANES, width - panel * LANES);
        bf16* out = static_cast<bf16*>(p.out) + row * width + panel * LANES;
        store_bf16(out, y, static_cast<__mmask16>((1u << left) - 1));
        return;
    }
    const int64_t first = row * p.n + panel * PANEL;
    const int64_t left = std::min<int64_t>(PANEL, p.n - panel * PANEL);
    const auto lanes = static_cast<uint32_t>((uint64_t{1} << left) - 1);
    const auto low_lanes = static_cast<__mmask16>(lanes);
    const auto high_lanes = static_cast<__mmask16>(lanes >> LANES);
    if (p.output == BF16) {
        bf16* out = static_cast<bf16*>(p.out) + first;
        store_bf16(out, low, low_lanes);
        store_bf16(out + LANES, high, high_lanes);
        return;
    }
    float* out = static_cast<float*>(p.out) + first;
    if (p.output == ADD_FLOAT32) {
        low = _mm512_add_ps(low, _mm512_maskz_loadu_ps(low_lanes, out));
        high = _mm512_add_ps(high, _mm512_maskz_loadu_ps(high_lanes, out + LANES));
    }
    _mm512_mask_storeu_ps(out, low_lanes, low);
    _mm512_mask_storeu_ps(out + LANES, high_lanes, high);
}

// One step of a sum, for 16 columns.
struct Bf16 {
    using Sum = __m512;
    static constexpr int64_t BYTES = 2;  // of a number of x
    static Sum zero() { return _mm512_setzero_ps(); }
    static Sum add(Sum sum, __m512i x, __m512i w) {
        return _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)w);
    }
    static __m512 value(const Product&, int64_t, int64_t, Sum sum) { return sum; }
};

struct Int8 {
    using Sum = __m512i;
    static constexpr int64_t BYTES = 1;
    static Sum zero() { return _mm512_setzero_si512(); }
    static Sum add(Sum sum, __m512i x, __m512i w) {
        // By hand: from the intrinsic GCC 12 makes three instructions, two of them copies.
        asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
        return sum;
    }
    static __m512 value(const Product& p, int64_t row, int64_t column, Sum sum) {
        const __m512i plain = _mm512_sub_epi32(sum, _mm512_loadu_si512(p.offset + column));
        const __m512 scale =
            _mm512_mul_ps(_mm512_set1_ps(p.x_scale[row]), _mm512_loadu_ps(p.w_scale + column));
        return _mm512_mul_ps(_mm512_cvtepi32_ps(plain), scale);
    }
};

// ROWS rows of x, from `row` on, times one panel.
template <class Kind, int ROWS>
void tile(const Product& p, int64_t row, int64_t panel) {
    const int64_t x_bytes = p.k * Kind::BYTES, pieces = x_bytes / 4;
    const char* x = p.x + row * x_bytes;
    const char* w = p.panels + panel * pieces * PIECE_BYTES;
    typename Kind::Sum low[ROWS], high[ROWS];
    for (int r = 0; r < ROWS; r++) low[r] = high[r] = Kind::zero();
    for (int64_t i = 0; i < pieces; i++, w += PIECE_BYTES) {
        const __m512i w_low = _mm512_loadu_si512(w), w_high = _mm512_loadu_si512(w + 64);
        _mm_prefetch(w + PREFETCH_BYTES, _MM_HINT_T0);
        _mm_prefetch(w + PREFETCH_BYTES + 64, _MM_HINT_T0);
#pragma GCC unroll 12
        for (int r = 0; r < ROWS; r++) {
            int32_t piece;
            std::memcpy(&piece, x + r * x_bytes + 4 * i, 4);
            const __m512i all = _mm512_set1_epi32(piece);
            low[r] = Kind::add(low[r], all, w_low);
            high[r] = Kind::add(high[r], all, w_high);
        }
    }
    for (int r = 0; r < ROWS; r++)
        finish(p, row + r, panel, Kind::value(p, row + r, panel * PANEL, low[r]),
               Kind::value(p, row + r, panel * PANEL + LANES, high[r]));
}

template <class K>
void tile(const Product& p, int64_t rows, int64_t row, int64_t panel) {
    using Tile = void (*)(const Product&, int64_t, int64_t);
    static constexpr Tile tiles[MAX_ROWS] = {tile<K, 1>,  tile<K, 2>,  tile<K, 3>, tile<K, 4>,
                                             tile<K, 5>,  tile<K, 6>,  tile<K, 7>, tile<K, 8>,
                                             tile<K, 9>,  tile<K, 10>, tile<K, 11>, tile<K, 12>};
    tiles[rows - 1](p, row, panel);
}

// The work is cut into panels, and where there are few of them for the threads, into groups of rows.
template <class Kind>
void multiply(const Product& p, int threads) {
    const int64_t panels = (p.n + PANEL - 1) / PANEL;
    const int64_t tiles = (p.m + MAX_ROWS - 1) / MAX_ROWS;
    const int64_t cuts = std::min<int64_t>(tiles, (4 * threads + panels - 1) / panels);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t job = 0; job < panels * cuts; job++) {
        const int64_t panel = job / cuts, cut = job % cuts;
        const int64_t end = tiles * (cut + 1) / cuts;
        for (int64_t t = tiles * cut / cuts; t < end; t++) {
            const int64_t row = p.m * t / tiles;  // tiles of nearly equal size
            tile<Kind>(p, p.m * (t + 1) / tiles - row, row, panel);
        }
    }
}

// x [m, k] bfloat16 → bytes [m, k] with 128 for zero, each row by its own largest magnitude, and
// scale [m]. A row of zeros has scale 0; k: a multiple of 4.
inline void quantize_rows(const bf16* x, int64_t m, int64_t k, uint8_t* bytes, float* scale,
                          int threads) {
#pragma omp parallel for schedule(static) num_threads(threads) if (m >= TOKENS_FOR_THREADS)
    for (int64_t row = 0; row < m; row++) {
        const bf16* in = x + row * k;
        __m512 most = _mm512_setzero_ps();
        for (int64_t i = 0; i < k; i += LANES)
            most = _mm512_max_ps(most, _mm512_abs_ps(load_bf16(in + i, lanes_left(k - i))));
        const float largest = _mm512_reduce_max_ps(most);
        scale[row] = largest / 127;
        const __m512 by = _mm512_set1_ps(largest > 0 ? 127 / largest : 0);
        for (int64_t i = 0; i < k; i += LANES) {
            const __mmask16 lanes = lanes_left(k - i);
            const __m512i number = _mm512_cvtps_epi32(_mm512_mul_ps(load_bf16(in + i, lanes), by));
            const __m512i shifted = _mm512_add_epi32(number, _mm512_set1_epi32(128));
            _mm_mask_storeu_epi8(bytes + row * k + i, lanes, _mm512_cvtepi32_epi8(shifted));
        }
    }
}
