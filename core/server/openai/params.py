"""What both kinds of completion share of a body.

Known parameters work, a null is as good as none, and a few say nothing to this engine and are
ignored (`IGNORED`). Those that would change the answer and are not served are refused by name,
unless they have the value at which they do nothing (`NEUTRAL`); so is every unknown one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from core.errors import ScenarioError
from core.scenario import RequestSpec, Scenario
from core.server.openai.errors import ApiError

Json = dict[str, Any]

IGNORED = frozenset(
    {"metadata", "store", "service_tier", "prompt_cache_key", "safety_identifier", "verbosity"}
)

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logit_bias": ({},),
    "suffix": ("",),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
}

_SCENARIO = frozenset(
    {
        *("n", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed"),
        *("stop_token_ids", "ignore_eos", "cache_salt"),
    }
)
"""Parameters that a scenario's request has under the same name; the last seven are not OpenAI's."""

_SAMPLING: Json = {"temperature": 1.0, "n": 1}
"""OpenAI's defaults where a scenario has others."""

MAX_STOPS = 16
MAX_TOP_LOGPROBS = 20


@dataclass(frozen=True, slots=True)
class Params:
    """spec: without its prompt and max_tokens. client: whose request it is (`user`), if it says so.
    include_usage: a last chunk of a stream holds the usage."""

    spec: RequestSpec
    stream: bool
    include_usage: bool
    client: str | None


class Body:
    """A body's fields, each to be taken once; what is left at the end is refused."""

    def __init__(self, data: Any) -> None:
        if not isinstance(data, dict):
            raise ApiError(400, "the body must be a JSON object")
        self._fields = {
            name: value for name, value in data.items() if value is not None and name not in IGNORED
        }

    def take(self, name: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
        """A field's value. Raises ApiError unless it is of that kind; True is no number."""
        value = self._fields.pop(name, None)
        if value is None:
            return default
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ApiError(400, f"{name}: {_shown(value)} is of the wrong type", name)
        return value

    def integer(self, name: str, low: int, high: int, default: int | None = None) -> int | None:
        """A field that is a whole number in [low, high]."""
        value: int | None = self.take(name, int)
        if value is None:
            return default
        if not low <= value <= high:
            raise ApiError(400, f"{name}: {value} is not in {low} … {high}", name)
        return value

    def model(self, known: frozenset[str]) -> None:
        """The model, which must be given and be the one that is loaded."""
        name = self.take("model", str)
        if name is None:
            raise ApiError(400, "model: give the model's name", "model")
        if name not in known:
            raise ApiError(
                404, f"the model {name[:80]!r} is not loaded here", "model", "model_not_found"
            )

    def params(self, settings: Scenario) -> Params:
        """All that both kinds share. Raises ApiError with the name of an offending field."""
        stream = self.take("stream", bool, False)
        options = self.take("stream_options", dict, {})
        if options and not stream:
            raise ApiError(400, "stream_options: only with stream", "stream_options")
        unknown = options.keys() - {"include_usage", "include_obfuscation"}
        if unknown:
            raise _unknown(f"stream_options.{min(unknown)}")
        client = self.take("user", str)
        fields = {**_SAMPLING, **self._some(_SCENARIO), "stop": self._stops()}
        for name, values in NEUTRAL.items():
            value = self._fields.pop(name, None)
            if value is not None and value not in values:
                raise ApiError(
                    400, f"{name}: this server does not carry it out; leave it out", name
                )
        if self._fields:
            raise _unknown(min(self._fields))
        spec = _spec(settings, {**fields, "prompt_tokens": [0], "max_tokens": 1})
        return Params(spec, stream, bool(options.get("include_usage")), client)

    def _some(self, names: frozenset[str]) -> Json:
        return {name: self._fields.pop(name) for name in names & self._fields.keys()}

    def _stops(self) -> list[str]:
        stop = self.take("stop", (str, list), [])
        stops = [stop] if isinstance(stop, str) else stop
        if len(stops) > MAX_STOPS:
            raise ApiError(400, f"stop: {len(stops)} texts; at most {MAX_STOPS}", "stop")
        return stops


def _spec(settings: Scenario, fields: Json) -> RequestSpec:
    """A request's fields, checked as a scenario's are."""
    whole = {**settings.to_dict(), "requests": [{"id": "A", **fields}]}
    try:
        (spec,) = Scenario.from_dict(whole).requests
    except ScenarioError as exc:
        path = exc.path.removeprefix("requests[0]").removeprefix(".")
        message = f"{path}: {exc.message}" if path else exc.message
        raise ApiError(400, message, path.partition("[")[0] or None) from None
    return spec


def _unknown(name: str) -> ApiError:
    return ApiError(400, f"{name[:80]}: unknown parameter", name[:80], "unknown_parameter")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"
