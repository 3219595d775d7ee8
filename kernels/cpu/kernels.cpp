// The kernels' entry points, as C functions: see attention.h, layer.h, linear.h, store.h for what they do,
// and __init__.py for their use on tensors.
#include "attention.h"
#include "layer.h"
#include "linear.h"
#include "store.h"

extern "C" {

void kvs_linear(const void* x, int64_t m, int64_t k, const void* panels, int64_t n, const float* bias,
                void* out, int output, int threads) {
    multiply<Bf16>({static_cast<const char*>(x), m, k, static_cast<const char*>(panels), n, bias, out,
                    static_cast<Output>(output), nullptr, nullptr, nullptr},
                   threads);
}

void kvs_linear_int8(const bf16* x, int64_t m, int64_t k, const void* panels, int64_t n,
                     const float* bias, void* out, int output, const float* w_scale,
                     const int32_t* offset, uint8_t* bytes, float* x_scale, int threads) {
    quantize_rows(x, m, k, bytes, x_scale, threads);
    multiply<Int8>({reinterpret_cast<const char*>(bytes), m, k, static_cast<const char*>(panels), n,
                    bias, out, static_cast<Output>(output), x_scale, w_scale, offset},
                   threads);
}

void kvs_rms_norm(const float* x, int64_t t, int64_t h, const float* weight, float eps, bf16* out,
                  int threads) {
    rms_norm(x, t, h, weight, eps, out, threads);
}

void kvs_rotate_and_store(bf16* qkv, int64_t t, int64_t n_q, const float* cos, const float* sin,
                          const float* weights, float eps, const int64_t* slots, bf16* pool,
                          int64_t num_blocks, int64_t n_kv, int64_t block_size, int64_t d,
                          int threads) {
    rotate_and_store(qkv, t, n_q, cos, sin, weights, eps, slots, {pool, num_blocks, n_kv, block_size, d},
                     threads);
}

void kvs_decode(const bf16* qkv, int64_t row_size, const int64_t* rows, int64_t b, int64_t n_q,
                const int64_t* tables, int64_t width, const int64_t* begins, const int64_t* ends,
                float scale, bf16* out, float* partial, int64_t pieces, uint8_t* key,
                uint8_t* value, int format, int64_t n_kv, int64_t block_size, int64_t d,
                float* key_scale, float* value_scale, const int64_t* key_steps,
                const int64_t* value_steps, int threads) {
    decode({qkv, row_size, rows, b, n_q, tables, width, begins, ends, scale, out, partial, pieces},
           {key, value, n_kv, block_size, d, key_scale, value_scale, key_steps, value_steps},
           static_cast<Format>(format), threads);
}

void kvs_store(const bf16* qkv, int64_t t, int64_t n_q, const int64_t* slots, int dynamic, uint8_t* key,
               uint8_t* value, int format, int64_t n_kv, int64_t block_size, int64_t d,
               float* key_scale, float* value_scale, const int64_t* key_steps,
               const int64_t* value_steps, int threads) {
    store(qkv, t, n_q, slots,
          {key, value, n_kv, block_size, d, key_scale, value_scale, key_steps, value_steps},
          static_cast<Format>(format), dynamic != 0, threads);
}
}
