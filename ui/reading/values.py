"""The figures of a lesson: each is computed by the library, read from a run, or says its source.

    kv_token = calc kv_bytes_per_token {"model": "llama-3-70b", "dtype": "bf16"} as KiB
    both = calc {"sum": [1, {"call": "ridge_point", "inputs": {"gpu": "h100-sxm5"}}]} as int
    bandwidth = gpu h100-sxm5 memory_bandwidth as TB/s
    layers = model llama-3-70b num_layers
    thrash_steps = run pressure_thrash steps
    printed = claim B055 claimed          (and `right`: the computed one, with a format)
    overhead = stated "20–26 %" "Kwon et al. 2023, section 7.1: attention kernel alone"

In the text `{kv_token}` stands for it, with its derivation on hover and focus.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from core.errors import KVScopeError
from core.sizing import calls, catalog, expressions, gpus
from core.sizing.expressions import Call
from ui import derivation
from ui.claims import ledger
from ui.kit import glossary
from ui.lesson import Lesson
from ui.reading import document, run_metrics
from ui.reading.formats import Amount, ValueLineError, readable, written

_LINE = re.compile(r"(\w+) *= *(calc|gpu|model|run|claim|stated) +(.+)")
_AS = re.compile(r"^(.*?)(?: +as +([\w/]+))?$", re.DOTALL)
_STATED = re.compile(r'"([^"]+)" +"([^"]+)"')
_USE = re.compile(r"\{(\w+)\}")
MOST_STEPS = 3
"""Steps of a derivation that a hover has room for: the last ones, which lead to the value."""


@dataclass(frozen=True, slots=True)
class Value:
    """text: as the lesson shows it. said: where it comes from, one thought a line. kind: the word
    that the line begins with."""

    name: str
    text: str
    said: tuple[str, ...]
    kind: str


def lines(words: Lesson) -> dict[str, str]:
    """The lines under `## values` by the name that each defines. Raises ValueLineError."""
    out: dict[str, str] = {}
    for line in words.sections.get("values", "").splitlines():
        if not line.strip():
            continue
        found = _LINE.fullmatch(line.strip())
        if found is None:
            raise ValueLineError(f"{line.strip()!r} is no value: NAME = calc | gpu | model | …")
        if found.group(1) in out:
            raise ValueLineError(f"{found.group(1)} is defined twice")
        out[found.group(1)] = line.strip()
    return out


def used(markdown: str) -> list[str]:
    """The names of the values that a text shows, in order."""
    return [name for piece, prose in document.plain_pieces(markdown) if prose
            for name in _USE.findall(piece)]  # fmt: skip


def of_line(line: str) -> Value:
    """A value by its line. Raises ValueLineError, with the line's own name in it."""
    found = _LINE.fullmatch(line)
    if found is None:
        raise ValueLineError(f"{line!r} is no value")
    name, kind, rest = found.groups()
    if kind == "run":
        return _of_run(name, rest)  # a run on disk may change
    return _computed(name, kind, rest)


@lru_cache(maxsize=2048)
def _computed(name: str, kind: str, rest: str) -> Value:
    try:
        text, said = _KINDS[kind](rest)
    except (KVScopeError, KeyError, json.JSONDecodeError) as exc:
        raise ValueLineError(f"{name} = {kind} {rest}: {exc}") from exc
    return Value(name, text, tuple(said), kind)


def _of_run(name: str, rest: str) -> Value:
    source, how = _split(rest)
    try:
        run, metric = source.split()
        amount, said = run_metrics.measure(run, metric)
        return Value(
            name, written(amount, how), (f"Run {run}: {said}.", run_metrics.label(run)), "run"
        )
    except (KVScopeError, ValueError) as exc:
        raise ValueLineError(f"{name} = run {rest}: {exc}") from exc


def _split(rest: str) -> tuple[str, str]:
    """What stands before `as`, and the format behind it."""
    found = _AS.fullmatch(rest.strip())
    assert found is not None  # the pattern takes any text
    return found.group(1).strip(), found.group(2) or ""


def _calc(rest: str) -> tuple[str, list[str]]:
    source, how = _split(rest)
    function, brace, inputs = source.partition("{")
    given = json.loads(brace + inputs) if brace else {}
    expression = {"call": function.strip(), "inputs": given} if function.strip() else given
    value = expressions.evaluate(expression, _call, "calc")
    if value.number is None:
        raise ValueLineError("; ".join(value.calls[-1].result.notes) or "there is no such number")
    alone = len(value.calls) == 1 and value.calls[0].result.value == value.number
    unit = value.calls[0].result.unit if alone else ""
    said = _of_call(value.calls[0]) if alone else _of_expression(value)
    return written(Amount(value.number, unit), how), said


def _call(function: str, inputs: Any) -> Any:
    return calls.call(function, inputs).result


def _of_call(call: Call) -> list[str]:
    result = call.result
    said = [
        f"{step.formula} = {readable(step.substituted)} = "
        f"{derivation.number(step.value, step.unit)}"
        for step in result.steps[-MOST_STEPS:]
    ]
    if len(result.steps) > MOST_STEPS:
        said.insert(0, f"The last {MOST_STEPS} of {len(result.steps)} steps:")
    said.append(_inputs(call))
    said += [note for note in result.notes[:1] if note]
    if result.source:
        said.append(f"Source: {result.source}")
    return said


