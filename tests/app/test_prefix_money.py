"""The figures of the prefix cache page: times, the formula, what policies cost."""

from __future__ import annotations

import pytest

from core.sizing import catalog, prefix
from ui.prefix import economics, evict, money, pairs


def test_the_formula_gives_the_tokens_that_the_run_has_saved() -> None:
    found, cost, _ = money.figures()
    assert (found.S, found.block_size, len(found.requests)) == (668, 16, 6)
    assert found.h == pytest.approx(5 / 6)
    # Every hit found the same 41 blocks, so formula and run agree but for the mean over lengths.
    assert found.formula_tokens == pytest.approx(found.measured_tokens, abs=1e-9)
    assert found.measured_tokens == pytest.approx(5 * 656 / 4093)
    assert cost is not None


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
