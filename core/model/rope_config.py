"""Which rotary frequencies a model uses, read from its `config.json`. No torch.

Two spellings: `rope_parameters` (newer, with `rope_theta` inside) and `rope_scaling` (older, its
type under `type` or `rope_type`). Where both are filled the older one counts, as in transformers.

Frequencies that depend on how long the text has become are refused: keys are turned once, when they
are stored, so a cached key would be wrong as soon as any sequence of the batch grew past a limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from core.model import config_fields
from core.model.config_fields import number, short
from core.model.errors import ModelConfigError


@dataclass(frozen=True, slots=True)
class LinearScaling:
    """All frequencies divided by `factor` (position interpolation, Chen et al. 2023)."""

    factor: float


@dataclass(frozen=True, slots=True)
class YarnScaling:
    """High frequencies kept, low ones divided by `factor`, a ramp between (Peng et al. 2023).

    The ramp's ends are the dimensions that turn beta_fast and beta_slow times within
    original_max_position_embeddings; truncate: rounded outwards to whole dimensions.
    attention_factor: cos and sin are multiplied by it.
    """

    factor: float
    original_max_position_embeddings: int
    attention_factor: float
    beta_fast: float
    beta_slow: float
    truncate: bool


@dataclass(frozen=True, slots=True)
class Llama3Scaling:
    """Llama 3.1's: a wavelength longer than original / low_freq_factor is scaled by `factor`, one
    shorter than original / high_freq_factor is not, and those between in part."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int


@dataclass(frozen=True, slots=True)
class FactorScaling:
    """Each frequency divided by a number of its own, head_dim / 2 of them.

    A `longrope` whose short and long factors are the same; GGUF files carry Llama 3.1's scaling in
    this form. attention_factor: cos and sin are multiplied by it.
    """

    factors: tuple[float, ...]
    attention_factor: float


Scaling = LinearScaling | YarnScaling | Llama3Scaling | FactorScaling


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """theta: base of the angles, theta^(−2i/d). scaling: what is done to them; None: nothing."""

    theta: float
    scaling: Scaling | None = None

    @classmethod
    def from_dict(cls, raw: dict[str, Any], head_dim: int) -> RopeConfig:
        """Check a parsed `config.json`. Raises ModelConfigError naming field and value."""
        field = "rope_scaling" if raw.get("rope_scaling") else "rope_parameters"
        rope = raw.get(field)
        for name in ("rope_scaling", "rope_parameters"):
            if raw.get(name) is not None and not isinstance(raw[name], dict):
                raise ModelConfigError(
                    f"config.json: {name} must be an object, not {short(raw[name])}"
                )
        if rope is None:
            rope = {}
        for where, holder in (("", raw), (f"{field}.", rope)):
            partial = holder.get("partial_rotary_factor", 1.0)
            if isinstance(partial, bool) or partial not in (None, 1.0):
                raise ModelConfigError(
                    f"config.json: {where}partial_rotary_factor {short(partial)} is not supported: "
                    "these models turn whole heads"
                )
        for key, value in rope.items():
            if isinstance(value, dict) or key == "mrope_section":
                raise ModelConfigError(
                    f"config.json: {field}.{short(key)} is not supported: one set of frequencies "
                    "serves all layers and all positions here"
                )
        theta = number(rope if "rope_theta" in rope else raw, "rope_theta", 10_000.0)
        kind = rope.get("rope_type", rope.get("type", "default"))
        return cls(theta, _scaling(kind, rope, f"{field}.", raw, theta, head_dim))


def _scaling(
    kind: Any,
    rope: dict[str, Any],
    where: str,
    raw: dict[str, Any],
    theta: float,
    head_dim: int,
) -> Scaling | None:
    if kind == "default":
        return None
    if kind == "linear":
        return LinearScaling(number(rope, "factor", None, where))
    if kind == "llama3":
        return _llama3(rope, where, raw)
    if kind == "yarn":
        return _yarn(rope, where, raw, theta)
    if kind == "longrope":
        return _factors(rope, where, raw, head_dim)
    if kind == "dynamic":
        raise ModelConfigError(
            f"config.json: {where}rope_type 'dynamic' is not supported: its frequencies change "
            "with the longest text in the batch, so a token would depend on its company, and keys "
            "that are cached would be wrong"
        )
    raise ModelConfigError(f"config.json: {where}rope_type {short(kind)} is not known")


