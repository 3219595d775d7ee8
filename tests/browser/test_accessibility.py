"""axe-core finds nothing on the pages, but for what Streamlit itself does."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest

from tests.serving import App
from ui import nav
from ui.paths import PAGES

pytestmark = pytest.mark.browser

# Streamlit's own sidebar wraps its list items; nothing else may pass.
STREAMLIT = {"list", "listitem"}


@pytest.fixture(scope="session")
def axe() -> str:
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


def faults(page: Any, axe: str) -> list[str]:
    """What axe finds on the page as it stands, less Streamlit's own."""
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    return [
        f"{fault['id']}: {node['target']} {node.get('failureSummary', '')[:200]}"
        for fault in found
        if fault["id"] not in STREAMLIT
        for node in fault["nodes"][:3]
    ]


# Every page, as a visitor finds it, and what is there once it is drawn.
PLACES = {
    "": ".stage .cell",
    "course": ".course .row",
    "course?q=crossover": ".course .results li",
    "course?view=terms&term=block": ".course .term.open",
    "tiers": ".series.lesson .plot svg",
    "attention?level=In full": ".kv-run .pool",
    "tiers?present=1&at=reload": ".series.lesson .plot svg",
    "prefill_decode": ".kv.bench svg",
    "kv_sizing": ".kv.sizing .hbm .part",
    "kv_sizing?present=1&n=600": ".kv.sizing .hbm .part",
    "roofline?steps=9-12": ".kv.rooflines .plane .pt",
    "roofline?present=1&view=own&steps=20": ".kv.rooflines .plane .m.on",
    "block_pool?scenario=two-answers&step=2": ".kv .cell",
    "block_pool?present=1": ".kv .cell",
    "batching?step=8&request=E": ".kv.gantt .picture .stay",
    "batching?study=landing&present=1": ".kv.gantt .picture .stay",
    "batching?study=pressure": ".kv.gantt .picture .stay",
    "prefix_cache?work=rag&step=9&pick=node:1": ".kv.prefix .hc",
    "prefix_cache?study=evict": ".kv.prefix .hc",
    "prefix_cache?study=time": ".kv-px-table",
    "quantisation?apart=0-4,25-29&to=int4": ".kv.quant .heat .cell",
    "quantisation?present=1&fmt=fp8_e4m3&scale=per_tensor": ".kv.quant .heat .cell",
    "capacity_planner": ".kv.planner .pt",
    "capacity_planner?present=1&tp=1&r=1&w=awq": ".kv.planner .pt",
    "claims_ledger?claim=B095&show=all": ".ledger .mark",
    "block_pool?view=hand&scenario=two-answers&step=2": ".hand .btn",
    "block_pool?view=size&scenario=two-answers": ".kv .cell",
    "block_pool?view=paged&scenario=contiguous": ".kv.series svg",
    "numbers?cover=1&number=ridge-h100-sxm5": ".sheet .number",
    "exercises?exercise=rag": ".kv-ex-head",
    "exercises?present=1&exercise=fleet": ".kv-ex-head",
    "quiz": "label.opt",
    "review": ".kv-empty",
    "review?present=1": ".kv-empty",
    "notebook": ".kv-empty",
    "notebook?present=1": ".kv-empty",
}


def test_every_page_is_looked_at() -> None:
    looked_at = {path.partition("?")[0] or "home" for path in PLACES}
    read = {place.name for place in nav.COURSE if place.file == nav.READING}
    assert looked_at - read == {file.stem for file in PAGES.glob("*.py")} - {"reading"}
    assert looked_at & read


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PLACES)
def test_no_faults(page: Any, app: App, axe: str, path: str, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.goto(f"{app.url}/{path}")
    page.locator(PLACES[path]).first.wait_for()
    # Streamlit fades in what it draws again; a half-faded text has no contrast yet.
    page.wait_for_timeout(1000)
    found = faults(page, axe)
    assert not found, "\n".join(found)


def test_the_editor_has_no_faults(page: Any, app: App, axe: str) -> None:
    page.goto(f"{app.url}/block_pool?scenario=fork")
    page.get_by_text("Change it").click()
    page.get_by_role("tab", name="As JSON").click()
    page.locator(".st-key-own-json textarea").wait_for()
    page.wait_for_timeout(1000)
    page.evaluate(axe)
    found = page.evaluate("axe.run('.st-key-kv-editor', { resultTypes: ['violations'] })")[
        "violations"
    ]
    said = [f"{f['id']}: {[n['target'] for n in f['nodes'][:3]]}" for f in found]
    assert not said, "\n".join(said)