def _of_expression(value: expressions.Value) -> list[str]:
    said = [f"{value.text} = {derivation.number(value.number)}"]
    for call in value.calls[:MOST_STEPS]:
        said.append(f"{call.function}: {derivation.number(call.result.value, call.result.unit)}")
    return said


def _inputs(call: Call) -> str:
    shown = ", ".join(
        f"{key} {given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)}"
        for key, given in call.inputs.items()
    )
    return f"{call.function}: {shown}" if shown else call.function


def _gpu(rest: str) -> tuple[str, list[str]]:
    source, how = _split(rest)
    name, field = _two(source, "gpu NAME FIELD")
    spec = gpus.get(name)
    fields: dict[str, tuple[Any, str, str]] = {
        "memory": (spec.visible_bytes, "B", "memory, as the driver shows it"),
        "memory_bandwidth": (spec.bandwidth, "B/s", "memory bandwidth"),
        "link": (spec.link, "B/s", f"{spec.link_name}, one way"),
        **{
            f"peak_{dtype}": (peak, "FLOP/s", f"dense peak in {dtype}")
            for dtype, peak in spec.peaks.items()
        },
        **{
            f"sparse_{dtype}": (peak, "FLOP/s", f"peak in {dtype} with 2:4 sparsity")
            for dtype, peak in spec.sparse_peaks.items()
        },
    }
    if field not in fields:
        raise ValueLineError(f"a GPU has no {field!r}; it has {', '.join(fields)}")
    number, unit, what = fields[field]
    text = written(Amount(number, unit), how)
    return text, [f"{spec.title}, {what}: {derivation.number(number, unit)}", _source(spec)]


def _source(spec: gpus.GpuSpec) -> str:
    return f"Read {spec.date}: {spec.sources[0]}" if spec.sources else "No source is noted."


def _model(rest: str) -> tuple[str, list[str]]:
    source, how = _split(rest)
    name, field = _two(source, "model NAME FIELD")
    spec = catalog.get(name)
    fields: dict[str, tuple[Any, str]] = {
        "num_layers": (spec.num_layers, "layers"),
        "params": (spec.params, "parameters, exactly"),
        "active_params": (spec.active_params, "parameters that one token visits"),
        "hidden_size": (spec.hidden_size, "hidden size"),
        "vocab_size": (spec.vocab_size, "tokens in the vocabulary"),
        "max_position": (spec.max_position, "longest context, in tokens"),
        **{key: (given, f"{key} of its config") for key, given in spec.fields.items()},
    }
    number, what = fields.get(field, (None, ""))
    if isinstance(number, bool) or not isinstance(number, int | float):
        numbers = [key for key, (given, _) in fields.items() if isinstance(given, int | float)]
        raise ValueLineError(f"this model has no {field!r}; it has {', '.join(numbers)}")
    said = [f"{spec.name}: {what}"]
    return written(Amount(number), how), [*said, spec.source] if spec.source else said


def _claim(rest: str) -> tuple[str, list[str]]:
    source, how = _split(rest)
    name, field = _two(source, "claim ID claimed | right")
    if name not in ledger.known():
        raise ValueLineError(f"the ledger has no claim {name!r}")
    finding = ledger.judged()[name].findings[0]
    printed = finding.part.printed
    says = f"Claim {name} of the ledger: {ledger.known()[name].says}"
    if field == "claimed" and printed is not None:
        return str(printed).replace(" ", "\N{NO-BREAK SPACE}"), [says, "This is what is printed."]
    number = finding.value.number if finding.value is not None else None
    if field != "right" or number is None:
        raise ValueLineError(f"claim {name} has no number {field!r}: say `claimed` or `right`")
    unit = printed.base if printed is not None else finding.part.unit
    call = finding.value.calls[-1:] if finding.value is not None else ()
    said = [says, *(line for one in call for line in _of_call(one))]
    return written(Amount(number, unit), how), said


def _stated(rest: str) -> tuple[str, list[str]]:
    found = _STATED.fullmatch(rest.strip())
    if found is None:
        raise ValueLineError('it must be: stated "what is shown" "its source"')
    return found.group(1), [f"Stated: {found.group(2)}"]


def _two(source: str, form: str) -> tuple[str, str]:
    parts = source.split()
    if len(parts) != 2:
        raise ValueLineError(f"it must be: {form}")
    return parts[0], parts[1]


_KINDS: dict[str, Callable[[str], tuple[str, list[str]]]] = {
    "calc": _calc,
    "gpu": _gpu,
    "model": _model,
    "claim": _claim,
    "stated": _stated,
}


def shown(markdown: str, words: Lesson) -> str:
    """The text with every `{value}` as an element that carries its derivation.

    What cannot be had, such as a run that is not on this server, says so in its place: a page is
    never lost over a figure. A name that the lesson does not define stays as it is.
    """
    defined = lines(words)

    def element(found: re.Match[str]) -> str:
        name = found.group(1)
        if name not in defined:
            return found.group(0)
        try:
            value = of_line(defined[name])
        except ValueLineError as exc:
            return glossary.hover("–", (str(exc),), "kv-value")
        return glossary.hover(value.text, value.said, "kv-value")

    return "".join(
        _USE.sub(element, piece) if prose else piece
        for piece, prose in document.plain_pieces(markdown)
    )
