"""What is launched for a common model, on tensors without memory: to be compiled, not run."""

from __future__ import annotations

import torch

from kernels.gpu.blocks import copy_launch, move_launch
from kernels.gpu.launch import Launch
from kernels.gpu.paged_decode import combine_kernel, decode_launches
from kernels.gpu.paged_prefill import prefill_launch
from kernels.gpu.rms_norm import norm_launch
from kernels.gpu.rotate_and_store import rotate_launch
from kernels.gpu.store_kv import store_launch
from kernels.kv_blocks import FORMATS, KVBlocks

FORMS = ("native", "int8", "fp8_e4m3", "int4")
HEAD_DIMS = (64, 128)

_N_Q, _N_KV, _BLOCK_SIZE, _WIDTH = 32, 8, 16, 512
"""As Llama-3-8B has them; a context of 8,192 tokens."""


def shipped_launches(form: str, d: int) -> list[Launch]:
    """Every kernel that depends on the format of the blocks, for bfloat16 activations and a
    head_dim; for native blocks also all the others."""

    def tensor(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    stored = {name: dtype for dtype, name in FORMATS.items()}.get(form, torch.bfloat16)
    pool = tensor(2, 10_000, _N_KV, _BLOCK_SIZE, d // 2 if form == "int4" else d, dtype=stored)
    scales = tensor(*pool.shape[:-1], dtype=torch.float32)
    quantised = form != "native"
    blocks = KVBlocks(pool[0], pool[1], *((scales[0], scales[1]) if quantised else ()))
    query, new = tensor(4, _N_Q, d), tensor(4, _N_KV, d)
    table = tensor(4, _WIDTH, dtype=torch.int32)
    lengths, starts = tensor(4, dtype=torch.int32), tensor(5, dtype=torch.int32)
    slots = tensor(4, dtype=torch.int64)
    launches = [
        *decode_launches(query, blocks, table, lengths, d**-0.5, None, None, query),
        prefill_launch(query, blocks, table, starts, lengths, 1024, d**-0.5, None, query),
        store_launch(new, new, blocks, slots, dynamic=quantised),
    ]
    if quantised:
        return [launch for launch in launches if launch.kernel is not combine_kernel]
    stream = tensor(4, _N_Q * d, dtype=torch.float32)
    angles = tensor(4, d // 2, dtype=torch.float32)
    qkv = tensor(4, _N_Q + 2 * _N_KV, d)
    out = tensor(4, _N_Q * d)
    return [
        *launches,
        rotate_launch(qkv, angles, angles, blocks, slots, None, 0.0),
        norm_launch(stream, tensor(_N_Q * d), 1e-5, out, out),
        copy_launch(pool, slots, slots),
        move_launch(pool, slots, pool, gather=True),
        move_launch(pool, slots, pool, gather=False),
    ]
