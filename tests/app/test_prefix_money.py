"""The figures of the prefix cache page: times, the formula, what policies cost."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from core.sizing import calls, catalog, prefix
from ui import lesson
from ui.prefix import economics, evict, money, pairs

WORDS = lesson.load("prefix_cache")


def test_the_formula_gives_the_tokens_that_the_run_has_saved() -> None:
    found, _, _ = money.figures()
    assert (found.S, found.block_size, len(found.requests)) == (668, 16, 6)
    assert found.h == found.measured_h == pytest.approx(5 / 6)
    # Every hit found the same 41 blocks, so formula and run agree but for the mean over lengths.
    assert found.formula_tokens == pytest.approx(found.measured_tokens, abs=1e-9)
    assert found.measured_tokens == pytest.approx(5 * 656 / 4093)


def test_the_formula_takes_nothing_from_the_run_that_it_is_compared_with() -> None:
    """Where the pool loses the prefix, the formula stays what it was and the run contradicts it."""
    words = list(range(1, 26))
    given: dict[str, Any] = {
        "schema": "scenario/1",
        "engine": {"num_blocks": 8, "block_size": 4, "prefix_cache": "radix"},
        "requests": [
            {"id": name, "prompt_tokens": [*words, 50 + i], "max_tokens": 2, "arrive_step": 9 * i}
            for i, name in enumerate("ABC")
        ],
    }
    kept = pairs.run_here(given, {})
    assert economics.saving(kept, kept).measured_h == pytest.approx(2 / 3)
    # B asks for A's prompt in the very step in which A computes it.
    given["requests"][1]["arrive_step"] = 0
    given["engine"]["num_blocks"] = 16
    lost = pairs.run_here(given, {})
    found = economics.saving(lost, lost)
    assert (found.h, found.measured_h) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert found.formula_tokens == pytest.approx(2 / 3 * 24 / 26)
    assert found.measured_tokens == pytest.approx(1 / 3 * 24 / 26)


@pytest.mark.parametrize(("own", "reused"), [(4, "24"), (0, "20")])
def test_the_formula_that_is_printed_is_the_one_that_is_computed(own: int, reused: str) -> None:
    """Without tokens of its own a prompt's last one is among the shared, and is computed."""
    prompt = list(range(1, 25))
    given = {
        "schema": "scenario/1",
        "engine": {"num_blocks": 32, "block_size": 4},
        "requests": [
            {
                "id": name,
                "prompt_tokens": [*prompt, *range(100 * i, 100 * i + own)],
                "max_tokens": 1,
                "arrive_step": 4 * i,
            }
            for i, name in enumerate("ABC", 1)
        ],
    }
    run = pairs.run_here(given, {})
    found = economics.saving(run, run)
    assert found.S == 24 and found.formula_tokens == pytest.approx(found.measured_tokens)
    said = money.formula(found, "SIMULATED")
    assert f"S′ = ⌊min(S, S + U − 1) / bs⌋ · bs = {reused}</caption>" in said
    assert r"\lfloor \min(S,\, S+U-1)/B \rfloor B" in WORDS["words.full"]


def test_what_the_cache_costs_is_said_of_the_steps_in_which_it_works() -> None:
    _, costs, _ = money.figures()
    assert costs.keys() == money.UNIQUE_WITH.keys()
    counts = {(c.busy.count, c.quiet.count, c.all.count) for c in costs.values()}
    assert counts == {(19, 39, 58)}, "one head for all rows"
    table = money.cost_table(costs, "RECORDED")
    assert all(f">{head}</th>" in table for head in ("19 at work", "39 others", "all 58"))
    for name, cost in costs.items():
        row = next(part for part in table.split("<tr>") if f">{name}</th>" in part)
        shown = [float(part) for part in re.findall(r"([\d.]+)\u2009×", row)]
        assert shown == [round(c.ratio, 2) for c in (cost.busy, cost.quiet, cost.all)]
        more = f"{cost.busy.more_us:+,.0f}".replace("-", "−")
        assert f"{more}\u2009µs ({name.lower()})" in money.cost_explained(WORDS, costs)


def test_the_two_caches_are_recorded_as_what_they_are_called() -> None:
    used = {
        name: pairs.recorded_data(run)["header"]["scenario"]["engine"]["prefix_cache"]
        for name, run in money.UNIQUE_WITH.items()
    }
    assert used == {"Radix tree": "radix", "Hash chain": "hash"}


