"""Reads the fields of one `config.json` object, and remembers which it has read.

What is left unread at the end and is not known to be harmless is named in a warning: a field may
change the geometry in a way that this code has never heard of.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any, cast

from core.sizing import checks
from core.sizing.errors import SizingError

LIMITS = {"num_hidden_layers": 1 << 12, "hidden_size": 1 << 20, "vocab_size": 1 << 26}
"""Well above any published model: a slip must end in a sentence, not in a list of 10^9 layers."""

MOST = 1 << 24
"""The limit of every other size that multiplies into a count of parameters."""

_REQUIRED = object()


class Fields:
    """data: the object. path: where it lies, "config" or "config.text_config".

    defaults: what the architecture's own configuration class takes for absent fields. Only an
    object nested in another leaves out what equals the default, so at the top level the fields in
    `core` must be there: one that is missing is a slip.
    """

    CORE = frozenset(
        "num_hidden_layers hidden_size num_attention_heads vocab_size intermediate_size "
        "n_layer n_head n_embd d_model n_layers n_heads ffn_dim".split()
    )

    def __init__(
        self, data: dict[str, Any], path: str, defaults: dict[str, Any], nested: bool
    ) -> None:
        self.data, self.path, self.nested = data, path, nested
        self.defaults = defaults
        self.read: set[str] = set()
        self.notes: list[str] = []
        self.nests: dict[str, Fields] = {}

    def at(self, name: str) -> str:
        return f"{self.path}.{name}"

    def raw(self, *names: str) -> Any:
        """The first of the names that is there and not null; else the default; else None.

        Two names of the same thing that differ are refused.
        """
        self.read.update(names)
        found = [n for n in names if self.data.get(n) is not None]
        if not found:
            if any(n in self.data for n in names):
                return None  # null is said, and means: none, or derived
            return self._default(names)
        value = self.data[found[0]]
        for other in found[1:]:
            if self.data[other] != value:
                raise SizingError(
                    self.at(other),
                    f"says {checks.shown(self.data[other])}, but {found[0]} says "
                    f"{checks.shown(value)}; both mean the same",
                )
        return value

    def _default(self, names: tuple[str, ...]) -> Any:
        for name in names:
            value = self.defaults.get(name)
            if value is None or (name in self.CORE and not self.nested):
                continue
            if not isinstance(value, bool) and value != 0:
                self.note(f"{self.at(name)} is not given: {value}, the architecture's default")
            return value
        return None

    def has(self, name: str) -> bool:
        """There and not null. Counts as read."""
        self.read.add(name)
        return self.data.get(name) is not None

    def skip(self, *names: str) -> None:
        """Fields that this architecture is known not to need."""
        self.read.update(names)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def whole(self, *names: str, default: Any = _REQUIRED, minimum: int = 1) -> int:
        """A whole number. default: for absent and null; without one the field is required."""
        value = self.raw(*names)
        if value is None:
            if default is _REQUIRED:
                raise SizingError(self.at(names[0]), "is missing, and the size depends on it")
            return cast(int, default)
        return checks.whole(value, self.where(*names), minimum, LIMITS.get(names[0], MOST))

    def whole_or_none(self, *names: str, minimum: int = 1) -> int | None:
        """A whole number, or None if absent or null."""
        value = self.raw(*names)
        if value is None:
            return None
        return checks.whole(value, self.where(*names), minimum, MOST)

    def flag(self, *names: str, default: bool = False) -> bool:
        value = self.raw(*names)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise SizingError(
                self.where(*names), f"must be true or false, not {checks.shown(value)}"
            )
        return value

    def number(self, name: str, default: float) -> float:
        value = self.raw(name)
        return default if value is None else checks.number(value, self.at(name), 0.0, 1e6)

    def word(self, name: str, default: str = "") -> str:
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise SizingError(self.at(name), f"must be a word, not {checks.shown(value)}")
        return value

    def items(self, name: str, length: int | None = None) -> list[Any] | None:
        """A list, of this many entries if `length` says so; None if absent or null."""
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise SizingError(self.at(name), f"must be a list, not {checks.shown(value)}")
        if length is not None and len(value) != length:
            raise SizingError(
                self.at(name), f"has {len(value):,} entries, but the model has {length:,} layers"
            )
        return value

    def wholes(self, name: str, length: int | None = None, minimum: int = 0) -> list[int] | None:
        """A list of whole numbers."""
        values = self.items(name, length)
        if values is None:
            return None
        if length is None and len(values) > LIMITS["num_hidden_layers"]:
            raise SizingError(self.at(name), f"has {len(values):,} entries; that is too many")
        return [
            checks.whole(value, f"{self.at(name)}[{i}]", minimum, MOST)
            for i, value in enumerate(values)
        ]

    def inner(self, name: str) -> Fields | None:
        """A nested object; None if absent or null."""
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise SizingError(self.at(name), f"must be an object, not {checks.shown(value)}")
        return self.nests.setdefault(name, Fields(value, self.at(name), {}, True))

    def where(self, *names: str) -> str:
        """The path of the first of the names that is there."""
        return self.at(next((n for n in names if n in self.data), names[0]))

    def unknown(self, *, switches: bool = False) -> list[str]:
        """Fields that were not read, say something, and are not known to be harmless; those of a
        nested object that was read as `attn_config.kv_n_heads`. switches: false ones too, which
        say that there is something to switch."""
        own = [
            name
            for name, value in self.data.items()
            if name not in self.read
            and (value not in (None, False, [], {}, "") or (switches and value is False))
            and name not in harmless()
        ]
        return own + [
            f"{name}.{one}"
            for name, nest in self.nests.items()
            for one in nest.unknown(switches=switches)
        ]


@cache
def harmless() -> frozenset[str]:
    """Names of fields that change neither memory nor parameter counts (data/fields.json)."""
    groups = json.loads(_data("fields.json"))["harmless"]
    return frozenset(name for group in groups.values() for name in group)


@cache
def architectures() -> dict[str, Any]:
    """data/architectures.json: defaults and nested kinds by model_type."""
    return cast(dict[str, Any], json.loads(_data("architectures.json")))


def _data(name: str) -> str:
    return resources.files("core.sizing").joinpath("data", name).read_text("utf-8")
