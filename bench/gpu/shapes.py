"""What is measured: shapes for a whole run, a quick one, and a rehearsal without a GPU."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Heads:
    """Query heads, KV heads and head_dim of a layer."""

    n_q: int
    n_kv: int
    d: int

    def __str__(self) -> str:
        return f"{self.n_q}/{self.n_kv}×{self.d}"


FORMATS = ("native", "fp8_e4m3", "int8", "int4")
"""fp8 has one scale for all of K and one for V, int8 and int4 a scale of each token and head: as
the engine's kv_dtype "fp8" and "int8_per_token_head" have them."""


@dataclass(frozen=True, slots=True)
class DecodeCase:
    """batch sequences of `context` keys each, one query each."""

    batch: int
    context: int
    heads: Heads
    form: str = "native"
    block_size: int = 16

    def __str__(self) -> str:
        return f"decode {self.batch} × {self.context:,}, {self.heads}, {self.form}"


@dataclass(frozen=True, slots=True)
class PrefillCase:
    """batch sequences with `queries` tokens each, after a prefix of `prefix` computed ones."""

    batch: int
    queries: int
    prefix: int
    heads: Heads
    form: str = "native"
    block_size: int = 16

    def __str__(self) -> str:
        after = f" after {self.prefix:,}" if self.prefix else ""
        return f"prefill {self.batch} × {self.queries:,}{after}, {self.heads}, {self.form}"


@dataclass(frozen=True, slots=True)
class Load:
    """What an engine is given. requests: prompts of `prompt` tokens that are there at once, each
    with `outputs` tokens. single: tokens of one request that has the engine to itself."""

    requests: int
    prompt: int
    outputs: int
    single: int
    max_num_batched_tokens: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """copy_bytes: of the copy that stands for the memory's bandwidth. matmul: side of the product
    that stands for the tensor cores' rate. tokens: of store, norm and rotation. moved: blocks of a
    move. runs: that a sample is the mean of."""

    decode: tuple[DecodeCase, ...]
    prefill: tuple[PrefillCase, ...]
    paging: tuple[DecodeCase, ...]
    paging_prefill: tuple[PrefillCase, ...]
    checked: tuple[Heads, ...]
    checked_length: int
    heads: Heads
    hidden: int
    tokens: tuple[int, ...]
    moved: int
    copy_bytes: int
    matmul: int
    load: Load
    repeats: int
    runs: int


LLAMA = Heads(32, 8, 128)
SMOL = Heads(9, 3, 64)
MHA, WIDE, MQA = Heads(32, 32, 128), Heads(64, 8, 128), Heads(71, 1, 64)

FULL = Sizes(
    decode=(
        *(
            DecodeCase(batch, context, LLAMA, form)
            for context in (1024, 8192, 32_768)
            for batch in (1, 8, 64)
            for form in FORMATS
        ),
        *(
            DecodeCase(32, 4096, heads, form)
            for heads in (MHA, WIDE, MQA, SMOL)
            for form in ("native", "fp8_e4m3", "int8")
        ),
    ),
    prefill=(
        *(PrefillCase(1, length, 0, LLAMA) for length in (512, 2048, 8192, 32_768)),
        *(PrefillCase(1, 512, prefix, LLAMA) for prefix in (2048, 16_384)),
        PrefillCase(16, 512, 0, LLAMA),
        PrefillCase(16, 64, 4096, LLAMA),
        *(PrefillCase(4, 2048, 0, heads) for heads in (MHA, WIDE, SMOL)),
        *(PrefillCase(4, 2048, 0, LLAMA, form) for form in FORMATS[1:]),
    ),
    paging=tuple(
        DecodeCase(batch, context, LLAMA, block_size=block_size)
        for batch, context in ((1, 32_768), (32, 4096))
        for block_size in (16, 32, 64, 128)
    ),
    paging_prefill=(PrefillCase(4, 2048, 0, LLAMA), PrefillCase(1, 8192, 0, LLAMA)),
    checked=(LLAMA, WIDE, MQA, SMOL, Heads(8, 8, 80), Heads(16, 2, 96), Heads(8, 1, 256)),
    checked_length=1000,
    heads=LLAMA,
    hidden=4096,
    tokens=(64, 8192),
    moved=4096,
    copy_bytes=1 << 30,
    matmul=8192,
    load=Load(256, 256, 128, 128, 8192),
    repeats=5,
    runs=10,
)

QUICK = Sizes(
    decode=tuple(
        DecodeCase(batch, context, LLAMA, form)
        for batch, context in ((1, 8192), (32, 4096))
        for form in FORMATS
    ),
    prefill=(
        PrefillCase(1, 2048, 0, LLAMA),
        PrefillCase(1, 512, 4096, LLAMA),
        PrefillCase(4, 2048, 0, LLAMA, "fp8_e4m3"),
    ),
    paging=(DecodeCase(32, 4096, LLAMA),),
    paging_prefill=(PrefillCase(4, 2048, 0, LLAMA),),
    checked=(LLAMA, SMOL),
    checked_length=300,
    heads=LLAMA,
    hidden=4096,
    tokens=(8192,),
    moved=1024,
    copy_bytes=1 << 30,
    matmul=8192,
    load=Load(64, 128, 64, 64, 8192),
    repeats=5,
    runs=3,
)

_FEW = Heads(4, 2, 64)

TINY = Sizes(
    decode=tuple(DecodeCase(2, 40, _FEW, form) for form in FORMATS),
    prefill=(PrefillCase(1, 20, 0, _FEW), PrefillCase(2, 6, 18, _FEW, "int8")),
    paging=(DecodeCase(2, 40, _FEW),),
    paging_prefill=(PrefillCase(1, 20, 0, _FEW),),
    checked=(_FEW,),
    checked_length=20,
    heads=_FEW,
    hidden=64,
    tokens=(3,),
    moved=2,
    copy_bytes=1 << 12,
    matmul=16,
    load=Load(2, 6, 3, 3, 16),
    repeats=1,
    runs=1,
)
"""Of a rehearsal: as small as every part can be."""