def test_flops_are_those_of_the_sizing_library() -> None:
    found, _, _ = money.figures()
    model = catalog.get("smollm2-135m-instruct")
    each = [
        prefix.prefill_flop_reduction(model, r.found, r.prompt - r.found, 1.0, 16).value
        for r in found.requests
        if r.found
    ]
    assert found.hit_flops == pytest.approx(sum(each) / 5)
    assert 0.9 < found.hit_flops < 656 / 680
    assert 0 < found.hit_time < found.hit_flops, "a step has a floor"
    assert found.parts.keys() == set(economics.PARTS.values())


def test_steps_whose_parts_nobody_saw_have_one_time() -> None:
    """A step that ran as a CUDA graph tells only how long it took as a whole."""
    on, off = (copy.deepcopy(pairs.recorded_data(n)) for n in (money.WITH, money.WITHOUT))
    timed = economics.saving(on, off)
    hit = next(k for k, step in enumerate(on["steps"]) if _lets_in_a_hit(step))
    for key in economics.PARTS:
        del on["steps"][hit]["timing"][key]
    whole = economics.saving(on, off)
    assert whole.parts.keys() == {"forward pass"}
    for side in (0, 1):
        total = sum(part[side] for part in timed.parts.values())
        assert whole.parts["forward pass"][side] == pytest.approx(total, rel=1e-3)


def _lets_in_a_hit(step: dict[str, Any]) -> bool:
    return any(share["num_cached_tokens"] for share in step["scheduled"].values())


def test_figures_of_runs_that_do_not_belong_together_are_refused() -> None:
    one, other = (pairs.recorded_data(name) for name in ("long_prompt_cached", "unique_uncached"))
    with pytest.raises(ValueError, match="same prompts"):
        economics.saving(one, other)


def test_every_figure_of_the_table_is_that_of_the_runs() -> None:
    found, _, _ = money.figures()
    page = money.bars(found, "RECORDED: here")
    for r in found.requests:
        assert f"{r.with_ms:,.0f}</td>" in page and f"{r.without_ms:,.0f}</td>" in page
    assert "RECORDED: here" in page


def test_a_head_stands_over_its_numbers() -> None:
    for table in (evict._table(evict.compared()), money.bars(money.figures()[0], "")):
        head, body = table.split("<tbody>")
        cells = [re.findall(r"<t[hd]\b[^>]*>", part.split("</tr>")[0]) for part in (head, body)]
        right = [["class='n'" in cell for cell in row] for row in cells]
        assert right[0] == right[1] and any(right[0])


def test_the_policies_on_the_page_are_those_that_the_engine_can_be_given() -> None:
    rows = {row.policy.name: row for row in evict.compared()}
    assert rows["FIFO"].lost == ("H", "Q")
    assert rows["leaf-first FIFO"].lost == rows["LRU"].lost == ("Q",)
    assert rows["LFU"].lost == ()
    assert rows["LFU"].computed < rows["LRU"].computed < rows["FIFO"].computed


@pytest.mark.parametrize(("take", "found"), [(0, 7), (1, 7), (2, 6), (5, 3), (8, 0)])
def test_the_next_miss_is_told_from_the_run(take: int, found: int) -> None:
    pair = pairs.leaf("A leaf is evicted, and the next miss", take)
    said = evict.leaf_sentence(pair, take)
    assert pair.lookups[-1].hit_blocks == found
    assert (f"B finds **{found}** of 7" in said) == (found < 7)


def test_the_full_text_states_what_the_library_computes() -> None:
    """What a hit saves, what the mean saves, and the bytes of a working set."""
    words = WORDS["words.full"]
    ratio = {
        h: calls.call("prefill_token_ratio", {"S": 1024, "U": 128, "h": h}).result.value
        for h in (1.0, 0.8)
    }
    per_token = calls.call("kv_bytes_per_token", {"model": "llama-3-70b", "dtype": "fp8"})
    inputs = {"prompts": 50, "tokens": 1024, "bytes_per_token": per_token.result.value}
    size = calls.call("prefix_cache_bytes", inputs).result.value
    assert size is not None
    for text in (
        f"{ratio[1.0]:.0f} times fewer prompt tokens",
        f"{ratio[0.8]:.2f} times fewer",
        f"{size / 2**30:.2f} GiB ({size / 1e9:.2f} GB)",
    ):
        assert text in words, text
