"""What every lesson to read keeps: its shape, its figures, its formulas, its terms."""

from __future__ import annotations

import re

import pytest

from quiz import bank
from tests.lessons.conftest import LEVELS, READ, words_of
from ui import nav
from ui.kit import glossary, text
from ui.paths import LESSONS
from ui.reading import document, ease, values


def test_every_place_of_the_course_is_there() -> None:
    missing = [place.name for place in nav.planned() if not place.exists]
    assert not missing


@pytest.mark.parametrize("name", READ)
def test_a_lesson_has_objectives_and_parts_with_headings(name: str) -> None:
    words = words_of(name)
    goals = [line for line in words["objectives"].splitlines() if line.startswith("- ")]
    assert 2 <= len(goals) <= 5
    assert len({goal[-1] in ";," for goal in goals[:-1]}) == 1, "one way to end them"
    parts = document.part_names(words)
    assert len(parts) >= 3
    for section, said in words.sections.items():
        base, _, variant = section.partition(".")
        assert variant in ("", "short", "full"), section
        assert said.strip(), f"{section} is empty"
        if base in document.APART:
            continue
        assert re.fullmatch(r"[a-z][a-z0-9_-]*", base), section
        assert base in words.sections, f"{section} has no middle level"
        assert said.startswith("### "), section
        assert len(said.split("\n", 1)[-1].split()) >= 8, f"{section} says nothing"


@pytest.mark.parametrize("name", READ)
def test_no_part_says_more_in_short_than_in_full(name: str) -> None:
    words = words_of(name)
    for part in document.part_names(words):
        if f"{part}.short" in words.sections:
            shorter, longer = (ease.of_text(text.pick(words, part, at)).words for at in LEVELS[::2])
            assert shorter <= longer, part


# --- figures -----------------------------------------------------------------------------------

PRODUCTS = (
    "Llama|Qwen|Gemma|Mistral|Mixtral|DeepSeek|Phi|GPT|OPT|Falcon|Kimi|GLM|NVLink|PCIe|CUDA|Python"
    "|PyTorch|torch|HTTP|RTX|FlashAttention|Hopper|DDR|section|chapter|issue|version|claim"
    "|exercise|gen"
)
ENGINES = "vLLM|SGLang|TensorRT-LLM|Dynamo|llm-d|NIXL|Mooncake|release|documentation"
NAMES = re.compile(
    "|".join(
        (
            r"^\s*\d+\.\s",  # the number of an item in a list
            r"[A-Za-z][\w./+-]*\d[\w./+-]*",  # H100, FP8, E4M3, V1, B105
            r"\b\d+(?:\.\d+)?[BMK]\b",  # 70B
            rf"\b(?i:{PRODUCTS})[ \u00a0-]+v?\d+(?:\.\d+)*",  # Llama 3.1
            r"\b(?:19|20)\d\d(?:-\d\d){0,2}\b",  # a year, a month, a day
            r"\bv?\d+\.\d+\.\d+\w*\b",  # a version
        )
    ),
    re.MULTILINE,
)
RELEASE = re.compile(r"\b\d+\.\d+\b(?! ?(?:%|×|[A-Za-zµ]+/s|[kKMGT]i?B|[mµ]?s\b))")
TITLE = re.compile(r"\[[^\[\]]*\]\(https?://[^()\s]*\)")


def bare_digits(markdown: str) -> list[str]:
    """Words with digits that are neither a value nor a name, a year or a version."""
    shown = re.sub(r"\{\w+\}", "", document.prose_of(TITLE.sub("", markdown)))
    found = []
    for line in NAMES.sub("", shown).splitlines():
        left = RELEASE.sub("", line) if re.search(ENGINES, line) else line
        found += re.findall(r"\S*\d\S*", left)
    return found


@pytest.mark.parametrize(
    "said",
    [
        "It takes 5 steps.", "some 3.5 times", "vLLM reads at 3.35 TB/s", "1,024 tokens", "20 %",
        "| A | 12 |", "vLLM keeps 0.9 % of it", "version 3 takes 4 blocks",
    ],
)  # fmt: skip
def test_a_number_in_prose_is_found(said: str) -> None:
    assert bare_digits(said)


@pytest.mark.parametrize(
    "said",
    [
        "Llama 3.1 70B on H100 in FP8, E4M3, since 2024-09 and `n = 5`, $2 \\cdot 80$",
        "1. First\n2. Second", "vLLM (V1, read at 0.33) and TensorRT-LLM 1.4.0rc4",
        "[the ledger](claims_ledger?claim=B100)", "{kv_token} a token", "Qwen3 0.6B",
        "[A paper of 8 pages](https://example.org/1)", "::run a?step=40 | Two answers.",
    ],
)  # fmt: skip
def test_names_years_versions_and_code_are_no_numbers(said: str) -> None:
    assert not bare_digits(said)


@pytest.mark.parametrize("name", READ)
def test_every_number_in_prose_is_a_value(name: str) -> None:
    for section, said in words_of(name).sections.items():
        if section != "values":
            assert not bare_digits(said), section


