"""The live engine with asynchronous scheduling: the same promises to its readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.scenario import RequestSpec
from core.server.host import EngineHost
from core.server.outbox import Outbox
from core.simulate import verify_states
from tests.server import test_host as sync
from tests.server.test_host import as_file, read, running


@pytest.fixture(
    params=[{"prefix_cache": "hash", "num_blocks": 14, "policy": "priority"}, {}], ids=str
)
def host(request: pytest.FixtureRequest, tiny_dir: Path) -> Any:
    with running(tiny_dir, **request.param, async_scheduling=True) as host:
        yield host


def test_every_readers_run_reduces(host: EngineHost) -> None:
    sync.test_every_readers_run_reduces_and_tells_nothing_of_others(host)


def test_a_scenario_interrupts_and_nothing_is_lost(host: EngineHost) -> None:
    sync.test_a_scenario_has_a_pool_of_its_own_and_the_live_one_is_as_before(host)


def test_a_reader_sees_its_blocks_come_free(host: EngineHost) -> None:
    """Its first token stops it while its second one is computed, beside another that goes on."""
    other, box = Outbox(1000), Outbox(1000)
    long = RequestSpec(id="B", prompt_tokens=(9, 8, 7), max_tokens=40, ignore_eos=True)
    host.submit_live(long, other).result(20)
    stops = RequestSpec(
        id="A", prompt_tokens=(5, 6, 7), max_tokens=9, stop_token_ids=tuple(range(1000))
    )
    host.submit_live(stops, box).result(20)
    run = as_file(read(host, box))
    events = [event for step in run.steps for event in step["events"]]
    assert [e["reason"] for e in events if e["type"] == "finished" and e["request"] == "A"] == [
        "stop_token"
    ]
    assert [e for e in events if e["type"] == "blocks_freed" and e["request"] == "A"]
    assert run.steps[-1]["usage"]["in_use"] > 0, "the other one runs"
    verify_states(run)


def test_the_last_token_comes_without_another_request(host: EngineHost) -> None:
    """Nothing waits for a step that nobody would make."""
    box = Outbox(1000)
    host.submit_live(
        RequestSpec(id="A", prompt_tokens=(5, 6, 7), max_tokens=5, ignore_eos=True), box
    ).result(20)
    builder = read(host, box)
    run = as_file(builder)
    verify_states(run)
    assert builder.end is not None and builder.end["end"] == "finished"
    sampled = [e for r in run.steps for e in r["events"] if e["type"] == "token_sampled"]
    assert len(sampled) == 5 and run.steps[-1]["usage"]["in_use"] == 0
