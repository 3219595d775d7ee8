"""What runs with a quantised cache say: errors of heads, where two answers part, and the file of
what formats cost in quality."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest

from core.errors import RunError
from core.trace import divergence, kv_error, kv_quality
from tests import kv_quantised as made

# --- errors --------------------------------------------------------------------------------------


def test_an_error_is_relative_over_all_steps_and_not_a_mean_of_steps() -> None:
    run = made.run("int8_per_token_head")
    # One step with large numbers and no error: the sums grow, the error of each head shrinks.
    still = {kind: made.table(0.0) for kind in ("key", "value")}
    squares = {f"{kind}_squares": made.table(12.0) for kind in ("key", "value")}
    run["steps"].append({"step": 6, "scheduled": {}, "events": [], "kv_error": still | squares})
    found = kv_error.of_run(run)
    assert found is not None
    assert (len(found.key), len(found.key[0])) == (made.LAYERS, made.HEADS)
    assert found.key[0][0] == pytest.approx(math.sqrt(6e-4 / 18))
    assert found.key[4][1] == pytest.approx(5 * found.key[0][0])
    assert found.value[4][1] == pytest.approx(math.sqrt(24e-4 / 18))


def test_over_all_heads_large_numbers_count_more() -> None:
    run = made.run("int8_per_token_head", tokens=[10])
    step = run["steps"][0]["kv_error"]
    step["key_squares"][0][0] = 1e6
    found = kv_error.of_run(run)
    assert found is not None and found.key_all < 0.01 < found.value_all
    errors, squares = step["key"], step["key_squares"]
    assert found.key_all == pytest.approx(math.sqrt(sum(map(sum, errors)) / sum(map(sum, squares))))


def test_zeros_have_no_error_and_a_run_that_did_not_measure_none_at_all() -> None:
    run = made.run("int8_per_token_head", tokens=[10])
    for name in ("key", "key_squares"):
        run["steps"][0]["kv_error"][name] = made.table(0.0)
    found = kv_error.of_run(run)
    assert found is not None and found.key[7] == [0.0] * made.HEADS and found.key_all == 0.0
    assert kv_error.of_run(made.run()) is None


LESS = ("a layer less", "a head less", "no number")


@pytest.mark.parametrize("damage", [*LESS, "too large", "too small"])
def test_steps_that_do_not_fit_each_other_are_one_clear_error(damage: str) -> None:
    run = made.run("int8_per_token_head")
    table = run["steps"][1]["kv_error"]["key"]
    if damage == "a layer less":
        table.pop()
    elif damage == "a head less":
        table[2].pop()
    elif damage == "no number":
        table[2] = []
    else:
        for step in run["steps"]:
            name, number = ("key", 1.7e308) if damage == "too large" else ("key_squares", 5e-324)
            step["kv_error"][name][0][0] = number
    with pytest.raises(RunError, match="the kv_error of its steps do not add up"):
        kv_error.of_run(run)


# --- where two answers part ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "first"),
    [
        ([1, 2, 3], [1, 2, 3], None),
        ([1, 2, 3], [1, 9, 3], 1),
        ([1], [2], 0),
        ([1, 2], [1, 2, 3], 2),
        ([], [], None),
        ([], [5], 0),
    ],
)
def test_the_first_difference(a: list[int], b: list[int], first: int | None) -> None:
    assert divergence.first_difference(a, b) == first
    assert divergence.first_difference(b, a) == first


def test_the_choice_where_two_answers_part() -> None:
    own = made.run()
    other = made.run("int8_per_token_head", [10, 11, 16, 13, 14, 15])
    found = divergence.compare(own, other)
    assert found.first == 2 and found.tokens[1][2] == 16
    first, second, *rest = found.candidates
    # Token 12 is the model's own choice; 16 the other's, and the second likeliest of its own.
    assert (first.token, first.logprobs) == (12, (-0.5, None))
    assert (second.token, second.logprobs) == (16, (-0.6, -0.5))
    assert [one.token for one in rest] == [13]


def test_equal_answers_have_no_such_place_and_one_that_ends_early_has() -> None:
    own = made.run()
    assert divergence.compare(own, own) == divergence.Divergence(
        (made.TOKENS, made.TOKENS), None, ()
    )
    short = divergence.compare(own, made.run("fp8", made.TOKENS[:4]))
    assert short.first == 4 and short.candidates == ()


def test_only_the_sequence_that_is_asked_for_counts() -> None:
    own = made.run()
    own["steps"][0]["events"].append(
        {"type": "token_sampled", "request": "B", "sequence": "B", "token": 99}
    )
    assert divergence.outputs(own, "A") == made.TOKENS
    assert divergence.outputs(own, "B") == [99]


# --- quality -------------------------------------------------------------------------------------


def test_a_measurement_is_read_whole() -> None:
    found = kv_quality.parse(json.dumps(made.quality()))
    assert found.own.perplexity == 21.4 and found.tokens == 1_024
    assert found.label["label"] == "RECORDED" and found.label["source"]["device"] == "CPU"
    assert found.rows[1].diverges == {"sky": 31, "sum": 31}
    assert found.outlier_at == (12, 1) and len(found.outlier) == 12
    assert found.max_tokens["sum"] == 64 and found.by_layer[29] == pytest.approx(0.03)
    assert found.rows[3].nll_change == (0.0405, 0.001)


def test_one_without_an_outlier_is_whole_too() -> None:
    content = made.quality()
    del content["outlier"], content["by_layer"]
    found = kv_quality.parse(json.dumps(content))
    assert found.outlier_at is None and found.outlier == () and found.by_layer == ()


def _schema(content: made.Json) -> None:
    content["schema"] = "kv-quality/9"


def _no_own(content: made.Json) -> None:
    del content["rows"][0]


def _empty(content: made.Json) -> None:
    content["rows"] = []


def _field(content: made.Json) -> None:
    del content["rows"][2]["kl"]


def _share(content: made.Json) -> None:
    content["rows"][2]["top1"] = 1.2


def _nan(content: made.Json) -> None:
    content["rows"][2]["perplexity"] = float("nan")


def _prompt(content: made.Json) -> None:
    content["rows"][2]["diverges"]["nowhere"] = 3


def _dtype(content: made.Json) -> None:
    content["rows"][2]["kv_dtype"] = 8


@pytest.mark.parametrize("spoil", [_schema, _no_own, _empty, _field, _share, _nan, _prompt, _dtype])
def test_one_that_is_not_whole_is_refused(spoil: Callable[[made.Json], None]) -> None:
    content = made.quality()
    spoil(content)
    with pytest.raises(RunError, match=r"kv_quality\.json is not whole"):
        kv_quality.parse(json.dumps(content))


@pytest.mark.parametrize("text", ["", "[" * 100_000, "{", "[1]", '"x"', "null"])
def test_what_is_no_measurement_is_refused(text: str) -> None:
    with pytest.raises(RunError, match=r"kv_quality\.json"):
        kv_quality.parse(text)
