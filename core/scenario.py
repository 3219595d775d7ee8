"""Scenarios: what goes into the engine. Read, checked, and filled with defaults.

A scenario is refused as a whole, with the path of the offending field; a request that can never be
served (an empty prompt, one larger than the pool) is not refused here but rejected on arrival, so
that the others go on.
"""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

from core import jsonio
from core.config import EngineConfig
from core.errors import InputFileError, ScenarioError

MAX_BYTES = 64 * 1024 * 1024
"""Largest scenario text accepted, in bytes."""

MAX_IDLE_STEPS = 100_000
"""Steps from one arrival (or the beginning) to the next, at most."""

MAX_CANCEL_STEPS = 1_000_000
"""Steps from a request's arrival to its cancellation, at most."""


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """One request as asked for. Exactly one of `prompt`, `prompt_tokens` and `fork_of` is given.

    fork_of: a sequence of an earlier request. In `arrive_step` this one starts as its copy (same
    prompt, the output tokens so far, all blocks shared), and lives by its own settings from then.
    output_tokens: for each of the n sequences the script of what is sampled, or None.
    """

    id: str
    arrive_step: int = 0
    prompt: str | None = None
    prompt_tokens: tuple[int, ...] | None = None
    fork_of: str | None = None
    max_tokens: int = 8
    n: int = 1
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    logprobs: int = 0
    prompt_logprobs: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    priority: int = 0
    cache_salt: str | None = None
    adapter: str | None = None
    beam_width: int = 0
    length_penalty: float = 1.0
    early_stopping: bool = False
    cancel_step: int | None = None
    output_tokens: tuple[tuple[int, ...], ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON object, defaults filled in."""
        out: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            out[field.name] = list(value) if isinstance(value, tuple) else value
        if self.output_tokens is not None:
            scripts = [list(script) for script in self.output_tokens]
            out["output_tokens"] = scripts if self.n > 1 else scripts[0]
        return out


@dataclass(frozen=True, slots=True)
class Scenario:
    """Engine settings, a model's name, and requests. From outside, `from_dict` is the way in."""

    name: str = ""
    seed: int = 0
    engine: EngineConfig = EngineConfig()
    model: str = "none"
    requests: tuple[RequestSpec, ...] = ()

    @classmethod
    def from_dict(cls, data: Any) -> Scenario:
        """Check and build. Raises ScenarioError with the path of an offending field."""
        _check_schema(data)
        engine = EngineConfig(**_whole_numbers(data.get("engine", {}), _ENGINE_FLOATS))
        requests = tuple(
            _request(raw, f"requests[{i}]") for i, raw in enumerate(data.get("requests", []))
        )
        scenario = cls(
            name=data.get("name", ""),
            seed=int(data.get("seed", 0)),
            engine=engine,
            model=data.get("model", "none"),
            requests=requests,
        )
        _check_rules(scenario)
        return scenario

    @classmethod
    def from_json(cls, text: bytes | str) -> Scenario:
        """Parse, check and build. Raises ScenarioError."""
        if len(text) > MAX_BYTES:
            raise ScenarioError(
                "", f"a scenario of {len(text):,} bytes; the limit is {MAX_BYTES:,}"
            )
        try:
            data = jsonio.loads(text)
        except InputFileError as exc:
            raise ScenarioError("", str(exc)) from None
        return cls.from_dict(data)

    @classmethod
    def from_file(cls, path: str | Path) -> Scenario:
        """Read a scenario file. Raises ScenarioError, InputFileError."""
        try:
            with open(path, "rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as exc:
            raise InputFileError(f"cannot read {path}: {exc.strerror or exc}") from None
        return cls.from_json(data)

    def to_dict(self) -> dict[str, Any]:
        """The JSON object, defaults filled in: `from_dict` of it is this scenario again."""
        return {
            "schema": "scenario/1",
            "name": self.name,
            "seed": self.seed,
            "engine": dataclasses.asdict(self.engine),
            "model": self.model,
            "requests": [request.to_dict() for request in self.requests],
        }

    def scripted(self) -> Scenario:
        """The same scenario without a model: real scheduler and blocks, scripted tokens."""
        scenario = dataclasses.replace(self, model="none")
        _check_rules(scenario)
        return scenario


_ENGINE_FLOATS = frozenset({"watermark"})
_REQUEST_FLOATS = frozenset(
    {"temperature", "top_p", "min_p", "repetition_penalty", "length_penalty"}
)


@cache
def _validator() -> Any:
    return jsonio.validator("scenario-1")


def _check_schema(data: Any) -> None:
    if not isinstance(data, dict):
        raise ScenarioError("", f"a scenario is a JSON object, not {_kind(data)}")
    try:
        _validator().validate(data)
    except jsonschema_rs.ValidationError as error:
        path = jsonio.keys(data, list(error.instance_path))
        unknown = getattr(error.kind, "unexpected", None)
        if unknown:
            name = unknown[0] if unknown[0].isidentifier() else repr(unknown[0])[:80]
            raise ScenarioError(jsonio.format_path([*path, name]), "unknown field") from None
        message = jsonio.said(error)
        if not _is_finite(data, path):  # the validator shows it as null
            message = "not a finite number"
        if len(message) > 300:  # the message repeats the value, which may be a megabyte
            message = f"{message[:140]} … {message[-140:]}"
        raise ScenarioError(jsonio.format_path(path), message) from None
    except (ValueError, TypeError, OverflowError) as exc:  # not representable as JSON at all
        raise ScenarioError("", f"not JSON data: {exc}") from None


def _is_finite(data: Any, path: list[Any]) -> bool:
    """Whether what stands at a path of the data is not an infinite float, nor NaN."""
    for key in path:
        data = data[key]
    return not isinstance(data, float) or math.isfinite(data)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {
        list: "a list",
        str: "a text",
        int: "a number",
        float: "a number",
        bool: "a truth value",
    }
    return names.get(type(value), type(value).__name__)


def _whole_numbers(raw: dict[str, Any], floats: frozenset[str]) -> dict[str, Any]:
    # JSON has one kind of number: 16.0 is the integer 16, and 1 is a valid temperature.
    out = dict(raw)
    for key, value in raw.items():
        if isinstance(value, bool):
            continue
        if isinstance(value, int) and key in floats:
            out[key] = float(value)
        elif isinstance(value, float) and key not in floats:
            out[key] = int(value)
    return out


def _request(raw: dict[str, Any], path: str) -> RequestSpec:
    fields = _whole_numbers(raw, _REQUEST_FLOATS)
    for key in ("prompt_tokens", "stop_token_ids"):
        if fields.get(key) is not None:
            fields[key] = tuple(int(token) for token in fields[key])
    if "stop" in fields:
        fields["stop"] = tuple(fields["stop"])
    script = fields.get("output_tokens")
    if script is not None:
        nested = isinstance(script[0], list)
        scripts = script if nested else [script]
        n = fields.get("n", 1)
        mixed = any(isinstance(one, list) != nested for one in script)
        if mixed or nested != (n > 1) or len(scripts) != n:
            raise ScenarioError(
                f"{path}.output_tokens",
                f"n = {n} needs {'one list' if n == 1 else f'a list of {n} lists'} of tokens",
            )
        fields["output_tokens"] = tuple(tuple(int(t) for t in one) for one in scripts)
    return RequestSpec(**fields)


def _check_rules(scenario: Scenario) -> None:
    """What a schema cannot say: rules across fields. Raises ScenarioError."""
    engine = scenario.engine
    for field in ("name", "model"):
        if not _is_unicode(getattr(scenario, field)):
            raise ScenarioError(field, "not valid Unicode (a lone surrogate)")
    if not engine.chunked_prefill and engine.max_num_batched_tokens < engine.max_model_len:
        raise ScenarioError(
            "engine.max_num_batched_tokens",
            f"{engine.max_num_batched_tokens} is less than max_model_len "
            f"({engine.max_model_len}): without chunked prefill a long prompt never fits a step",
        )
    if engine.allocator == "contiguous" and engine.prefix_cache != "off":
        raise ScenarioError(
            "engine.prefix_cache",
            "contiguous allocation shares no blocks: prefix_cache must be off",
        )
    if scenario.model == "none" and not engine.kv_cache:
        raise ScenarioError("engine.kv_cache", "false needs a real model: it changes no block")
    if not engine.kv_cache and engine.max_num_batched_tokens < engine.max_model_len:
        raise ScenarioError(
            "engine.max_num_batched_tokens",
            f"{engine.max_num_batched_tokens} is less than max_model_len "
            f"({engine.max_model_len}): without a KV cache a step computes a sequence whole",
        )
    if engine.kv_spec.quantised and not engine.kv_cache:
        raise ScenarioError("engine.kv_dtype", "without a KV cache nothing is stored: set model")
    if engine.measure_kv_error and not engine.kv_cache:
        raise ScenarioError("engine.measure_kv_error", "without a KV cache nothing is stored")
    _check_steps(scenario.requests)
    earlier: dict[str, RequestSpec] = {}
    for i, request in enumerate(scenario.requests):
        _check_request(scenario, request, f"requests[{i}]")
        if request.fork_of is not None:
            _check_fork(scenario.engine, request, request.fork_of, earlier, f"requests[{i}]")
        if request.id in earlier:
            raise ScenarioError(f"requests[{i}].id", f"{request.id!r} is used twice")
        earlier[request.id] = request


def _check_steps(requests: tuple[RequestSpec, ...]) -> None:
    """No endless waiting: every step is recorded, those in which nothing runs as well."""
    last = 0
    for i in sorted(range(len(requests)), key=lambda i: requests[i].arrive_step):
        arrival, cancel = requests[i].arrive_step, requests[i].cancel_step
        if arrival - last > MAX_IDLE_STEPS:
            raise ScenarioError(
                f"requests[{i}].arrive_step",
                f"{arrival} is more than {MAX_IDLE_STEPS:,} steps after the arrival before it",
            )
        if cancel is not None and cancel - arrival > MAX_CANCEL_STEPS:
            raise ScenarioError(
                f"requests[{i}].cancel_step",
                f"{cancel} is more than {MAX_CANCEL_STEPS:,} steps after its arrival",
            )
        last = arrival


def _check_request(scenario: Scenario, request: RequestSpec, path: str) -> None:
    has_text, has_tokens = request.prompt is not None, request.prompt_tokens is not None
    if request.fork_of is None and has_text == has_tokens:
        both = "both are given" if has_text else "neither is given"
        raise ScenarioError(path, f"give prompt or prompt_tokens: {both}")
    for field in ("prompt", "id", "cache_salt", "adapter", *(["stop"] if request.stop else [])):
        value = getattr(request, field)
        for text in value if isinstance(value, tuple) else (value,):
            if text is not None and not _is_unicode(text):
                raise ScenarioError(f"{path}.{field}", "not valid Unicode (a lone surrogate)")
    if request.cancel_step is not None and request.cancel_step <= request.arrive_step:
        raise ScenarioError(
            f"{path}.cancel_step",
            f"{request.cancel_step} is not after arrive_step ({request.arrive_step})",
        )
    if scenario.engine.allocator == "contiguous" and request.n > 1:
        raise ScenarioError(f"{path}.n", "contiguous allocation cannot fork: n must be 1")
    if request.beam_width:
        _check_beams(scenario, request, path)
    if scenario.model == "none":
        if request.stop:
            raise ScenarioError(f"{path}.stop", "stop strings need a real model's text")
        if request.beam_width:
            raise ScenarioError(f"{path}.beam_width", "beams need a real model's probabilities")


def _check_fork(
    engine: EngineConfig,
    request: RequestSpec,
    parent_id: str,
    earlier: dict[str, RequestSpec],
    path: str,
) -> None:
    """Whether it could ever fork off that sequence; whether it can in its step, the run shows.

    earlier: the requests before it in the file, by id.
    """
    parent = earlier.get(parent_id.partition("#")[0])
    names = () if parent is None else [parent.id] if parent.n == 1 else _twin_names(parent)
    if parent is None or (parent_id not in names and not parent.beam_width):
        raise ScenarioError(f"{path}.fork_of", f"no earlier request has the sequence {parent_id!r}")
    if engine.allocator != "paged" or engine.batching != "continuous" or not engine.kv_cache:
        raise ScenarioError(
            f"{path}.fork_of", "a fork needs paged blocks, a KV cache and continuous batching"
        )
    if request.beam_width or parent.beam_width:
        raise ScenarioError(f"{path}.fork_of", "a beam search forks by itself, and not otherwise")
    neutral = RequestSpec(id=request.id)
    for field in ("prompt", "prompt_tokens", "n", "cache_salt", "adapter", "prompt_logprobs"):
        if getattr(request, field) != getattr(neutral, field):
            raise ScenarioError(
                f"{path}.{field}",
                "n must be 1: each fork is a request of its own"
                if field == "n"
                else f"a fork goes on from {parent_id}, whose prompt is computed: leave it out",
            )
    if not set(request.stop) <= set(parent.stop):
        raise ScenarioError(
            f"{path}.stop",
            f"{parent_id} may have written one: give only stop strings that {parent.id} has too",
        )
    if request.logprobs not in (0, parent.logprobs):
        raise ScenarioError(
            f"{path}.logprobs",
            f"{request.logprobs}, but the tokens that it inherits have {parent.logprobs}: "
            "set it to that, or to 0",
        )


def _twin_names(request: RequestSpec) -> list[str]:
    return [f"{request.id}#{index}" for index in range(request.n)]


def _check_beams(scenario: Scenario, request: RequestSpec, path: str) -> None:
    """What a beam search cannot be combined with."""
    engine = scenario.engine
    if request.beam_width == 1:
        raise ScenarioError(f"{path}.beam_width", "one beam is greedy decoding: give 0, or 2 … 8")
    if request.n > 1:
        raise ScenarioError(f"{path}.n", "must be 1: a beam search returns beam_width answers")
    neutral = RequestSpec(id=request.id)
    for field in ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "stop"):
        if getattr(request, field) != getattr(neutral, field):
            raise ScenarioError(
                f"{path}.{field}",
                "a beam search ends at tokens, not at strings: leave it out"
                if field == "stop"
                else "a beam search takes the model's probabilities as they are: "
                f"set it to {getattr(neutral, field)}",
            )
    if not engine.kv_cache or engine.allocator != "paged" or engine.batching != "continuous":
        raise ScenarioError(
            f"{path}.beam_width",
            "beams need paged blocks, a KV cache and continuous batching: they fork and are pruned",
        )
    if request.beam_width > engine.max_num_batched_tokens:
        raise ScenarioError(
            f"{path}.beam_width",
            f"{request.beam_width} beams run together, but a step may compute only "
            f"{engine.max_num_batched_tokens} tokens",
        )


def _is_unicode(text: str) -> bool:
    return re.search("[\ud800-\udfff]", text) is None
