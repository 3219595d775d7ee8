"""JSON into the typed arguments of a function, by its signature.

A model is `model` (a name of the catalogue) or `config` (what a `config.json` holds); geometry
beside it must agree. A GPU is a name or an object. All else is checked against its annotation, so
that a function sees no value of a type that it does not expect; what a value may be, the function
decides itself.
"""

from __future__ import annotations

import inspect
import json
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar, Union

from core.sizing import catalog, checks, fields, gpus
from core.sizing.architectures import model_from_config
from core.sizing.errors import SizingError
from core.sizing.geometry import ModelSpec
from core.sizing.gpus import GpuSpec

T = TypeVar("T")

_LARGEST_LIST = 100_000
_HUGE = 10**40


UNITS = {
    **dict.fromkeys(("bandwidth", "link_bytes_per_s"), "B/s one way"),
    "flops": "FLOP/s",
    "intensity": "FLOP/B",
    **dict.fromkeys(("weight_bytes", "bytes_per_token", "pool_bytes", "overhead_bytes"), "B"),
    **dict.fromkeys(("scale_bytes", "zero_bytes", "act_bytes", "per_gpu_pool_bytes"), "B"),
    **dict.fromkeys(("pool_gib", "total_gib", "weights_gib", "overhead_gib"), "GiB"),
    **dict.fromkeys(("latency_s", "overhead_s", "prefill_s", "reload_s", "seconds"), "s"),
    **dict.fromkeys(("step_s", "transfer_s"), "s"),
    **dict.fromkeys(("requests_per_s", "rps"), "requests/s"),
    "requests_per_day": "requests/day",
    "tokens_per_s": "tok/s",
    "tokens_per_s_per_gpu": "tok/s",
    "tokens_per_day": "tokens/day",
    "tokens_per_request": "tokens",
    "price_per_gb": "$/GB",
    "price_per_gb_hour": "$/GB/h",
    "price_per_gpu_hour": "$/h",
    "params": "parameters",
    **dict.fromkeys(("hidden_fraction", "reduction", "target", "utilization"), "0 to 1"),
    **dict.fromkeys(("ceiling", "h", "mfu", "mbu", "gpu_memory_utilization"), "0 to 1"),
    "acceptance": "0 to 1",
    **dict.fromkeys(("headroom", "margin"), "a factor"),
    **dict.fromkeys(("draft_cost", "verify_cost"), "decode steps"),
    "exponent": "of Zipf's law",
    "used": "tokens",
    "value": "from_",
}
"""What a number is counted in, by the name of the input; whole counts say it by their name."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One input: its name, the types that it may have, whether it may be null or left out."""

    name: str
    types: tuple[Any, ...]
    nullable: bool
    required: bool
    default: Any = None

    @property
    def is_model(self) -> bool:
        return ModelSpec in self.types

    @property
    def type_name(self) -> str:
        return " | ".join(_type_name(one) for one in self.types)

    @property
    def unit(self) -> str:
        """Of the number, if it has one that its name does not already say."""
        return UNITS.get(self.name, "") if {int, float} & {*self.types} else ""

    def __str__(self) -> str:
        """As a signature shows it: `tokens: int`, `flops: float [FLOP/s]`, `model | config`."""
        if self.is_model:
            return "model | config" if self.required else "[model | config]"
        unit = f" [{self.unit}]" if self.unit else ""
        stated = f"{self.name}: {self.type_name}{unit}"
        return stated if self.required else f"{stated} = {json.dumps(self.default)}"


@cache
def parameters(target: Callable[..., Any]) -> tuple[Parameter, ...]:
    """The inputs of a function, or of a dataclass, in order."""
    hints = typing.get_type_hints(target.__init__ if inspect.isclass(target) else target)
    out = []
    for name, parameter in inspect.signature(target).parameters.items():
        members = _members(hints[name])
        if any(typing.get_origin(one) in (dict, Mapping) for one in members):
            # What a JSON object stands for is made of it by the function itself.
            members = tuple(one for one in members if not is_dataclass(one))
        required = parameter.default is inspect.Parameter.empty
        out.append(
            Parameter(
                name=name,
                types=tuple(one for one in members if one is not type(None)),
                nullable=type(None) in members or Any in members,
                required=required,
                default=None if required else parameter.default,
            )
        )
    return tuple(out)


