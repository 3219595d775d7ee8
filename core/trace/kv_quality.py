"""What quantised caches cost in quality, as measured on one text: the file `kv_quality.json`.

Each row is one format of the cache, run over the same text and compared with the model's own, which
is the first row. Kullback–Leibler divergence is of the model's own distribution of the next token
from the quantised one, in nats, a mean over all positions.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from core.errors import RunError

Json = dict[str, Any]
SCHEMA = "kv-quality/1"


@dataclass(frozen=True, slots=True)
class Row:
    """kv_dtype: as an engine takes it. nll_change: how much the text's mean negative log-likelihood
    rises, nats a token, and its standard error. top1: share of positions with the same likeliest
    token. diverges: prompt's id → index of the first greedy token that differs, None if none
    does."""

    name: str
    kv_dtype: str | Json
    kv_bytes_per_token: int
    perplexity: float
    nll_change: tuple[float, float]
    kl: float
    kl_max: float
    top1: float
    diverges: dict[str, int | None]


@dataclass(frozen=True, slots=True)
class OutlierRow:
    """One head's keys made `factor` times as large, its queries as much smaller: the same function.
    key_error_outlier, key_error_others: relative error of its keys and of the other heads'."""

    factor: int
    format: str
    scale: str
    key_error_outlier: float
    key_error_others: float
    perplexity: float
    kl: float


@dataclass(frozen=True, slots=True)
class Quality:
    """label: what labels the figures, as a run's header has it. tokens: of the text. prompts: id →
    text. by_layer: KL with that layer alone in INT4, by layer; empty where it was not measured.
    outlier_at: (layer, head) that was made one; None where none was."""

    label: Json
    tokens: int
    rows: tuple[Row, ...]
    prompts: dict[str, str]
    max_tokens: dict[str, int]
    by_layer: tuple[float, ...]
    outlier_at: tuple[int, int] | None
    outlier: tuple[OutlierRow, ...]

    @property
    def own(self) -> Row:
        """The model's own format."""
        return self.rows[0]


def parse(text: str) -> Quality:
    """The file's text, checked. Raises RunError with what is wrong, in one sentence."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise RunError("kv_quality.json is no JSON; make it anew") from None
    try:
        return _quality(content)
    except (KeyError, TypeError, ValueError, IndexError) as exc:
        raise RunError(f"kv_quality.json is not whole ({exc!r}); make it anew") from None


def _quality(content: Json) -> Quality:
    if content["schema"] != SCHEMA:
        raise ValueError(f"its schema is {str(content['schema'])[:40]!r}, not {SCHEMA!r}")
    rows = tuple(_row(one) for one in content["rows"])
    if not rows or rows[0].kv_dtype != "model":
        raise ValueError("its first row is not the model's own format")
    prompts = {one["id"]: one for one in content["prompts"]}
    for row in rows:
        if not row.diverges.keys() <= prompts.keys():
            raise ValueError(f"{row.name} names a prompt that is not there")
    outlier = content.get("outlier")
    return Quality(
        {
            "label": "RECORDED",
            "source": dict(content["source"]),
            "recorded_at": content["recorded_at"],
            "revision": content.get("revision"),
        },
        int(content["text"]["tokens"]),
        rows,
        {name: str(one["text"]) for name, one in prompts.items()},
        {name: int(one["max_tokens"]) for name, one in prompts.items()},
        tuple(_number(one["kl"]) for one in content.get("by_layer", ())),
        (int(outlier["layer"]), int(outlier["head"])) if outlier else None,
        tuple(_outlier_row(one) for one in outlier["rows"]) if outlier else (),
    )


def _row(one: Json) -> Row:
    diverges = {name: None if at is None else int(at) for name, at in one["diverges"].items()}
    dtype = one["kv_dtype"]
    if not isinstance(dtype, str | dict):
        raise TypeError("a kv_dtype is neither a name nor an object")
    return Row(
        str(one["name"]),
        dtype,
        int(one["kv_bytes_per_token"]),
        _number(one["perplexity"], 1.0),
        (_number(one["nll_change"], -math.inf), _number(one["nll_change_se"], 0.0)),
        _number(one["kl"]),
        _number(one["kl_max"]),
        _number(one["top1"], 0.0, 1.0),
        diverges,
    )


def _outlier_row(one: Json) -> OutlierRow:
    return OutlierRow(
        int(one["factor"]),
        str(one["format"]),
        str(one["scale"]),
        _number(one["key_error_outlier"]),
        _number(one["key_error_others"]),
        _number(one["perplexity"], 1.0),
        _number(one["kl"]),
    )


def _number(value: Any, low: float = -1e-6, high: float = math.inf) -> float:
    """A finite number from `low` on; divergences of equal distributions may round below zero."""
    number = float(value)
    if not (math.isfinite(number) and low <= number <= high):
        raise ValueError(f"{number} is out of range")
    return number
