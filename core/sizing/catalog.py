"""The catalogue: models by name, each with its published config.json and where it is from."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from core.sizing.architectures import model_from_config
from core.sizing.errors import SizingError
from core.sizing.geometry import ModelSpec


@dataclass(frozen=True)
class Entry:
    """One model of data/models.json. date: when its source was read. nominal_params: the number
    that it goes by (70e9)."""

    name: str
    title: str
    source: str
    date: str
    config: dict[str, Any]
    nominal_params: float | None = None
    note: str = ""


@cache
def entries() -> dict[str, Entry]:
    """All entries by name, in the file's order."""
    text = resources.files("core.sizing").joinpath("data", "models.json").read_text("utf-8")
    return {one["name"]: Entry(**one) for one in json.loads(text)["models"]}


def names() -> tuple[str, ...]:
    return tuple(entries())


@cache
def _spec(name: str) -> ModelSpec:
    entry = entries()[name]
    model = model_from_config(entry.config, name, entry.source)
    notes = (entry.note, *model.notes) if entry.note else model.notes
    return replace(model, nominal_params=entry.nominal_params, notes=notes)


def get(name: object) -> ModelSpec:
    """The model of that name. Raises SizingError naming those that are spelled alike."""
    if isinstance(name, str) and name in entries():
        return _spec(name)
    if not isinstance(name, str):
        raise SizingError("model", "must be the name of a model in the catalogue")
    near = difflib.get_close_matches(name.lower(), names(), n=3, cutoff=0.5)
    hint = f"; near it: {', '.join(near)}" if near else ""
    raise SizingError("model", f"{name[:60]!r} is not in the catalogue{hint}")
