"""Two runs of one prompt, the model's own cache and a quantised one, as the instrument shows them:
errors by layer and head, both texts, the choice where they part, bytes allocated."""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache
from typing import Any

from core.errors import KVScopeError
from core.kv_spec import MODEL, KVSpec
from core.trace import divergence, kv_error
from core.trace.divergence import Divergence
from ui import lesson, runs
from ui.components.run_player import PackedRun
from ui.components.series import label_of
from ui.prefix import tokens
from ui.quantise import formats, memory
from ui.quantise.place import Place

Json = dict[str, Any]

WORDS = "kv_quantisation"
"""The lesson file with the instrument's words."""
OWN = "kv_model"
"""The recorded run with the model's own cache."""
RECORDED = {
    "int8": "kv_int8",
    "fp8": "kv_fp8",
    "fp8-tensor": "kv_fp8_tensor",
    "fp8-one": "kv_fp8_one",
    "int8-tensor": "kv_int8_tensor",
    "int4": "kv_int4",
    "int4-tensor": "kv_int4_tensor",
    "inner": "kv_int8_inner4",
    "outer": "kv_int8_outer4",
}
"""Example (`place.EXAMPLES`) → the recorded run that shows it. All answer one prompt."""
ANSWER = 64
"""Tokens of an answer."""
MOST_CANDIDATES = 4


def scenario(prompt: str, kv_dtype: str | Json) -> Json:
    """A prompt, asked of an engine with such a cache."""
    engine: Json = {
        "num_blocks": memory.BLOCKS,
        "block_size": memory.BLOCK,
        "max_num_seqs": 1,
        "max_num_batched_tokens": memory.POOL,
        "max_model_len": memory.POOL,
        "prefix_cache": "off",
        "kv_dtype": kv_dtype,
    }
    if kv_dtype != MODEL:
        engine["measure_kv_error"] = True
    return {
        "schema": "scenario/1",
        "name": formats.title(formats.spec(kv_dtype), "The model's own cache"),
        "model": memory.DEFAULT_MODEL,
        "engine": engine,
        "requests": [{"id": "A", "prompt": asked(prompt), "max_tokens": ANSWER, "logprobs": 4}],
    }


def asked(prompt: str) -> str:
    """The prompt as a chat's message, in the model's own form."""
    return f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"


def message(header: Json) -> str:
    """The reader's words in a run's prompt."""
    whole = header["scenario"]["requests"][0]["prompt"] or ""
    before, after = asked("\0").split("\0")
    return whole.removeprefix(before).removesuffix(after)


def recorded(place: Place) -> Json | None:
    """The recorded pair in a place's format, if there is one and its prompt is asked for."""
    for name in RECORDED.values():
        try:
            own, run = runs.recorded(OWN), runs.recorded(name)
        except KVScopeError:
            continue
        if _spec_of(run.header) == place.spec and (place.prompt or prompt()) == message(run.header):
            return _recorded(own.packed, run.packed)
    return None


def prompt() -> str:
    """What is asked where the reader asks nothing: the recorded runs ask the same."""
    return lesson.load(WORDS)["prompt"]


def _spec_of(header: Json) -> KVSpec:
    return formats.spec(header["scenario"]["engine"]["kv_dtype"])


@lru_cache(maxsize=32)
def _recorded(own: PackedRun, run: PackedRun) -> Json:
    return of_runs(own.run(), run.run())


def of_runs(own: Json, run: Json) -> Json:
    """{label, own_label, dtype, kv_dtype, errors, texts, allocated}; errors is None where the run
    did not measure them."""
    found = kv_error.of_run(run)
    dtype = str(run["header"]["source"].get("dtype"))
    return {
        "label": label_of(run["header"]),
        "dtype": dtype,
        "own": formats.own_name(dtype),
        "title": formats.title(_spec_of(run["header"]), formats.own_name(dtype)),
        "errors": None if found is None else _short(asdict(found)),
        "texts": texts(own, run),
        "allocated": memory.allocated(run["header"]),
        "own_allocated": memory.allocated(own["header"]),
    }


def texts(own: Json, run: Json) -> Json:
    """{first, same, parts: [own's, the other's], candidates}: `same` is what both say before the
    first token that differs, in pieces, `parts` how each goes on."""
    found = divergence.compare(own, run)
    words = own["header"].get("token_text", {}) | run["header"].get("token_text", {})
    missing = [one.token for one in found.candidates if str(one.token) not in words]
    words |= tokens.texts(missing) if missing else {}  # a live run names what it has sampled
    stops = {str(token) for token in own["header"].get("eos_token_ids", ())}

    def text(token: int) -> str:
        return "⟨end⟩" if str(token) in stops else words.get(str(token), f"⟨{token}⟩")

    at = len(found.tokens[0]) if found.first is None else found.first
    return {
        "first": found.first,
        "lengths": [len(one) for one in found.tokens],
        "same": [text(token) for token in found.tokens[0][:at]],
        "parts": [[text(token) for token in one[at:]] for one in found.tokens],
        "candidates": [
            {"text": text(one.token), "logprobs": list(one.logprobs)}
            for one in found.candidates[:MOST_CANDIDATES]
        ],
        "gap": _gap(found),
    }


def _gap(found: Divergence) -> float | None:
    """By how much, in nats, the model's own run preferred its choice to the other run's."""
    if len(found.candidates) < 2:
        return None
    mine, other = (one.logprobs[0] for one in found.candidates[:2])
    return None if mine is None or other is None else round(mine - other, 4)


def _short(errors: Json) -> Json:
    """Errors to four digits, which is more than one reads."""
    return {
        name: [[_four(v) for v in layer] for layer in value]
        if isinstance(value, list)
        else _four(value)
        for name, value in errors.items()
    }


def _four(value: float) -> float:
    return float(f"{value:.4g}")
