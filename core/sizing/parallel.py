"""The KV cache over several GPUs: what each keeps, and how often the whole is kept."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from core.sizing import kv, kv_format, kv_layers, layout
from core.sizing.geometry import ModelSpec
from core.sizing.kv_format import KVDtype
from core.sizing.result import Result, Step, symbols


def kv_bytes_per_token_per_gpu(
    model: ModelSpec,
    dtype: KVDtype = "bf16",
    tp: int = 1,
    pp: int = 1,
    attention_dp: int = 1,
    stages: Sequence[int] | None = None,
) -> Result:
    """Bytes that one token of a sequence keeps on a GPU that serves it.

    KV heads divide over tp until there is one to a GPU, then they are copied; MLA's latent is
    copied from the start, unless attention is data parallel (attention_dp). Of pipeline stages
    that differ, the one that keeps most.
    """
    return kv.kv_bytes_per_token(model, dtype, "gpu", None, tp, pp, attention_dp, stages)


def kv_replication_factor(model: ModelSpec, tp: int = 1, attention_dp: int = 1) -> Result:
    """How often the GPUs of one replica keep each byte of a sequence's cache: 1 if never copied."""
    where = layout.of(tp, attention_dp=attention_dp)
    fmt = kv_format.of("bf16")  # any: the ratio does not depend on it
    whole = kv_layers.per_token(kv_layers.of_model(model, fmt))
    one = kv_layers.per_token(kv_layers.of_stages(model, fmt, where)[0])
    split = where.head_split
    if not whole:
        return Result(1.0, "x", notes=("no layer caches anything per token",))
    ratio = Fraction(split * one, whole)
    return Result(
        float(ratio),
        "x",
        symbols(
            ("tp", "GPUs that split one request's heads", split, "GPUs"),
            ("M_gpu", "bytes per token on one of them, in bf16", one, "B"),
            ("M_tok", "bytes per token of the model, in bf16", whole, "B"),
        ),
        (Step("tp · M_gpu / M_tok", f"{split} · {one} / {whole}", float(ratio), "x"),),
        scope="replica",
        notes=kv.layout_notes(model, where),
    )