def _llama3(rope: dict[str, Any], where: str, raw: dict[str, Any]) -> Llama3Scaling:
    low = number(rope, "low_freq_factor", None, where)
    high = number(rope, "high_freq_factor", None, where)
    if high <= low:
        raise ModelConfigError(
            f"config.json: {where}high_freq_factor {high} must be more than low_freq_factor {low}"
        )
    return Llama3Scaling(number(rope, "factor", None, where), low, high, _original(rope, raw))


def _yarn(rope: dict[str, Any], where: str, raw: dict[str, Any], theta: float) -> YarnScaling:
    original = _original(rope, raw)
    if "factor" in rope and rope["factor"] is None:
        factor = config_fields.size(raw, "max_position_embeddings") / original
    else:
        factor = number(rope, "factor", None, where)
    if theta <= 1:
        raise ModelConfigError(f"config.json: rope_theta {theta} must be more than 1 for yarn")

    def given(field: str) -> bool:
        # 0 stands for "not given" here, as in transformers.
        return rope.get(field) not in (None, 0) or isinstance(rope.get(field), bool)

    fast = number(rope, "beta_fast", None, where) if given("beta_fast") else 32.0
    slow = number(rope, "beta_slow", None, where) if given("beta_slow") else 1.0
    if fast < slow:
        raise ModelConfigError(
            f"config.json: {where}beta_fast {fast} must not be less than beta_slow {slow}"
        )
    if rope.get("attention_factor") is not None:
        attention = number(rope, "attention_factor", None, where)
    elif given("mscale") and given("mscale_all_dim"):
        attention = _mscale(factor, number(rope, "mscale", None, where)) / _mscale(
            factor, number(rope, "mscale_all_dim", None, where)
        )
    else:
        attention = _mscale(factor, 1.0)
    truncate = rope.get("truncate", True)
    if not isinstance(truncate, bool):
        raise ModelConfigError(
            f"config.json: {where}truncate must be true or false, not {short(truncate)}"
        )
    return YarnScaling(factor, original, attention, fast, slow, truncate)


def _mscale(factor: float, mscale: float) -> float:
    """How much sharper attention is made for a text that is `factor` times as long."""
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def _factors(rope: dict[str, Any], where: str, raw: dict[str, Any], head_dim: int) -> FactorScaling:
    short_list, long_list = rope.get("short_factor"), rope.get("long_factor")
    for name, values in (("short_factor", short_list), ("long_factor", long_list)):
        if not isinstance(values, list) or len(values) != head_dim // 2:
            raise ModelConfigError(
                f"config.json: {where}{name} must be a list of {head_dim // 2} numbers"
            )
    if short_list != long_list:
        raise ModelConfigError(
            f"config.json: {where}rope_type 'longrope' with a short_factor unlike its long_factor "
            "is not supported: its frequencies change when a text of the batch passes a length, so "
            "a token would depend on its company, and keys that are cached would be wrong"
        )
    factors = tuple(
        number({"short_factor": value}, "short_factor", None, where) for value in short_list or ()
    )
    if rope.get("attention_factor") is not None:
        return FactorScaling(factors, number(rope, "attention_factor", None, where))
    original = _original(rope, raw)
    if rope.get("factor") is None:
        factor = config_fields.size(raw, "max_position_embeddings") / original
    else:
        factor = number(rope, "factor", None, where)
    if factor <= 1:
        return FactorScaling(factors, 1.0)
    if original < 2:
        raise ModelConfigError(
            f"config.json: {where}original_max_position_embeddings is {original}; it must be more"
        )
    return FactorScaling(factors, math.sqrt(1 + math.log(factor) / math.log(original)))


def _original(rope: dict[str, Any], raw: dict[str, Any]) -> int:
    """Context length before scaling: at the top level, else in `rope`, else the present one."""
    field = "original_max_position_embeddings"
    holder = raw if raw.get(field) is not None else rope
    return config_fields.size(
        holder, field, default=config_fields.size(raw, "max_position_embeddings")
    )