@pytest.mark.parametrize("name", READ)
def test_a_caption_and_the_objective_hold_no_number(name: str) -> None:
    words = words_of(name)
    assert not bare_digits(words.objective)
    for part in words.sections.values():
        for block in document.blocks(part):
            if isinstance(block, document.Run):
                assert not bare_digits(block.caption), block.caption


@pytest.mark.parametrize("name", READ)
def test_every_value_is_computed_and_used(name: str) -> None:
    words = words_of(name)
    defined = values.lines(words)
    used = {
        one for section, said in words.sections.items() if section != "values"
        for one in values.used(said)
    }  # fmt: skip
    assert used == set(defined)
    for line in defined.values():
        value = values.of_line(line)
        assert value.text.strip() and value.said, line


# --- formulas ----------------------------------------------------------------------------------

MACROS = {
    "frac", "tfrac", "dfrac", "text", "mathrm", "mathbf", "mathbb", "operatorname", "alpha", "beta",
    "gamma", "delta", "Delta", "lambda", "mu", "pi", "rho", "sigma", "tau", "theta", "ell", "sum",
    "prod", "cdot", "times", "left", "right", "lceil", "rceil", "lfloor", "rfloor", "min", "max",
    "le", "ge", "ne", "approx", "sim", "in", "infty", "sqrt", "exp", "log", "ln", "bmod", "top",
    "quad", "qquad", "dots", "ldots", "cdots", "hat", "bar", "tilde", "to", "Rightarrow", "ll",
    "gg", "pm", "partial", "begin", "end", "underbrace", "big", "Big", "prime", "mid",
}  # fmt: skip
"""Those that KaTeX knows and a formula of the course may need."""
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$\n]+)\$", re.DOTALL)


@pytest.mark.parametrize("name", READ)
def test_formulas_are_balanced_and_hold_only_what_katex_knows(name: str) -> None:
    for section, said in words_of(name).sections.items():
        if section == "values":
            continue
        spans = re.sub(r"`[^`]*`", "", said)
        left = FORMULA.sub("", spans)
        assert "$" not in left, f"{section}: a $ without its other"
        for found in FORMULA.finditer(spans):
            formula = found.group(1) or found.group(2)
            assert set(re.findall(r"\\([A-Za-z]+)", formula)) <= MACROS, formula
            bare = formula.replace(r"\{", "").replace(r"\}", "")
            assert bare.count("{") == bare.count("}"), formula
            assert formula.count(r"\left") == formula.count(r"\right"), formula
            assert formula == formula.strip("\n ") or found.group(1), f"{formula!r}: spaces at $"


# --- terms -------------------------------------------------------------------------------------


def test_every_term_is_used_and_taught_somewhere() -> None:
    used: set[str] = set()
    for file in LESSONS.glob("*.md"):
        used |= set(glossary.terms(file.read_text(encoding="utf-8")))
    known = {place.name for place in nav.planned()}
    for term in glossary.entries():
        assert {term.name, *term.also} & used, f"no lesson uses {term.name!r}"
        assert term.see in known, f"{term.name}: see {term.see!r}"
    assert used <= set(glossary.by_form())


@pytest.mark.parametrize("name", READ)
def test_a_lesson_marks_the_terms_of_its_field(name: str) -> None:
    if name != "references":
        assert len(set(glossary.terms("".join(words_of(name).sections.values())))) >= 3


# --- length and reading level ------------------------------------------------------------------


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("level", LEVELS)
def test_length_and_reading_level(name: str, level: str) -> None:
    words = words_of(name)
    found = ease.of_lesson(words, level)
    assert found.grade <= ease.HARDEST_GRADE
    if level != "short" or any(section.endswith(".short") for section in words.sections):
        assert found.words <= ease.LIMITS[level]
    assert 1 <= document.minutes(words, level) <= 15


def test_the_gauge_of_ease_tells_easy_from_hard() -> None:
    easy = ease.of_text("### Heading\nThe cat sat. It was a red cat. {n} of them ran.")
    hard = ease.of_text(
        "Notwithstanding considerable heterogeneity, infrastructural characteristics "
        "systematically determine computational throughput, particularly asymptotically."
    )
    assert easy.grade < 4 < 15 < hard.grade
    assert ease.of_text("| a | table |\n::chart x").words == 0
    assert [ease.syllables(word) for word in ("cat", "cache", "token", "table", "the")] == [
        1, 1, 2, 2, 1,
    ]  # fmt: skip


def test_the_report_has_a_line_a_lesson() -> None:
    from ui.reading import report

    lines = report.lines()
    assert [line.split()[0] for line in lines[1:]] == [
        place.name for place in nav.COURSE if place.reads
    ]


# --- the course around them --------------------------------------------------------------------


def test_every_topic_belongs_to_a_lesson_and_every_lesson_with_mastery_has_one() -> None:
    names = {place.name for place in nav.planned()}
    assert {topic.lesson for topic in bank.topics().values()} <= names
    for place in nav.COURSE:
        if place.mastery == place.name:
            assert bank.of_lesson(place.name), place.name
