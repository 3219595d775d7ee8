"""The host in this process, on a tiny model, every step checked: what its readers get adds up."""

from __future__ import annotations

import json
import random
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from core.model.model_runner import ModelRunner
from core.scenario import RequestSpec, Scenario
from core.server.host import EngineHost
from core.server.limits import Busy, Limits
from core.server.outbox import Outbox
from core.server.settings import ServeSettings
from core.server.view import StepView
from core.simulate import verify, verify_states
from core.trace.run import Run, run_from_dict
from core.trace.streamed import RunBuilder
from tests.server import aio

SETTINGS = [
    {},
    {"prefix_cache": "hash", "num_blocks": 14, "policy": "priority"},
    {"prefix_cache": "off", "batching": "static"},
]


FIRST_STEP = {"format": "int8", "scale": "per_tensor", "calibration": "first_step"}


@pytest.fixture(params=SETTINGS, ids=str)
def host(request: pytest.FixtureRequest, tiny_dir: Path) -> Any:
    with running(tiny_dir, **request.param) as host:
        yield host


@contextmanager
def running(tiny_dir: Path, **engine: Any) -> Iterator[EngineHost]:
    """A host with these settings; nothing may have failed in it at the end."""
    small = {"block_size": 4, "num_blocks": 24, "max_num_seqs": 4, "max_model_len": 48}
    settings = ServeSettings.make(
        str(tiny_dir),
        {**small, **engine},
        dtype="float32",
        device="cpu",
        threads=1,
        debug=True,
    )
    failed = threading.Event()
    host = EngineHost(settings, Limits(max_live=40), failed.set)
    host.start()
    end = time.monotonic() + 20
    while host.state() == "starting":
        assert time.monotonic() < end
        time.sleep(0.01)
    yield host
    assert host.problem is None and not failed.is_set()
    host.stop()


def read(host: EngineHost, outbox: Outbox) -> RunBuilder:
    """Everything of one reader, as its view shows it."""
    builder = RunBuilder()
    assert host.runner is not None
    runner: ModelRunner = host.runner

    async def all_of_it() -> None:
        view: StepView | None = None
        while True:
            item = await outbox.get(20)
            assert item is not None, "a reader waits for ever"
            kind, value = item
            if kind == "header":
                view = StepView(
                    runner.tokenizer, value["own"], value["first_step"], runner.vocab_size
                )
                builder.add("header", view.header(value["raw"]))
            elif kind == "step":
                assert view is not None
                record, *texts = view.step(value)
                builder.add("step", record)
                for text in texts:
                    builder.add("text", text["text"])
            elif kind == "end":
                if view is not None and "results" in value:
                    value = {**value, "results": view.results(value["results"])}
                builder.add("end", value)
                return

    aio.run(all_of_it())
    return builder


def as_file(builder: RunBuilder) -> Run:
    run = builder.run()
    assert run is not None
    return run_from_dict(json.loads(json.dumps(run.to_dict())))


def test_every_readers_run_reduces_and_tells_nothing_of_others(host: EngineHost) -> None:
    chance = random.Random(5)
    boxes = []
    for i in range(30):
        tokens = (*[chance.randrange(3)] * 8, *(chance.randrange(300) for _ in range(5)))
        spec = RequestSpec(
            id="A",
            prompt_tokens=tokens,
            max_tokens=chance.randrange(1, 12),
            n=chance.choice([1, 1, 2]),
            ignore_eos=True,
            priority=chance.randrange(3),
            cache_salt=f"salt {i % 3}",
        )
        box = Outbox(10_000)
        boxes.append((box, tokens, host.submit_live(spec, box)))
        time.sleep(chance.random() * 0.01)
        if chance.random() < 0.2:
            box.on_close()
    for box, tokens, submitted in boxes:
        submitted.result(20)
        run = as_file(builder := read(host, box))
        assert builder.end is not None and builder.end["end"] in ("finished", "cancelled")
        verify_states(run)
        assert run.header["prompts"]["A"] == list(tokens)
        hidden = run.header["hidden_token"]
        for name, prompt in run.header["prompts"].items():
            assert name == "A" or set(prompt) <= {hidden}
        for event in (event for step in run.steps for event in step["events"]):
            if "token" in event:
                assert (event["token"] == hidden) == (event["request"] != "A")
        for name, result in run.results.items():
            mine = [
                event["token"]
                for step in run.steps
                for event in step["events"]
                if event["type"] == "token_sampled" and event["sequence"] == name
            ]
            assert hidden not in mine and (mine or result["finish_reason"] == "cancelled")
        assert set(run.results) <= {"A", "A#0", "A#1"}
    assert host._live is not None and host._live.num_readers == 0
    assert host._live._engine.requests == [], "what has ended is forgotten"


