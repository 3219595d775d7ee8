"""The figures of a lesson: what can be said, how it is written, and what is refused."""

from __future__ import annotations

import pytest

from ui.lesson import Lesson
from ui.reading import run_metrics, values
from ui.reading.formats import Amount, ValueLineError, readable, written

GAP = "\N{NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("line", "text", "said"),
    [
        ('a = calc kv_bytes_per_token {"model": "llama-3-70b", "dtype": "bf16"} as KiB',
         f"320{GAP}KiB", "2 · 80 · 8 · 128 · 2"),
        ('a = calc ridge_point {"gpu": "h100-sxm5"} as int', "295", "I* = peak / BW"),
        ('a = calc {"product": [3, {"call": "blocks_for_tokens", "inputs": {"tokens": 33}}]}',
         "9", "blocks_for_tokens: 3 blocks"),
        ("a = gpu h100-sxm5 memory_bandwidth as TB/s", f"3.35{GAP}TB/s", "H100 SXM5"),
        ("a = gpu h100-sxm5 memory as GiB/GB", f"79.6{GAP}GiB (85.5{GAP}GB)", "the driver"),
        ("a = model llama-3-70b num_layers", "80", "layers"),
        ("a = model llama-3-70b params as billion", f"70.6{GAP}billion", "exactly"),
        ("a = run two_answers_one_prefix steps", "17", "RECORDED"),
        ("a = run two_answers_one_prefix in_steps.ttft.p50", "1", "time to the first token"),
        ("a = run two_answers_one_prefix prompt_tokens:A", None, "request A"),
        ("a = run two_answers_one_prefix step_tokens:0", None, "step 0"),
        ("a = run long_prompt_whole in_us.worst_gap as ms", None, "longest time between"),
        ("a = run pressure_thrash waste as percent", None, "not written"),
        ("a = claim B041 claimed", f"308{GAP}users", "printed"),
        ("a = claim B055 right as KiB", None, "B055"),
        ('a = stated "20–26 %" "Kwon et al. 2023"', "20–26 %", "Stated: Kwon"),
    ],
)  # fmt: skip
def test_a_line_is_computed_and_says_where_it_comes_from(
    line: str, text: str | None, said: str
) -> None:
    value = values.of_line(line)
    assert text is None or value.text == text
    assert said in "\n".join(value.said)
    assert value.name == "a"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("a = calc no_such {}", "no_such"),
        ('a = calc kv_bytes_per_token {"model": "llama-9"}', "llama-9"),
        ("a = calc kv_bytes_per_token {", "a = calc"),
        ('a = calc kv_bytes_per_token {"model": "llama-3-70b"} as ms', "cannot be written as ms"),
        ('a = calc ridge_point {"gpu": "h100-sxm5"} as furlongs', "no format"),
        ("a = gpu h100 memory", "did you mean"),
        ("a = gpu h100-sxm5 colour", "memory_bandwidth"),
        ("a = model llama-3-70b colour", "num_layers"),
        ("a = run no_such_run steps", "no_such_run"),
        ("a = run pressure_thrash happiness", "preemptions"),
        ("a = run pressure_thrash ttft_us:Z", "no request"),
        ("a = run pressure_thrash step_us:9999", "steps 0 to"),
        ("a = claim X1 claimed", "X1"),
        ("a = claim B041 guessed", "claimed"),
        ('a = stated "without a source"', "its source"),
        ("a = guess 3", "is no value"),
    ],
)
def test_a_line_that_cannot_be_says_why(line: str, why: str) -> None:
    with pytest.raises(ValueLineError) as caught:
        values.of_line(line)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("amount", "how", "text"),
    [
        (Amount(327680, "B"), "KiB", "320 KiB"),
        (Amount(327680, "B"), "kB", "328 kB"),
        (Amount(1.5e12, "B/s"), "GB/s", "1,500 GB/s"),
        (Amount(0.0000012, "s"), "us", "1.2 µs"),
        (Amount(0.0366, "fraction"), "percent", "3.66 %"),
        (Amount(0.021, "x"), "percent", "2.1 %"),
        (Amount(3.5123, "x"), "x", "3.51 ×"),
        (Amount(1234.4), "int", "1,234"),
        (Amount(0.00012345), "num", "0.000123"),
        (Amount(-12.345), "", "−12.3"),
        (Amount(80), "", "80"),
        (Amount(0), "num", "0"),
        (Amount(989.4e12, "FLOP/s"), "TFLOP/s", "989 TFLOP/s"),
    ],
)
def test_how_a_number_is_written(amount: Amount, how: str, text: str) -> None:
    assert written(amount, how) == text.replace(" ", GAP)


def test_long_numbers_of_a_derivation_are_cut_to_what_one_takes_in() -> None:
    assert readable("989400000000000 / 3350000000000") == "9.894 · 10¹⁴ / 3.35 · 10¹²"
    assert readable("0.0052652019 + 163840 · 4096") == "0.005265 + 163,840 · 4096"
    assert readable("llama-3-70b, x12345y, 1.25") == "llama-3-70b, x12345y, 1.25"


def _lesson(values_said: str, text: str) -> Lesson:
    return Lesson("T", "o", {"a": text, "values": values_said})


def test_a_value_stands_in_the_text_but_not_in_code_or_formulas() -> None:
    words = _lesson('n = stated "5" "a source"', "{n} and `{n}` and $x_{n}$ and {other}")
    drawn = values.shown(words["a"], words)
    assert drawn.count("kv-value") == 1
    assert "`{n}`" in drawn and "$x_{n}$" in drawn and "{other}" in drawn
    assert values.used(words["a"]) == ["n", "other"]


def test_what_cannot_be_had_says_so_in_its_place() -> None:
    words = _lesson("n = run gone steps", "It took {n} steps.")
    drawn = values.shown(words["a"], words)
    assert "kv-value" in drawn and ">–<" in drawn and "gone" in drawn


@pytest.mark.parametrize("said", ["n = 5", 'n = stated "5" "a"\nn = stated "6" "b"'])
def test_values_that_are_none_or_come_twice_are_refused(said: str) -> None:
    with pytest.raises(ValueLineError):
        values.lines(_lesson(said, ""))


def test_hostile_text_of_a_value_stays_text() -> None:
    words = _lesson('n = stated "<b>x</b>" "[[token]] <script> {n}"', "{n}")
    drawn = values.shown(words["a"], words)
    assert "<b>" not in drawn and "<script>" not in drawn and "[[" not in drawn


@pytest.mark.parametrize("metric", list(run_metrics.WHOLE))
def test_every_figure_of_a_run_can_be_had(metric: str) -> None:
    amount, said = run_metrics.measure("pressure_thrash", metric)
    assert amount.number >= 0 and said


def test_figures_of_a_run_are_those_of_its_events() -> None:
    def number(metric: str) -> float:
        return run_metrics.measure("pressure_thrash", metric)[0].number

    assert number("steps") == 86 and number("num_blocks") == 87
    assert number("preemptions") == 6
    assert number("computed_tokens") > number("recomputed_tokens") > 0
    assert 0 < number("waste") < 1 and 0 < number("idle_share") < 1
    assert number("in_us.gap.p50") <= number("in_us.gap.p99") <= number("in_us.worst_gap")
