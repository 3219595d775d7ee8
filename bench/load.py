"""`python -m bench load`: many visitors at once, a click a second each; engine idle, then busy.

The visitors are websocket clients (`bench.visitor`) in this process, on the machine of the server
that they measure, so what they cost is in the figures too. A click is due at its time whether or
not the last one was answered, and is timed from when it was due: a server that falls behind cannot
hide it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import streamlit

from bench.figures import Figure, Report, flat, measured
from bench.live_load import LiveLoad
from bench.other_work import look_around
from bench.processes import Served, app, engine
from bench.timing import Timing
from bench.visitor import PrefillVisitor, QuizVisitor
from core.errors import KVScopeError
from core.trace.run import host
from core.version import VERSION

LIGHT_MS, CHART_MS = 100, 400
EVERY_S = 1.0
SETTLE_S = 2.0
"""Clicks that are made but not counted after the last visitor has come."""


@dataclass(frozen=True, slots=True)
class Kind:
    """visitor: what its visitors do. most: p95 in ms that is aimed at with the engine idle."""

    name: str
    visitor: Any
    most: float


KINDS = (
    Kind("light page, the quiz", QuizVisitor, LIGHT_MS),
    Kind("chart page, prefill and decode", PrefillVisitor, CHART_MS),
)


def main(arguments: list[str]) -> int:
    """Print all figures; `--json` writes them too."""
    args = _parser().parse_args(arguments)
    other = look_around()
    try:
        with ExitStack() as stack:
            served = None if args.no_engine else stack.enter_context(engine(args.model, 1))
            pages = stack.enter_context(app(_environment(served), warm=True))
            report = Report(_settings(args, served))
            asyncio.run(_measure(report, args, pages, served))
    except (KVScopeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    report.note(other_work={"before": other, "after": look_around()})
    report.write(args.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench load")
    parser.add_argument("--sessions", type=int, default=50, help="visitors at once")
    parser.add_argument("--seconds", type=float, default=20, help="that each page is measured for")
    parser.add_argument(
        "--minutes", type=float, default=1, help="that memory is watched for; 0: not at all"
    )
    parser.add_argument("--model", default="smollm2-135m-instruct", help="a name or a directory")
    parser.add_argument("--no-engine", action="store_true", help="only with no engine at all")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    return parser


def _environment(served: Served | None) -> dict[str, str]:
    """The app uses this engine, or none; it starts none of its own."""
    if served is None:
        return {"KV_SCOPE_ENGINE": "off"}
    return {"KV_SCOPE_ENGINE_URL": served.url, "KV_SCOPE_ENGINE_TOKEN": served.token}


def _settings(args: argparse.Namespace, served: Served | None) -> dict[str, Any]:
    return {
        "app": f"kv-scope {VERSION}, streamlit {streamlit.__version__}, one process",
        "machine": f"{host()['cpu']}, {host()['cores']} cores; the visitors run on it too",
        "load_average": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "visitors": f"{args.sessions}, a click a second each, timed from when it was due",
        "measured_for": f"{args.seconds:g} s a page",
        "engine": "none" if served is None else f"{args.model}, bfloat16, 1 thread",
    }


async def _measure(
    report: Report, args: argparse.Namespace, pages: Served, served: Served | None
) -> None:
    for busy in (False, True):
        if busy and served is None:
            continue
        with ExitStack() as stack:
            load = stack.enter_context(LiveLoad(served)) if busy and served is not None else None
            state = "no engine" if served is None else "engine busy" if busy else "engine idle"
            for kind in KINDS:
                async for figure in _clicks(kind, args, pages, state, judged=not busy):
                    report.add(figure)
            if load is not None:
                report.note(engine_steps_a_second=load.steps_per_second())
    if args.minutes:
        report.add(await _memory(args, pages))


async def _clicks(
    kind: Kind, args: argparse.Namespace, pages: Served, state: str, *, judged: bool
) -> AsyncIterator[Figure]:
    """How long clicks took, and what one cost the app: that does not depend on other work."""
    samples: list[float] = []
    async with _crowd([kind] * args.sessions, pages, samples):
        await asyncio.sleep(SETTLE_S)
        samples.clear()
        worked = pages.processor_s()
        await asyncio.sleep(args.seconds)
        worked = pages.processor_s() - worked
        times = [1e3 * seconds for seconds in samples]
    if not times:
        raise KVScopeError(f"{kind.name}: no click was answered in {args.seconds:g} s")
    figure = measured(f"{kind.name}, {state}", "ms", times, kind.most, judge="p95")
    yield figure if judged else replace(figure, target=None, met=None)
    share = 1e3 * worked / len(times)
    yield Figure("    processor time of the app a click", "ms", Timing.of([share]))


async def _memory(args: argparse.Namespace, pages: Served) -> Figure:
    """Of the app's process, half of the visitors on either page."""
    kinds = [KINDS[i % len(KINDS)] for i in range(args.sessions)]
    resident: list[float] = []
    async with _crowd(kinds, pages, []):
        end = perf_counter() + 60 * args.minutes
        while perf_counter() < end:
            resident.append(pages.resident_mib())
            await asyncio.sleep(min(1.0, args.minutes * 60 / 20))
    return flat(f"memory over {args.minutes:g} min", resident)


@asynccontextmanager
async def _crowd(kinds: list[Kind], pages: Served, samples: list[float]) -> AsyncIterator[None]:
    """So many visitors, clicking until the end. samples: gets the seconds of each click."""
    visitors = [kind.visitor(pages.url, kind.visitor.PAGE) for kind in kinds]
    tasks: list[asyncio.Task[None]] = []
    try:
        for visitor in visitors:  # one after another, as people come
            await visitor.open()
        start = perf_counter()
        tasks = [
            asyncio.create_task(_click(visitor, start + EVERY_S * i / len(visitors), samples))
            for i, visitor in enumerate(visitors)
        ]
        yield
        for task in tasks:
            if task.done():
                task.result()  # a visitor whose page failed fails the measurement
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for visitor in visitors:
            with suppress(Exception):
                await visitor.close()


async def _click(visitor: Any, due: float, samples: list[float]) -> None:
    turn = 0
    while True:
        await asyncio.sleep(max(0.0, due - perf_counter()))
        await visitor.interact(turn)
        samples.append(perf_counter() - due)
        due += EVERY_S
        turn += 1
