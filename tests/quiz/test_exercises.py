"""The exercises: every right value by plain arithmetic, every slip told apart and named."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

from core.sizing import ledger
from quiz.errors import QuizError
from quiz.exercises import exercise
from quiz.exercises.diagnose import Slip, Target, diagnose
from quiz.exercises.exercise import Exercise, Part

L70 = 2 * 80 * 8 * 128  # bytes of a token of Llama 3 70B with one byte for an element
C40 = 2 * 56 * 8 * 128
MLA = 61 * (512 + 64) * 2
H100 = 989.4e12, 3.35e12
F40 = C40 * 8192

RIGHT: dict[str, dict[str, float]] = {
    "mistral-kv": {
        "a": 2 * 32 * 8 * 128 * 2, "b": 128 * 2048 * 131072, "c": 16 * 2**30, "d": 256,
    },
    "h100-crossover": {
        "a": 64, "b": H100[1] / H100[0], "c": 64 * H100[1] / H100[0], "d": 1,
        "e": math.ceil(H100[0] / H100[1]), "f": 319,
    },
    "waste": {
        "a": 1 - 800 / 4096, "b": 1 - 50 / 4096, "c": 1 - 250 / 4096, "d": 7.5, "e": 7.5 / 800,
    },
    "prefix": {
        "a": 0.8 * 1024 / 1152, "b": 1152 / (1024 * 0.2 + 128), "c": 9, "d": 64 / 8064,
    },
    "sixteen": {"a": 2 * 80 * 64 * 128 * 2, "b": 8, "c": 16, "d": 4, "e": 64},
    "forty-billion": {"a": C40, "b": 35e9, "c": 74, "d": 149, "e": 117},
    "rag": {
        "a": 2248 * L70, "b": 0.65 * 2048 / 2248, "c": 200 * 512 * L70, "d": 0.52,
        "e": 250 * 512 * L70,
    },
    "transfer": {
        "a": 2048 * L70, "b": 50 * 2048 * L70, "c": 1, "d": 2048 * L70 / 50e9,
        "e": 0.3 * 2048 * L70 / 50e9,
    },
    "one-gpu": {
        "a": 35e9, "b": F40, "c": 200 * F40, "d": 37,
        "e": (2 * 40e9 * 8192 + 2 * 56 * 40 * 128 * 8192**2) / (1978.9e12 / 2),
    },
    "long-context": {
        "a": 131072 * L70, "b": 131072 * MLA, "c": 46, "d": 32, "e": L70 / 2 / MLA,
        "f": (671026419200 / MLA - 70553706496 / L70) / (1 / MLA - 1 / L70),
    },
    "fleet": {
        "a": 6451.2, "b": 6451.2 * L70, "c": 162.7, "d": 1 - 162.7 / 1000, "e": 7266, "f": 7.266,
    },
}  # fmt: skip
"""By hand, and as the audit of the source has them."""

ALL = list(exercise.files())
DRAWS = [(id, draw) for id in ALL for draw in range(9 if "again" in exercise.files()[id] else 1)]


def _numbers(made: Exercise) -> list[tuple[Part, Target]]:
    return [(part, part.target) for part in made.parts if part.target is not None]


def test_they_are_the_two_exercises_and_the_nine_questions() -> None:
    levels = [exercise.make(id).level for id in ALL]
    assert levels == ["worked"] * 2 + [
        level for level in ("foundational", "intermediate", "principal") for _ in range(3)
    ]
    assert {path.stem for path in exercise.FOLDER.glob("*.json")} == set(ALL) == set(RIGHT)


@pytest.mark.parametrize("id", ALL)
def test_every_right_value_is_what_arithmetic_gives(id: str) -> None:
    found = {part.id: float(target.value) for part, target in _numbers(exercise.make(id))}
    assert found == pytest.approx(RIGHT[id], rel=2e-3)
    exact = {key for key, value in RIGHT[id].items() if isinstance(value, int)}
    assert all(found[key] == RIGHT[id][key] for key in exact)


@pytest.mark.parametrize(("id", "draw"), DRAWS)
def test_slips_are_told_from_the_answer_and_from_each_other(id: str, draw: int) -> None:
    made = exercise.make(id, draw)
    assert not exercise.clashes(made)
    for part, target in _numbers(made):
        assert target.value > 0 and target.slips
        for slip in target.slips:
            assert diagnose(_typed(slip.value, target), target).slip == slip.id, (part.id, slip)
        assert diagnose(_typed(target.value, target), target).verdict == "right"
        # Two or three digits are what somebody reads off a calculator.
        if not target.whole:
            assert diagnose(_typed(target.value, target, 3), target).verdict == "right"
        assert diagnose(part.answer.split(" (")[0], target).verdict == "right", part.answer
        example = diagnose(part.like, target).verdict
        assert example not in ("right", "unread", "unit", "misconception"), part.like


def _typed(value: Fraction, target: Target, digits: int = 12) -> str:
    unit = target.base if target.base in ("B", "B/s", "s", "FLOP/B", "requests/s") else ""
    return f"{float(value):.{digits}g} {unit}".strip()


@pytest.mark.parametrize("id", ALL)
def test_sizes_in_the_other_prefix_and_without_a_unit_are_named(id: str) -> None:
    for _, target in _numbers(exercise.make(id)):
        if target.base not in ("B", "B/s"):
            continue
        end = target.base.removeprefix("B")
        gib = float(target.value) / 2**30
        found = diagnose(f"{gib:.4g} GB{end}", target)
        assert (
            found.verdict == "unit" and f"GiB{end}" in found.says and "1,073,741,824" in found.says
        )
        found = diagnose(f"{float(target.value) / 1e9:.6g} Gbit{end}", target)
        assert found.verdict == "unit" and "8 bits" in found.says
        found = diagnose(f"{gib:.5g}", target)
        assert found.verdict == "unit" and "right in" in found.says
        found = diagnose(f"{float(target.value) * 1000:.6g} B{end}", target)
        assert found.verdict in ("magnitude", "misconception", "unit")


@pytest.mark.parametrize(
    ("text", "verdict", "says"),
    [
        ("320 KiB", "right", ""),
        ("327.68 kB", "right", ""),
        ("0.33 MB", "right", ""),
        ("0.3 MB", "rounding", "one digit"),
        ("310 KiB", "rounding", "3.1 % below"),
        ("320 kB", "unit", "2.4 % more"),
        ("320 MB", "unit", "KiB"),
        ("320", "unit", "right in KiB"),
        ("5", "unit", "alone is not a size"),
        ("320 KiB/s", "unit", "not per second"),
        ("320 %", "unit", "asked is a size"),
        ("2.5 MiB", "misconception", "query heads"),
        ("327.68 GB", "unit", "right in kB"),
        ("3.2 KiB", "magnitude", "100 times too small"),
        ("900 KiB", "off", "more than a factor of two"),
        ("20 B", "off", "factor of ten"),
        ("400 KiB", "off", "Too high."),
        ("0 B", "off", "factor of ten"),
        ("-320 KiB", "off", "below zero"),
        ("lots", "unread", "no number"),
    ],
)
def test_a_size_is_diagnosed(text: str, verdict: str, says: str) -> None:
    slip = Slip("query_heads", Fraction(2_621_440), "You counted query heads.")
    found = diagnose(text, Target(Fraction(327_680), "B", (slip,)))
    assert found.verdict == verdict and says in found.says


@pytest.mark.parametrize(
    ("text", "verdict", "says"),
    [
        ("74", "right", ""), ("74 users", "right", ""), ("74 sequences", "right", ""),
        ("74.5", "rounding", "round down"), ("75", "rounding", "Rounded up"),
        ("73", "off", "Too low"), ("74 tokens", "unit", "number is right"),
        ("80", "misconception", ""), ("740", "magnitude", "10 times"),
    ],
)  # fmt: skip
def test_whole_ones_must_be_exact(text: str, verdict: str, says: str) -> None:
    target = Target(
        Fraction(74), "users", (Slip("gib", Fraction(80), "…"),), "down", Fraction(745, 10)
    )
    found = diagnose(text, target)
    if text == "73":  # within five percent, and yet one user is one user
        assert found.verdict in ("off", "rounding")
        return
    assert found.verdict == verdict and says in found.says


@pytest.mark.parametrize(
    ("text", "verdict"),
    [("0.711", "right"), ("71.1 %", "right"), ("71 %", "right"), ("71.1", "unit"),
     ("0.711 %", "unit"), ("80 %", "misconception"), ("0.8", "misconception")],
)  # fmt: skip
def test_shares_with_and_without_the_sign(text: str, verdict: str) -> None:
    slip = Slip("rate", Fraction(8, 10), "That is how often.")
    assert diagnose(text, Target(Fraction(711, 1000), "fraction", (slip,))).verdict == verdict


def test_how_an_answer_was_read_is_said_where_it_is_not_plain() -> None:
    target = Target(Fraction(327_680), "B")
    assert diagnose("327680 B", target).read_as == ""
    assert diagnose("327,680 B", target).read_as == ""
    assert diagnose("0,32768 MB", target).read_as == "0.32768 MB"
    assert "GB" in diagnose("12 gb", target).read_as


@pytest.mark.parametrize(("id", "draw"), DRAWS)
def test_the_same_draw_is_the_same_exercise_and_others_differ(id: str, draw: int) -> None:
    exercise.make.cache_clear()
    first = exercise.make(id, draw)
    exercise.make.cache_clear()
    assert exercise.make(id, draw) == first
    if draw:
        assert first.parts != exercise.make(id).parts


def test_what_is_not_there_is_refused() -> None:
    for id, draw in (("nothing", 0), ("rag", -1), ("rag", 10_000), ("fleet", 1)):
        with pytest.raises(QuizError):
            exercise.make(id, draw)


@pytest.mark.parametrize("id", ALL)
def test_the_words_are_whole(id: str) -> None:
    made = exercise.make(id)
    content = exercise.files()[id]
    assert [part.id for part in made.parts] == [chr(97 + i) for i in range(len(made.parts))]
    assert made.statement and made.pages and made.short and made.title
    claims = {claim.id for claim in ledger.load()}
    said: list[str] = [made.statement, made.changed]
    for part in made.parts:
        said += [part.ask, part.fact, *part.rubric]
        said.append(exercise.put_in(part.model, lambda name, p=part: p.figures[name].text))
        assert set(part.claims) <= claims
        if part.target is None:
            assert 3 <= len(part.rubric) <= 6 and part.model
        else:
            assert part.formula and part.like and part.answer
            said += [slip.says for slip in part.target.slips]
    for text in said:
        assert not re.search(r"(?<![_^])\{[a-z_]+\}", text), text
        linked = set(re.findall(r"claims_ledger\?claim=(\w+)", text))
        assert linked <= claims
    names = set(re.findall(r"(?<![_^])\{([a-z_0-9]+)\}|@([a-z_0-9]+)", json.dumps(content)))
    used = {a or b for a, b in names}
    assert set(content.get("figures", {})) <= used, "a figure that nothing shows"


def test_what_a_source_has_wrong_is_put_otherwise_and_linked() -> None:
    """The four premises that do not hold: the statement says so and the ledger is a click away."""
    for id, claims in {
        "long-context": {"B181", "B182"}, "fleet": {"B184"}, "sixteen": {"B171"},
        "one-gpu": {"B190"}, "waste": {"B170"},
    }.items():  # fmt: skip
        assert claims <= set(re.findall(r"claim=(\w+)", exercise.make(id).changed))


def test_reported_figures_name_their_source() -> None:
    for id in ALL:
        for part in exercise.make(id).parts:
            for figure in part.figures.values():
                assert figure.value is None or not figure.source


def test_levels_are_numbered_through() -> None:
    by_level: dict[str, list[int]] = {}
    for id in ALL:
        made = exercise.make(id)
        by_level.setdefault(made.level, []).append(made.number)
    for numbers in by_level.values():
        assert numbers[0] == 1 and all(b == a + 1 for a, b in pairwise(numbers))


def test_a_broken_file_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    content: dict[str, Any] = json.loads((exercise.FOLDER / "rag.json").read_text("utf-8"))
    content["parts"][0]["right"] = {"call": "kv_bytes_sequence", "inputs": {"model": "nobody"}}
    monkeypatch.setattr(exercise, "files", lambda: {"rag": content})
    exercise.make.cache_clear()
    with pytest.raises(Exception, match="nobody"):
        exercise.make("rag")
    exercise.make.cache_clear()
