"""Layers without a KV cache: what they keep per sequence, and how many parameters they have.

Each keeps a state of fixed size instead of keys and values: a matrix per head (linear attention, a
state space), and the last inputs of a short convolution before it. Sizes are those that the
published implementations allocate: a convolution of kernel k keeps k columns (some servers keep the
k − 1 that are needed), and recurrent states that are summed over the whole text are in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from core.sizing import checks
from core.sizing.architectures.fields import Fields
from core.sizing.errors import SizingError
from core.sizing.geometry import FixedState
from core.sizing.parameters import Count, linear, matrix, vector

FP32 = 4
"""Bytes per number of a state that is kept in full precision whatever the model's."""


def _conv(channels: int, kernel: int, bias: bool) -> Count:
    """A causal convolution, each channel by itself."""
    return matrix(channels * kernel) + vector(channels if bias else 0)


def _state(kind: str, conv: int, matrix_size: int, itemsize: int | None) -> FixedState:
    return FixedState(kind, (("convolution", conv, None), ("recurrent", matrix_size, itemsize)))


def gated_delta(fields: Fields, hidden: int) -> tuple[FixedState, Count]:
    """Gated DeltaNet (Yang et al. 2024): per value head a matrix [key_dim, value_dim]."""
    keys, values = fields.whole("linear_num_key_heads"), fields.whole("linear_num_value_heads")
    key_dim, value_dim = fields.whole("linear_key_head_dim"), fields.whole("linear_value_head_dim")
    return _delta(fields, hidden, keys, values, key_dim, value_dim)


def olmo_delta(fields: Fields, hidden: int) -> tuple[FixedState, Count]:
    """The same, with sizes that follow from the model's width where they are not given."""
    heads = fields.whole("num_attention_heads")
    keys = fields.whole("linear_num_key_heads", default=heads)
    values = fields.whole("linear_num_value_heads", default=heads)
    key_dim = fields.whole("linear_key_head_dim", default=max(1, int(0.75 * hidden / keys)))
    value_dim = fields.whole("linear_value_head_dim", default=2 * key_dim)
    return _delta(fields, hidden, keys, values, key_dim, value_dim)


def _delta(
    fields: Fields, hidden: int, keys: int, values: int, key_dim: int, value_dim: int
) -> tuple[FixedState, Count]:
    kernel = fields.whole("linear_conv_kernel_dim")
    if values % keys:
        raise SizingError(
            fields.at("linear_num_key_heads"),
            f"{keys} key heads cannot be shared evenly by {values} value heads",
        )
    width_k, width_v = keys * key_dim, values * value_dim
    channels = 2 * width_k + width_v
    count = linear(hidden, channels + width_v) + linear(hidden, 2 * values)
    count += _conv(channels, kernel, False) + vector(2 * values + value_dim)
    count += linear(width_v, hidden)
    return _state("linear_attention", channels * kernel, values * key_dim * value_dim, FP32), count


def kimi_delta(fields: Fields, hidden: int) -> tuple[FixedState, Count]:
    """Kimi Delta Attention (2025): a gated DeltaNet whose decay is per channel."""
    inner = fields.inner("linear_attn_config")
    if inner is not None:
        heads, dim = inner.whole("num_heads"), inner.whole("head_dim")
        kernel = inner.whole("short_conv_kernel_size")
    else:
        heads, dim = fields.whole("linear_num_heads"), fields.whole("linear_head_dim")
        kernel = fields.whole("linear_conv_kernel_dim")
    width = heads * dim
    gates = linear(hidden, dim) + linear(dim, width)
    return _kimi(hidden, heads, dim, kernel, gates * 2)


