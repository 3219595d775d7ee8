"""What each format cost on the shipped text: the recorded measurement, as the page shows it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from core.errors import KVScopeError, RunError
from core.trace import kv_quality
from core.trace.kv_quality import Quality, Row
from ui.lesson import Lesson
from ui.paths import runs_dir
from ui.quantise import formats, place
from ui.quantise.place import Place

Json = dict[str, Any]
FILE = "kv_quality.json"
MAX_BYTES = 1 << 20


def recorded() -> Quality:
    """The measurement on disk. Raises RunError where there is none, or not a whole one."""
    path = runs_dir() / FILE
    try:
        known = path.stat()
    except OSError:
        raise RunError(f"there is no {FILE} among the recorded runs") from None
    if known.st_size > MAX_BYTES:
        raise RunError(f"{FILE} is larger than {MAX_BYTES:,} bytes")
    return _read(path, known.st_mtime_ns)


@lru_cache(maxsize=4)
def _read(path: Path, mtime_ns: int) -> Quality:
    try:
        return kv_quality.parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as exc:
        raise RunError(f"{FILE} cannot be read: {exc}") from None


def place_of(kv_dtype: str | Json) -> Place | None:
    """Where the controls stand for a format; None for one that they cannot say."""
    try:
        found = formats.spec(kv_dtype)
        forms = {form for _, form in found.layers}
        if found.scale is None or len(forms) > 1:
            return None
        wanted = {"fmt": found.form, "scale": found.scale}
        if found.calibration is not None:
            wanted["cal"] = found.calibration
        if found.layers:
            wanted["apart"] = formats.written([index for index, _ in found.layers])
            wanted["to"] = forms.pop()
        made, refused = place.read(wanted)
    except (KVScopeError, KeyError, TypeError, ValueError, AttributeError):
        return None  # a file's own idea of a format
    return made if refused is None and made.spec == found else None


def data(found: Quality, words: Lesson, here: Place, *, present: bool) -> Json:
    """For the table. here: where the controls stand; its row is marked."""
    places = [place_of(row.kv_dtype) for row in found.rows]
    wanted = replace(here, prompt="")
    rows = [
        {
            "name": row.name,
            "bytes": row.kv_bytes_per_token,
            "perplexity": row.perplexity,
            "change": row.nll_change,
            "kl": row.kl,
            "kl_max": row.kl_max,
            "top1": row.top1,
            "diverges": row.diverges,
            "place": there is not None,
        }
        for row, there in zip(found.rows, places, strict=True)
    ]
    return {
        "label": found.label,
        "tokens": found.tokens,
        "rows": rows,
        "prompts": [{"id": name, "text": text} for name, text in found.prompts.items()],
        "here": places.index(wanted) if wanted in places else -1,
        "words": {"about": _about(found, words)},
        "present": present,
    }


def _about(found: Quality, words: Lesson) -> str:
    names = list(found.prompts)
    prompts = f"{len(names)} prompts ({', '.join(names)})" if len(names) > 1 else "one prompt"
    most = " or ".join(map(str, sorted(set(found.max_tokens.values()))))
    return words["quality"].format(tokens=f"{found.tokens:,}", most=most, prompts=prompts)


def facts(found: Quality, words: Lesson) -> str:
    """What the rows say of eight and of four bits, and how far that reaches, as Markdown; what a
    measurement has no rows for is left out."""
    by = {there: row for row in found.rows if (there := place_of(row.kv_dtype)) is not None}

    def of(name: str) -> Row | None:
        return by.get(place.EXAMPLES[name][1])

    out = []
    eight = [row for there, row in by.items() if there.fmt != "int4" and not there.apart]
    if eight:
        within = sum(abs(row.nll_change[0]) < 2 * row.nll_change[1] for row in eight)
        out.append(words["fact-eight"].format(within=within, all=len(eight)))
    one, calibrated = of("fp8-one"), of("fp8-tensor")
    if one is not None and calibrated is not None:
        out.append(words["fact-one"].format(one=_kl(one), calibrated=_kl(calibrated)))
    coarse, fine = of("int4-tensor"), of("int4")
    if coarse is not None and fine is not None:
        read = {"own": found.own, "coarse": coarse, "fine": fine}
        said = {name: f"{row.perplexity:,.1f}" for name, row in read.items()}
        out.append(words["fact-four"].format(**said))
    inner, outer = of("inner"), of("outer")
    if inner is not None and outer is not None:
        size = f"{inner.kv_bytes_per_token:,}"
        mix = words["fact-mix"].format(size=size, inner=_kl(inner), outer=_kl(outer))
        out.append(f"{mix} {_exception(found, inner, outer, words)}".strip())
    if out:
        out.append(words["fact-limits"])
    return "\n\n".join(out)


def _kl(row: Row) -> str:
    return f"{row.kl:.3g}"  # as the table


def _exception(found: Quality, inner: Row, outer: Row, words: Lesson) -> str:
    """Names the layer that costs most alone, if it is one of the mix that costs less; else ""."""
    if not found.by_layer:
        return ""
    worst = max(range(len(found.by_layer)), key=found.by_layer.__getitem__)
    less = min(inner, outer, key=lambda row: row.kl)
    if worst not in dict(formats.spec(less.kv_dtype).layers):
        return ""
    return words["fact-mix-not"].format(layer=worst)


def charts(found: Quality, words: Lesson, *, present: bool) -> list[Json]:
    """Two charts of the outlier head for `lesson_chart`: the other heads' error, and KL. A line is
    a format with its scales, its places are the factors."""
    kinds = dict.fromkeys((one.format, one.scale) for one in found.outlier)
    factors = sorted({one.factor for one in found.outlier})
    by = {(one.format, one.scale, one.factor): one for one in found.outlier}
    out = []
    for section, field, unit, times in (
        ("outlier-error", "key_error_others", "%", 100.0),
        ("outlier-kl", "kl", "nats", 1.0),
    ):
        title, _, about = words[section].partition("\n")
        lines = []
        for index, kind in enumerate(list(kinds)[:6]):
            rows = [by.get((*kind, factor)) for factor in factors]
            values = [
                None if row is None else times * max(0.0, getattr(row, field)) for row in rows
            ]
            named = f"{formats.FORMATS.get(kind[0], kind[0])}, {_SHORT.get(kind[1], kind[1])}"
            lines.append(
                {"name": named, "values": values, "style": "abcdef"[index], "call": "measured"}
            )
        out.append(
            {
                "title": title,
                "about": about,
                "unit": unit,
                "x": {
                    "label": "The head's keys, times",
                    "unit": "",
                    "values": factors,
                    "log": True,
                },
                "y": {"label": "Error" if unit == "%" else "KL", "log": True},
                "lines": lines,
                "rules": [],
                "label": found.label,
                "present": present,
            }
        )
    return out


def by_layer(found: Quality, words: Lesson, *, present: bool) -> Json | None:
    """INT4 in one layer alone, for `series`; None where it was not measured."""
    if not found.by_layer:
        return None
    return {
        "title": words["by-layer"],
        "unit": "10⁻³ nats",
        "x": {"label": "layer", "last": len(found.by_layer) - 1},
        "lines": [
            {
                "name": "KL",
                "values": [float(f"{1000 * max(0.0, kl):.4g}") for kl in found.by_layer],
                "style": "a",
            }
        ],
        "label": found.label,
        "present": present,
        "small": True,
    }


_SHORT = {
    "per_tensor": "one scale",
    "per_head_static": "a scale a head",
    "per_token_head": "a scale a token and head",
}