def build(target: Callable[..., T], values: object, path: str = "") -> T:
    """Call a function, or make a dataclass, with a JSON object that lies at `path`."""
    made = arguments(target, values, path)
    with errors_below(path, ""):
        return target(**made)


def arguments(target: Callable[..., Any], values: object, path: str) -> dict[str, Any]:
    """Keyword arguments for `target` from a JSON object that lies at `path`."""
    given = _object(values, path)
    wanted = parameters(target)
    names = {parameter.name for parameter in wanted}
    of_model = next((one for one in wanted if one.is_model), None)
    stated = _stated(given, names) if of_model else {}
    if of_model:
        names |= {"model", "config", *fields.NAMES}
    for name in given:
        if name not in names:
            raise SizingError(joined(path, name), _unknown(name, names))
    out: dict[str, Any] = {}
    for parameter in wanted:
        where = joined(path, parameter.name)
        if parameter is of_model:
            model = _model(given, stated, path)
            if model is not None:
                out[parameter.name] = model
            elif parameter.required:
                known = "a name of the catalogue, or config, what a config.json holds"
                raise SizingError(joined(path, "model"), f"is missing: give {known}")
        elif parameter.name in given:
            out[parameter.name] = _converted(given[parameter.name], parameter, where)
        elif parameter.required:
            raise SizingError(where, "is missing")
    return out


def _stated(given: Mapping[str, Any], inputs_of_its_own: set[str]) -> dict[str, Any]:
    """The geometry that is named beside the model. A function's own input of such a name counts
    too, unless it is null, which leaves it to the config; `params` replaces a count on purpose."""
    return {
        name: given[name]
        for name in fields.NAMES
        if name in given
        and not (name in inputs_of_its_own and (name == "params" or given[name] is None))
    }


def _model(given: Mapping[str, Any], stated: Mapping[str, Any], path: str) -> ModelSpec | None:
    """The model that is meant, its geometry compared; None if there is no word of one."""
    if "model" in given and "config" in given:
        raise SizingError(joined(path, "config"), "stands beside model: give one of the two")
    if "model" in given:
        model = model_named(given["model"], joined(path, "model"))
    elif "config" in given:
        model = model_described(given["config"], joined(path, "config"))
    else:
        return None
    fields.check_agreement(model, stated, path)
    return model


def model_named(name: object, path: str = "model") -> ModelSpec:
    """A model of the catalogue; one that is there already stays as it is."""
    if isinstance(name, ModelSpec):
        return name
    if not isinstance(name, str):
        raise SizingError(path, f"must be a name of the catalogue, not {checks.shown(name)}")
    with errors_below(path, "model"):
        return catalog.get(name)


def model_described(config: object, path: str = "config", name: str = "config") -> ModelSpec:
    """A model from the content of a config.json."""
    if not isinstance(config, dict):
        raise SizingError(path, f"must be what a config.json holds, not {checks.shown(config)}")
    with errors_below(path, "config"):
        return model_from_config(config, name=name)


def gpu_meant(value: object, path: str = "gpu") -> GpuSpec:
    """A GPU of the table by its name, or one's own as an object."""
    if isinstance(value, str):
        with errors_below(path, "gpu"):
            return gpus.get(value)
    if isinstance(value, dict):
        return build(gpus.custom, value, path)
    raise SizingError(path, f"must be {_WORDS[GpuSpec]}, not {checks.shown(value)}")


@contextmanager
def errors_below(path: str, own: str) -> Iterator[None]:
    """Errors of a part, which names its own input `own`, are told with where that input lies."""
    try:
        yield
    except SizingError as error:
        raise SizingError(joined(path, error.path, own), error.message) from None


def joined(path: str, inner: str, own: str = "") -> str:
    """`inputs`, `tp` → `inputs.tp`; with own="config", `a.config`, `config.x` → `a.config.x`."""
    if own and (inner == own or inner.startswith((f"{own}.", f"{own}["))):
        inner = inner[len(own) :]
    if not inner or not path:
        return path or inner
    return path + inner if inner[0] in ".[" else f"{path}.{inner}"


