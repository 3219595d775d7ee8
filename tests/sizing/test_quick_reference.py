"""The numbers to know: each is what its call gives, and a slip in the file is an error."""

from __future__ import annotations

import copy
import json
from fractions import Fraction
from typing import Any

import pytest

from core.sizing import calls, ledger, quick_reference
from core.sizing.errors import SizingError

CONTENT: dict[str, Any] = json.loads(quick_reference.FILE.read_text("utf-8"))
GROUPS = quick_reference.load()
ENTRIES = {entry.id: entry for group in GROUPS for entry in group.entries}
LISTED = [number for group in CONTENT["groups"] for number in group["numbers"]]


def _inputs(given: dict[str, Any]) -> dict[str, Any]:
    """Inputs that are calls themselves, called."""
    return {
        key: calls.call(value["call"], value["inputs"]).value
        if isinstance(value, dict) and "call" in value
        else value
        for key, value in given.items()
    }


@pytest.mark.parametrize("given", LISTED, ids=lambda given: given["id"])
def test_every_number_is_what_calc_gives(given: dict[str, Any]) -> None:
    entry = ENTRIES[given["id"]]
    if "call" not in given:
        assert given["id"] in ("seq-64x4k", "reading", "reading-gap")
        return
    answer = calls.call(given["call"], _inputs(given["inputs"]))
    if "symbol" in given:
        symbols = {one.symbol: (one.value, one.unit) for one in answer.result.symbols}
        assert (entry.value, entry.base) == symbols[given["symbol"]]
    else:
        assert (entry.value, entry.base) == (answer.value, answer.result.unit)
        if answer.result.scope in ("layer", "gpu", "replica"):
            # the library's own scope, or the one thing in it that the name speaks of
            assert entry.scope in (answer.result.scope, "sequence")


def test_the_three_that_are_arithmetic_over_calls() -> None:
    one = calls.call("kv_bytes_sequence", {"model": "llama-3-70b", "tokens": 4096}).value
    assert one is not None and ENTRIES["seq-64x4k"].value == 64 * one == 85_899_345_920
    assert ENTRIES["reading"].value == pytest.approx(250 * 1.33 / 60)
    assert ENTRIES["reading-gap"].value == pytest.approx(60 / (250 * 1.33))


@pytest.mark.parametrize(
    ("id", "shown"),
    [
        ("kv-llama-3-70b-bf16", "327.68 kB = 320 KiB"),
        ("kv-deepseek-v3-layer", "1.15 kB = 1.12 KiB"),
        ("seq-31-70b-128k", "42.95 GB = 40 GiB"),
        ("bw-h100-sxm5", "3.35 TB/s"),
        ("peak-h100-sxm5", "989.4 TFLOP/s"),
        ("ridge-h100-sxm5", "295.3 FLOP/B"),
        ("batch-h100", "296 tokens"),
        ("decode-70b-8h100", "5.265 ms"),
        ("waste-contiguous", "80.47 %"),
        ("reading-gap", "180.5 ms"),
        ("ndr", "50 GB/s"),
    ],
)
def test_it_is_shown_in_its_unit(id: str, shown: str) -> None:
    assert ENTRIES[id].shown == shown


def test_the_file_holds_no_value_and_only_claims_that_exist() -> None:
    known = {claim.id for claim in ledger.load()}
    for given in LISTED:
        assert "value" not in given
        assert set(given.get("claims", ())) <= known
        assert not given["name"].endswith(".")
    assert len({given["name"] for given in LISTED}) > 80


def _with(change: Any) -> None:
    content = copy.deepcopy(CONTENT)
    change(content["groups"][0]["numbers"][0])
    quick_reference.read(content)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: one.update(value=3), r"groups\[0\]\.numbers\[0\]\.value.*not known"),
        (lambda one: one.pop("scope"), r"scope.*missing"),
        (lambda one: one.update(scope="node"), "scope.*must be one of"),
        (lambda one: one.update(unit="ms"), "ms is no unit of B"),
        (lambda one: one.update(call="no_such"), "no sizing function"),
        (lambda one: one.update(compute=3), "either call"),
        (lambda one: one.update(symbol="z"), "no symbol of kv_bytes_per_token"),
        (lambda one: one.update(inputs={"model": "nobody"}), "not in the catalogue"),
        (lambda one: one.update(id="kv-llama-3-70b-fp8"), "appears twice"),
    ],
)
def test_a_slip_is_an_error_with_its_path(change: Any, said: str) -> None:
    with pytest.raises(SizingError, match=said):
        _with(change)


def test_a_file_that_is_none_is_refused(tmp_path: Any) -> None:
    with pytest.raises(SizingError, match="cannot read"):
        quick_reference.load(tmp_path / "none.json")
    bad = tmp_path / "bad.json"
    bad.write_text("{", "utf-8")
    with pytest.raises(SizingError, match=r"bad\.json"):
        quick_reference.load(bad)
    with pytest.raises(SizingError, match="schema"):
        quick_reference.read({"schema": "x", "groups": []})


def test_scales_are_exact() -> None:
    assert ENTRIES["decode-70b-8h100"].scale == Fraction(1, 1000)
    assert ENTRIES["bw-h100-sxm5"].scale == 10**12


def test_what_somebody_measured_says_so_in_its_name() -> None:
    for entry in ENTRIES.values():
        reported = any(call.result.basis == "literature" for call in entry.derived.calls)
        assert reported == entry.name.endswith(("as measured", "as reported")), entry.id
