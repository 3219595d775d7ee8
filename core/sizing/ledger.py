"""Reading `lessons/claims.json`: strict, so that a slip in the data is an error with its path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from core import jsonio
from core.errors import InputFileError
from core.sizing import printed
from core.sizing.claims import Claim, Part
from core.sizing.errors import SizingError

SCHEMA: Final = "kv-scope/claims/1"
SOURCES: Final = ("lesson", "chapter")
JUDGED: Final = ("right", "right-with-rounding", "inconsistent", "wrong")
NEEDS: Final = ("measurement", "convention", "price")
TOPICS: Final = (
    "basics", "attention", "kv_bytes", "weights", "quantization", "quality", "capacity", "paging",
    "sharing", "prefix", "roofline", "offload", "disaggregation", "mla", "cost", "planning",
    "metrics", "engines",
)  # fmt: skip

_OF_A_CLAIM: Final = {"id", "source", "section", "topic", "says", "parts", "explanation"}
_KINDS: Final[tuple[tuple[str, set[str], set[str]], ...]] = (
    # Marked by this key: what it must hold beside `what`, and what it may.
    ("judged", {"judged", "why"}, {"source"}),
    ("compute", {"printed", "compute"}, {"binary", "otherwise", "but", "own_numbers"}),
    ("needs", {"needs"}, {"printed"}),
)
_LOST: Final = {"restored", "compute", "unit", "needs"}


LEDGER: Final = Path(__file__).resolve().parents[2] / "lessons" / "claims.json"


@dataclass(frozen=True, slots=True)
class Source:
    """A text that makes claims. author, reference: empty where the ledger has none."""

    title: str
    author: str = ""
    reference: str = ""

    @property
    def credit(self) -> str:
        """Title, author and reference in one line."""
        return ", ".join(filter(None, (self.title, self.author, self.reference)))


def load(path: Path = LEDGER) -> tuple[Claim, ...]:
    """The claims of a ledger file, in its order. Raises SizingError with the path in the file."""
    return read(_file(path))


def sources(path: Path = LEDGER) -> dict[str, Source]:
    """The texts that a ledger file judges, by the name that its claims give them."""
    whole = _object(_file(path), "ledger", {"schema", "sources", "claims"}, set())
    out = {}
    for name, given in _object(whole["sources"], "sources", set(SOURCES), set()).items():
        where = f"sources.{name}"
        fields = _object(given, where, {"title"}, {"author", "reference"})
        out[name] = Source(**{key: _text(text, f"{where}.{key}") for key, text in fields.items()})
    return out


def _file(path: Path) -> Any:
    try:
        return jsonio.loads(path.read_bytes())
    except OSError as error:
        raise SizingError("", f"cannot read {path.name}: {error.strerror or error}") from None
    except InputFileError as error:
        raise SizingError("", f"{path.name}: {error}") from None


def read(content: object) -> tuple[Claim, ...]:
    """The claims of a ledger as JSON gives it."""
    whole = _object(content, "ledger", {"schema", "sources", "claims"}, set())
    if whole["schema"] != SCHEMA:
        raise SizingError("schema", f"must be {SCHEMA}")
    _object(whole["sources"], "sources", set(SOURCES), set())
    items = _list(whole["claims"], "claims")
    claims = tuple(_claim(item, f"claims[{index}]") for index, item in enumerate(items))
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        if claim.id in seen:
            raise SizingError(f"claims[{index}].id", f"{claim.id} appears twice")
        seen.add(claim.id)
    return claims


def _claim(content: object, path: str) -> Claim:
    given = _object(content, path, _OF_A_CLAIM, {"assumptions", "contradicts"})
    parts = _list(given["parts"], f"{path}.parts")
    if not parts:
        raise SizingError(f"{path}.parts", "must hold at least one part")
    return Claim(
        id=_text(given["id"], f"{path}.id"),
        source=_one_of(given["source"], f"{path}.source", SOURCES),
        section=_text(given["section"], f"{path}.section"),
        topic=_one_of(given["topic"], f"{path}.topic", TOPICS),
        says=_text(given["says"], f"{path}.says"),
        parts=tuple(_part(part, f"{path}.parts[{index}]") for index, part in enumerate(parts)),
        explanation=_text(given["explanation"], f"{path}.explanation"),
        assumptions=_texts(given.get("assumptions", []), f"{path}.assumptions"),
        contradicts=_texts(given.get("contradicts", []), f"{path}.contradicts"),
    )


def _part(content: object, path: str) -> Part:
    if isinstance(content, dict) and "printed" in content and content["printed"] is None:
        return _lost(_object(content, path, {"what", "printed"}, _LOST), path)
    for mark, required, optional in _KINDS:
        if isinstance(content, dict) and mark in content:
            given = _object(content, path, {"what"} | required, optional)
            break
    else:
        raise SizingError(path, "must hold compute, judged, needs, or printed as null")
    common: dict[str, Any] = {"what": _text(given["what"], f"{path}.what")}
    if mark == "judged":
        return Part(
            **common,
            judged=_one_of(given["judged"], f"{path}.judged", JUDGED),  # type: ignore[arg-type]
            why=_text(given["why"], f"{path}.why"),
            source=_text(given.get("source", "—"), f"{path}.source").replace("—", ""),
        )
    if isinstance(given.get("printed"), dict) and "formula" in given["printed"]:
        where = f"{path}.printed"
        formula = _object(given["printed"], where, {"formula", "gives", "unit"}, set())
        common |= {
            "formula": _text(formula["formula"], f"{where}.formula"),
            "gives": formula["gives"],
            "unit": formula["unit"],
        }
    elif "printed" in given:
        number = printed.read(given["printed"], f"{path}.printed")
        common |= {"printed": number, "unit": number.unit}
    if mark == "needs":
        return Part(**common, needs=_one_of(given["needs"], f"{path}.needs", NEEDS))
    return Part(
        **common,
        compute=given["compute"],
        binary=given.get("binary"),
        otherwise=_named(given.get("otherwise", []), f"{path}.otherwise", "reading"),
        but=_named(given.get("but", []), f"{path}.but", "case"),
        own_numbers=given.get("own_numbers") is True,
    )


def _lost(given: Mapping[str, Any], path: str) -> Part:
    if "restored" not in given and "compute" not in given:
        raise SizingError(path, "must say what was lost: restored, or compute")
    needs = given.get("needs")
    return Part(
        what=_text(given["what"], f"{path}.what"),
        lost=True,
        unit=given.get("unit", ""),
        compute=given.get("compute"),
        restored=given.get("restored", ""),
        needs="" if needs is None else _one_of(needs, f"{path}.needs", NEEDS),
    )


def _named(content: object, path: str, name: str) -> tuple[tuple[str, Any], ...]:
    out = []
    for index, item in enumerate(_list(content, path)):
        given = _object(item, f"{path}[{index}]", {name, "compute"}, set())
        out.append((_text(given[name], f"{path}[{index}].{name}"), given["compute"]))
    return tuple(out)


def _object(content: object, path: str, required: set[str], optional: set[str]) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise SizingError(path, "must be an object")
    for name in sorted(required - content.keys()):
        raise SizingError(f"{path}.{name}", "is missing")
    for name in sorted(content.keys() - required - optional):
        raise SizingError(f"{path}.{name}", "is not known here")
    return content


def _list(content: object, path: str) -> list[Any]:
    if not isinstance(content, list):
        raise SizingError(path, "must be a list")
    return content


def _text(content: object, path: str) -> str:
    if not isinstance(content, str) or not content:
        raise SizingError(path, "must be text")
    return content


def _texts(content: object, path: str) -> tuple[str, ...]:
    return tuple(_text(item, f"{path}[{n}]") for n, item in enumerate(_list(content, path)))


def _one_of(content: object, path: str, allowed: tuple[str, ...]) -> str:
    if content not in allowed:
        raise SizingError(path, f"must be one of {', '.join(allowed)}")
    assert isinstance(content, str)
    return content