def test_a_scenario_has_a_pool_of_its_own_and_the_live_one_is_as_before(host: EngineHost) -> None:
    prompt = tuple(range(20, 33))
    live = RequestSpec(id="A", prompt_tokens=prompt, max_tokens=3, ignore_eos=True)

    def hit() -> int:
        box = Outbox(1000)
        host.submit_live(live, box).result(20)
        cached: int = read(host, box).results["A"]["num_cached_tokens"]
        return cached

    hit()
    before = hit()
    asked = Scenario.from_dict(
        {
            "schema": "scenario/1",
            "engine": {"block_size": 2, "num_blocks": 40, "prefix_cache": "hash"},
            "requests": [
                {"id": name, "prompt_tokens": list(prompt), "max_tokens": 4, "ignore_eos": True}
                for name in "AB"
            ],
        }
    )
    boxes = [Outbox(1000) for _ in range(3)]
    for box in boxes:
        host.submit_scenario(asked, box)
    runs = [as_file(read(host, box)) for box in boxes]
    for run in runs:
        verify(run)
        assert run.header["scenario"]["engine"]["block_size"] == 2
    assert hit() == before
    assert (before > 0) == (host.settings.scenario.engine.prefix_cache != "off")


def test_a_full_house_says_when_to_come_back(host: EngineHost) -> None:
    spec = RequestSpec(id="A", prompt_tokens=(1, 2), max_tokens=30, ignore_eos=True)
    boxes = []

    def fill() -> None:
        for _ in range(300):
            boxes.append(Outbox(10_000))
            host.submit_live(spec, boxes[-1])

    with pytest.raises(Busy) as busy:
        fill()
    assert busy.value.status == 429 and busy.value.retry_after_s > 0
    for box in boxes[:-1]:
        assert (end := read(host, box).end) is not None and end["end"] == "finished"


@pytest.mark.parametrize(
    "host", [{"kv_dtype": FIRST_STEP, "measure_kv_error": True}], ids=["first_step"], indirect=True
)
def test_the_warm_up_leaves_no_trace_in_the_pool(host: EngineHost) -> None:
    """The first request decides the scales, and the errors are those of its own tokens."""
    assert host.runner is not None and host.runner.store is not None
    assert all(one is not None and one.pending for one in host.runner.store.scales)
    box = Outbox(1000)
    tokens = (5, 6, 7, 8)
    host.submit_live(RequestSpec(id="A", prompt_tokens=tokens, max_tokens=3), box).result(20)
    run = as_file(read(host, box))
    scales = [one.scale.max().item() for one in host.runner.store.scales if one is not None]
    first = next(step["kv_error"] for step in run.steps if "kv_error" in step)
    # Rounded to the nearest of 127 steps, and nothing cut off: at most half a step a number.
    for kind in ("key", "value"):
        for layer, row in enumerate(first[kind]):
            assert all(error <= len(tokens) * 16 * (scales[layer] / 2) ** 2 for error in row)


@pytest.mark.parametrize("host", [{}], ids=["model"], indirect=True)
def test_a_header_tells_of_its_own_pool_while_a_scenario_has_another(host: EngineHost) -> None:
    asked = Scenario.from_dict(
        {
            "schema": "scenario/1",
            "engine": {"num_blocks": 40, "kv_dtype": "int8_per_token_head"},
            "requests": [{"id": "A", "prompt_tokens": [5, 6], "max_tokens": 20}],
        }
    )
    spec = RequestSpec(id="A", prompt_tokens=(5, 6), max_tokens=2)
    box, beside = Outbox(1000), Outbox(1000)
    taken = host._between_steps

    def between_steps() -> bool:
        if host._job is not None and host._num_coming == 0 and not boxes:
            boxes.append(host.submit_live(spec, beside))
        return taken()

    boxes: list[Any] = []
    host._between_steps = between_steps  # type: ignore[method-assign]
    host.submit_scenario(asked, box)
    job, live = read(host, box).header, read(host, beside).header
    assert job is not None and live is not None and host.runner is not None
    assert job["kv_format"]["scale"] == "per_token_head"
    assert "kv_format" not in live
    assert live["kv_bytes_per_token"] == host.runner.kv_bytes_per_token != job["kv_bytes_per_token"]
    assert live["kv_cache_bytes"] == host.runner.kv_cache_bytes


@pytest.mark.parametrize("host", [{}], ids=["model"], indirect=True)
def test_after_a_failed_step_the_old_pool_goes_before_the_new_one_is_made(
    host: EngineHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two would not fit a GPU whose memory the pool fills."""
    monkeypatch.setattr("core.server.host._log.exception", lambda message: None)  # pytest keeps it
    runner = host.runner
    assert runner is not None and runner.store is not None
    old, new_store, held = weakref.ref(runner.store), runner._new_store, []

    def fail(hidden_states: Any) -> Any:
        monkeypatch.delattr(runner, "compute_logits")
        raise RuntimeError("the device is lost")

    def noting(*shape: Any) -> Any:
        held.append(old() is not None)
        return new_store(*shape)

    monkeypatch.setitem(vars(runner), "compute_logits", fail)
    runner._new_store = noting  # type: ignore[method-assign]
    spec = RequestSpec(id="A", prompt_tokens=(5, 6), max_tokens=2, ignore_eos=True)
    ends = []
    for _ in range(2):
        box = Outbox(1000)
        host.submit_live(spec, box).result(20)
        ends.append(read(host, box).end)
    assert ends[0] is not None and "the device is lost" in ends[0]["message"]
    assert ends[1] is not None and ends[1]["end"] == "finished"
    assert held == [False]