def _converted(value: Any, parameter: Parameter, path: str) -> Any:
    if value is None:
        if parameter.nullable:
            return None
        raise SizingError(path, f"must be {_wanted(parameter.types)}, not null")
    first: SizingError | None = None
    for one in parameter.types:
        try:
            return _as(one, value, path)
        except SizingError as error:
            # Of several types, the complaint of the one that the value resembles is the useful one.
            if first is None or error.path != path:
                first = error
    if len(parameter.types) > 1 and first is not None and first.path == path:
        raise SizingError(path, f"must be {_wanted(parameter.types)}, not {checks.shown(value)}")
    assert first is not None
    raise first


def _as(kind: Any, value: Any, path: str) -> Any:
    """A JSON value as one type; SizingError if it is another."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or kind is object:
        return value
    if kind is GpuSpec:
        return gpu_meant(value, path)
    if kind is bool:
        if not isinstance(value, bool):
            raise SizingError(path, f"must be true or false, not {checks.shown(value)}")
        return value
    if kind is int:
        return _whole(value, path)
    if kind is float:
        return _number(value, path)
    if kind is str:
        if not isinstance(value, str):
            raise SizingError(path, f"must be a word, not {checks.shown(value)}")
        return value
    if origin is typing.Literal:
        return checks.choice(value, path, inner)
    if origin in (tuple, list, Sequence):
        return _list(value, inner[0], path, origin)
    if origin in (dict, Mapping):
        named = _object(value, path)
        return {key: _any_of(inner[1], item, f"{path}.{key}") for key, item in named.items()}
    if is_dataclass(kind) and isinstance(kind, type):
        return build(kind, value, path)
    raise TypeError(f"{path}: no rule for {kind}")


def _any_of(kind: Any, value: Any, path: str) -> Any:
    if kind is Any:
        return value
    members = _members(kind)
    types = tuple(one for one in members if one is not type(None))
    return _converted(value, Parameter("", types, type(None) in members, True), path)


def _whole(value: Any, path: str) -> int:
    """Whole, and small enough to be printed; what is too much the function itself knows."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and math.isfinite(value) and abs(value) >= _HUGE:
        raise SizingError(path, f"is too large: {checks.shown(value)}")
    return checks.whole(value, path, -_HUGE, _HUGE)


def _number(value: Any, path: str) -> int | float:
    """Finite, and an int as long as it was one: bytes and counts stay exact."""
    as_float = checks.number(value, path, -float("inf"))
    return value if isinstance(value, int) else as_float


def _list(value: Any, kind: Any, path: str, origin: Any) -> Any:
    if not isinstance(value, list):
        raise SizingError(path, f"must be a list, not {checks.shown(value)}")
    if len(value) > _LARGEST_LIST:
        raise SizingError(path, f"has {len(value):,} entries; {_LARGEST_LIST:,} are the most")
    items = [_any_of(kind, item, f"{path}[{index}]") for index, item in enumerate(value)]
    return items if origin is list else tuple(items)


def _object(value: object, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SizingError(path, f"must be an object, not {checks.shown(value)}")
    return value


def _unknown(name: str, names: set[str]) -> str:
    close = get_close_matches(name, sorted(names), n=3, cutoff=0.6)
    known = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(sorted(names))}"
    return f"is no input here; {known}"


def _members(kind: Any) -> tuple[Any, ...]:
    if typing.get_origin(kind) in (Union, types.UnionType):
        return typing.get_args(kind)
    return (kind,)


_WORDS = {
    int: "a whole number",
    float: "a number",
    str: "a word",
    bool: "true or false",
    GpuSpec: "a GPU's name or an object",
}


def _wanted(kinds: tuple[Any, ...]) -> str:
    return " or ".join(dict.fromkeys(_WORDS.get(one, _type_name(one)) for one in kinds))


def _type_name(kind: Any) -> str:
    if typing.get_origin(kind) is typing.Literal:
        return " | ".join(map(repr, typing.get_args(kind)))
    if typing.get_origin(kind) in (tuple, list, Sequence):
        return f"[{_type_name(typing.get_args(kind)[0])}]"
    if typing.get_origin(kind) in (dict, Mapping):
        return "object"
    if kind in (GpuSpec, ModelSpec):
        return "GPU" if kind is GpuSpec else "model"
    return getattr(kind, "__name__", str(kind))
