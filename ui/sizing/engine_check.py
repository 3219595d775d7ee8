"""The formula against what an engine has really allocated: bytes of its tensors, from a run's
header."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from core.client import EngineRefusedError, EngineUnreachableError
from core.errors import KVScopeError
from core.sizing import catalog, compare, kv
from core.sizing.geometry import ModelSpec
from core.sizing.result import Result
from ui import engine_process, runs, status
from ui.sizing.shown import Json, figure

RECORDED = "kv_pool_512"
DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
BLOCKS, SIZES = (64, 128, 256, 512), (4, 8, 16)


@dataclass(frozen=True)
class Checked:
    """header: of the run, what labels it. blocks, size: of its pool. allocated: bytes of the
    tensors. formula: the library's."""

    header: Json
    blocks: int
    size: int
    allocated: int
    formula: Result
    dtype: str


def of_header(header: Json, described: Json | None = None) -> Checked | None:
    """What a run's header says of its pool; None where it does not, or where the shape of its model
    is known neither to the catalogue nor by `described` (the engine's own word, of `/models`)."""
    allocated = header.get("kv_cache_bytes")
    source = header.get("source") or {}
    dtype = DTYPES.get(str(source.get("dtype")))
    spec = _model(str(source.get("model")), described)
    if allocated is None or dtype is None or spec is None:
        return None
    engine = header["scenario"]["engine"]
    blocks, size = engine["num_blocks"], engine["block_size"]
    formula = kv.kv_bytes_sequence(spec, blocks * size, dtype)
    kept = ("label", "source", "recorded_at", "revision")
    return Checked(
        {key: header[key] for key in kept if key in header},
        blocks,
        size,
        int(allocated),
        formula,
        dtype,
    )


def _model(name: str, described: Json | None) -> ModelSpec | None:
    """The model's geometry: of the catalogue's config, else as the engine describes it."""
    if name in catalog.entries():
        return catalog.get(name)
    if described is None:
        return None
    shape = {
        "attention": "gqa",
        "n_layers": described["num_hidden_layers"],
        "n_kv_heads": described["num_key_value_heads"],
        "d_head": described["head_dim"],
    }
    return compare.side(shape, "engine").model


@lru_cache(maxsize=1)
def recorded() -> Checked | None:
    """Of the recorded run that stands in where no engine runs."""
    try:
        return of_header(runs.recorded(RECORDED).header)
    except KVScopeError:
        return None


def allocate(blocks: Any, size: Any) -> tuple[Checked | None, str]:
    """Have the engine allocate such a pool and say what it took; or why it did not, in a sentence.

    The pool is lent to a scenario of one token and given back at its end.
    """
    if blocks not in BLOCKS or size not in SIZES:
        return None, "This pool is not offered here."
    client = engine_process.client()
    if client is None:
        return None, engine_process.seen().message or "No engine answers now."
    described = next(iter(engine_process.seen().models), None)
    scenario = {
        "schema": "scenario/1",
        "name": "A pool to measure",
        "model": described["id"] if described else status.DEFAULT_MODEL,
        "engine": {"num_blocks": blocks, "block_size": size, "max_model_len": 16},
        "requests": [{"id": "A", "prompt_tokens": [0], "max_tokens": 1}],
    }
    try:
        with client.scenario(scenario) as stream:
            for kind, value in stream:
                if kind == "header":
                    found = of_header(value, described)
                    return found, "" if found else "The engine did not say what its pool takes."
                if kind == "end":
                    return None, str(value.get("message") or "The engine ended the run.")
    except EngineRefusedError as exc:
        word = "is busy" if exc.status in (429, 503) else "refused this pool"
        return None, f"The engine {word}: {exc}."
    except EngineUnreachableError:
        return None, "The engine does not answer now."
    return None, "The engine ended the run."


def check_part(live: Checked | None, message: str) -> Json:
    """For the instrument. live: what was allocated in this session, if anything was."""
    there = engine_process.seen().state != "absent"
    found = live or recorded()
    out: Json = {
        "live": there,
        "choices": {"blocks": list(BLOCKS), "sizes": list(SIZES)},
        "header": None,
        "message": message or "No engine here, and no recorded run that says what its pool took.",
    }
    if found is None:
        return out
    return {
        **out,
        "header": found.header,
        "blocks": found.blocks,
        "size": found.size,
        "dtype": found.dtype.upper(),
        "allocated": found.allocated,
        "formula": figure(found.formula, "a pool of this size, by the formula"),
        "message": message,
    }