def ring_delta(fields: Fields, hidden: int) -> tuple[FixedState, Count]:
    """The same with full-rank gates (Ring / Ling 2.5)."""
    heads = fields.whole("num_attention_heads")
    # A file that was saved again holds the rotary width as head_dim.
    dim = fields.whole("linear_head_dim" if fields.has("linear_head_dim") else "head_dim")
    fields.skip("linear_num_heads", "linear_conv_kernel_dim")
    kernel = fields.whole("short_conv_kernel_size")
    return _kimi(hidden, heads, dim, kernel, linear(hidden, heads * dim) * 2)


def _kimi(hidden: int, heads: int, dim: int, kernel: int, gates: Count) -> tuple[FixedState, Count]:
    width = heads * dim
    count = linear(hidden, 3 * width) + _conv(3 * width, kernel, False) + gates
    count += vector(width + heads) + linear(hidden, heads) + vector(dim) + linear(width, hidden)
    return _state("linear_attention", 3 * width * kernel, heads * dim * dim, FP32), count


def lightning(fields: Fields, hidden: int) -> tuple[FixedState, Count]:
    """Lightning attention (MiniMax-01): per head a matrix [head_dim, head_dim]."""
    heads = fields.whole("num_attention_heads")
    dim = fields.whole("head_dim", default=hidden // heads)
    width = heads * dim
    count = linear(hidden, 4 * width) + vector(width) + linear(width, hidden)
    return FixedState("linear_attention", (("recurrent", heads * dim * dim, None),)), count


def short_conv(fields: Fields, hidden: int) -> tuple[FixedState, Count]:
    """LFM2: a gated convolution over the last few tokens."""
    kernel, bias = fields.whole("conv_L_cache"), fields.flag("conv_bias")
    count = linear(hidden, 3 * hidden, bias) + _conv(hidden, kernel, bias)
    count += linear(hidden, hidden, bias)
    return FixedState("convolution", (("convolution", hidden * kernel, None),)), count


def rg_lru(fields: Fields, hidden: int) -> tuple[FixedState, Count]:
    """RecurrentGemma's real-gated linear recurrent unit: one number per channel."""
    heads = fields.whole("num_attention_heads")
    width = fields.whole("lru_width", default=hidden)
    kernel = fields.whole("conv1d_width")
    if width % heads:
        raise SizingError(
            fields.at("lru_width"), f"{width:,} is not a multiple of num_attention_heads {heads}"
        )
    block = width // heads
    count = linear(hidden, width, True) * 2 + linear(width, hidden, True)
    count += _conv(width, kernel, True) + vector(3 * width) + matrix(2 * heads * block * block)
    # Only the k − 1 past inputs are kept here.
    return _state("state_space", width * (kernel - 1), width, FP32), count


def mamba(
    fields: Fields, hidden: int, norms: bool = False, width: int | None = None
) -> tuple[FixedState, Count]:
    """Mamba (Gu, Dao 2023): per channel a state of `state` numbers.

    norms: RMSNorms of the time step, B and C, with weights (Jamba). width: channels, if not a
    multiple of the model's width.
    """
    width = _expanded(fields, hidden) if width is None else width
    state = fields.whole("state_size", "mamba_d_state")
    kernel = fields.whole("conv_kernel", "mamba_d_conv")
    rank = _step_rank(fields, hidden)
    bias = fields.flag("use_bias", "mamba_proj_bias")
    conv_bias = fields.flag("use_conv_bias", "mamba_conv_bias")
    fields.skip("n_mamba_heads")  # Zamba shares the channels out over heads: as many numbers
    count = linear(hidden, 2 * width, bias) + _conv(width, kernel, conv_bias)
    count += linear(width, rank + 2 * state) + linear(rank, width, True)
    count += matrix(width * state) + vector(width) + linear(width, hidden, bias)
    if norms:
        count += vector(rank + 2 * state)
    return _state("state_space", width * kernel, width * state, _ssm_bytes(fields)), count


def jamba(fields: Fields, hidden: int) -> tuple[FixedState, Count]:
    return mamba(fields, hidden, norms=True)


def _ssm_bytes(fields: Fields) -> int:
    """mamba_ssm_cache_dtype says it where a model was published for servers; else as computed."""
    name = fields.word("mamba_ssm_cache_dtype", "float32")
    if name not in ("float32", "bfloat16", "float16"):
        raise SizingError(
            fields.at("mamba_ssm_cache_dtype"), "must be float32, bfloat16 or float16"
        )
    return FP32 if name == "float32" else 2


def _expanded(fields: Fields, hidden: int) -> int:
    expand = fields.raw("expand", "mamba_expand")
    factor = checks.number(2 if expand is None else expand, fields.at("expand"), 0.0, 64.0)
    return max(1, int(factor * hidden))


def _step_rank(fields: Fields, hidden: int) -> int:
    """Δ's rank: "auto" is a sixteenth of the width."""
    if fields.raw("time_step_rank", "mamba_dt_rank") in (None, "auto"):
        return math.ceil(hidden / 16)
    return fields.whole("time_step_rank", "mamba_dt_rank")


def mamba2(fields: Fields, hidden: int) -> tuple[FixedState, Count]:
    """Mamba-2 (Dao, Gu 2024): per head a matrix [head_dim, state]."""
    heads = fields.whole("mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "num_heads")
    width = _mamba2_width(fields, hidden, heads)
    if width % heads:
        raise SizingError(
            fields.path, f"{heads} state-space heads do not divide a width of {width:,}"
        )
    _check_head_dim(fields, width, heads)
    state = fields.whole("mamba_d_state", "ssm_state_size", "state_size")
    groups = fields.whole("mamba_n_groups", "mamba_ngroups", "n_groups")
    kernel = fields.whole("mamba_d_conv", "conv_kernel")
    bias = fields.flag("mamba_proj_bias", "use_bias", "add_bias_linear")
    channels = width + 2 * groups * state
    count = linear(hidden, width + channels + heads, bias)
    count += _conv(channels, kernel, fields.flag("mamba_conv_bias", "use_conv_bias"))
    count += vector(3 * heads)
    if fields.flag("mamba_rms_norm", default=True):
        count += vector(width)
    out_bias = fields.flag("projectors_bias", default=bias)
    count += linear(width, hidden, out_bias)
    return _state("state_space", channels * kernel, width * state, _ssm_bytes(fields)), count


_HEAD_DIMS = ("mamba_d_head", "mamba_head_dim", "mamba_headdim")


def _mamba2_width(fields: Fields, hidden: int, heads: int) -> int:
    """Channels of the state space: stated, or heads · head_dim, or a multiple of the model's."""
    stated = fields.whole_or_none("mamba_d_ssm")
    if stated is not None:
        fields.skip("expand", "mamba_expand")
        return stated
    if fields.has("mamba_head_dim"):  # Nemotron-H, whose `expand` is not used
        fields.skip("expand", "mamba_expand")
        return heads * fields.whole("mamba_head_dim")
    return _expanded(fields, hidden)


def _check_head_dim(fields: Fields, width: int, heads: int) -> None:
    stated = fields.raw(*_HEAD_DIMS)
    if stated not in (None, "auto", width // heads):
        name = next(name for name in _HEAD_DIMS if name in fields.data)
        raise SizingError(
            fields.at(name),
            f"is {checks.shown(stated)}, but {width:,} channels over {heads} heads are "
            f"{width // heads} each",
        )


MIXERS: dict[str, Callable[[Fields, int], tuple[FixedState, Count]]] = {
    "gated_delta": gated_delta,
    "olmo_delta": olmo_delta,
    "kimi_delta": kimi_delta,
    "ring_delta": ring_delta,
    "lightning": lightning,
    "short_conv": short_conv,
    "rg_lru": rg_lru,
    "mamba": mamba,
    "jamba": jamba,
    "mamba2": mamba2,
}
"""By the name that a family gives its layers without a KV cache."""
