"""Pairs of runs of the same requests, one with a hash cache and one with a radix tree.

A recorded run has used one of the two. Its twin is the scheduler and the other cache, run here on
the recorded tokens: it is labelled SIMULATED.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st

from core.errors import RunError
from core.scenario import Scenario
from core.simulate import simulate
from core.trace.prefix_metrics import Lookup, Totals, hit_rate, lookups, totals
from core.trace.run import Run, output_tokens, read_run
from core.workloads_prefix import (
    Knobs,
    edited_prompt,
    evict_leaf,
    hot_prompt,
    scenario,
    texts,
)
from ui import runs
from ui.components.prefix_view import looks_json
from ui.components.run_player import pack

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pair:
    """chain, radix: texts for the browser. looks: for each. lookups, totals, rates, header: of the
    radix run. last: its last step. Shared by all visitors: read, never changed."""

    title: str
    chain: str
    radix: str
    id: str
    looks: tuple[list[Json], list[Json]]
    lookups: tuple[Lookup, ...]
    totals: Totals
    rates: tuple[float | None, ...]
    header: Json

    @property
    def last(self) -> int:
        return len(self.rates) - 1


def _pair(title: str, chain: Json, radix: Json) -> Pair:
    packed = [pack(run) for run in (chain, radix)]
    found = [lookups(run) for run in (chain, radix)]
    return Pair(
        title=title,
        chain=packed[0].plain,
        radix=packed[1].plain,
        id=f"{packed[0].id}+{packed[1].id}",
        looks=(looks_json(found[0]), looks_json(found[1])),
        lookups=tuple(found[1]),
        totals=totals(radix),
        rates=tuple(hit_rate(radix)),
        header=radix["header"],
    )


def run_here(given: Json, words: dict[str, str]) -> Json:
    """A scenario, run without a model; its tokens get these words. Raises ScenarioError."""
    checked = Scenario.from_dict(given).scripted()
    runs.check_size(checked)
    run = simulate(checked).to_dict()
    run["header"]["token_text"] = {**run["header"].get("token_text", {}), **words}
    return run


def _used(run: Json, words: dict[str, str]) -> dict[str, str]:
    """The words of the token ids that a run uses: the browser needs no others."""
    ids = {str(t) for tokens in run["header"]["prompts"].values() for t in tokens}
    for step in run["steps"]:
        ids |= {str(e["token"]) for e in step["events"] if e["type"] == "token_sampled"}
    return {token: words[token] for token in sorted(ids) if token in words}


def both(title: str, given: dict[str, Json], words: dict[str, str]) -> Pair:
    """A pair from two scenarios, "hash" and "radix". Raises ScenarioError."""
    done = {name: run_here(one, words) for name, one in given.items()}
    for run in done.values():
        run["header"]["token_text"] = _used(run, run["header"]["token_text"])
        run["header"]["scenario"]["name"] = title
    return _pair(title, done["hash"], done["radix"])


@st.cache_resource(ttl=3600, max_entries=64, show_spinner=False)
def workload(title: str, kind: str, knobs: Knobs, eviction: str) -> Pair:
    """One of the generated workloads."""
    given = {
        cache: scenario(kind, knobs, prefix_cache=cache, eviction=eviction)
        for cache in ("hash", "radix")
    }
    return both(title, given, texts())


FIXED = {"edited": edited_prompt, "hot": hot_prompt}


@st.cache_resource(ttl=3600, max_entries=16, show_spinner=False)
def fixed(title: str, name: str, eviction: str) -> Pair:
    """One of the scenarios without knobs."""
    make = FIXED[name]
    return both(title, {cache: make(cache, eviction) for cache in ("hash", "radix")}, texts())


@st.cache_resource(ttl=3600, max_entries=16, show_spinner=False)
def leaf(title: str, take: int) -> Pair:
    """A prompt of which some cached blocks are taken before it comes again."""
    return both(title, {cache: evict_leaf(take, cache) for cache in ("hash", "radix")}, texts())


@st.cache_resource(ttl=3600, max_entries=8, show_spinner=False)
def policy(prefix_cache: str, eviction: str) -> Json:
    """The hot system prompt under one policy."""
    return run_here(hot_prompt(prefix_cache, eviction), texts())


def twin(run: Run, prefix_cache: str) -> Json:
    """The same requests and sampled tokens under the other cache, without a model."""
    header = run.header
    sampled = output_tokens(run)
    given = run.scenario.to_dict()
    given["model"] = "none"
    given["engine"]["prefix_cache"] = prefix_cache
    kept = ("id", "arrive_step", "max_tokens", "n", "ignore_eos", "priority", "cancel_step")
    requests = []
    for one in given["requests"]:
        spec = {name: one[name] for name in (*kept, "cache_salt", "adapter") if name in one}
        spec["prompt_tokens"] = header["prompts"][one["id"]]
        n = one.get("n", 1)
        names = [one["id"]] if n == 1 else [f"{one['id']}#{i}" for i in range(n)]
        if all(sampled.get(name) for name in names):
            scripts = [sampled[name] for name in names]
            spec["output_tokens"] = scripts if n > 1 else scripts[0]
        requests.append(spec)
    given["requests"] = requests
    return run_here(given, header.get("token_text", {}))


def of_run(run: Run) -> Pair:
    """A run with its twin. Raises RunError if it has no prefix cache."""
    used = run.header["scenario"]["engine"].get("prefix_cache", "radix")
    if used == "off":
        raise RunError("This run has its prefix cache off, so there is nothing to look at here")
    data = run.to_dict()
    other = twin(run, "hash" if used == "radix" else "radix")
    title = run.header["scenario"].get("name") or "A run"
    return _pair(title, *((other, data) if used == "radix" else (data, other)))


def recorded(name: str) -> Pair:
    """A recorded run with its twin. Raises KVScopeError."""
    path = runs.recorded_path(name)
    if path is None:
        raise RunError(f"There is no recorded run called {name[:60]!r} on this server")
    return _recorded(str(path), path.stat().st_mtime_ns)


@st.cache_resource(ttl=3600, max_entries=32, show_spinner=False)
def _recorded(path: str, mtime_ns: int) -> Pair:
    return of_run(read_run(path))


@st.cache_resource(ttl=3600, max_entries=16, show_spinner=False)
def recorded_data(name: str) -> Json:
    """A recorded run as data. Raises RunError."""
    path = runs.recorded_path(name)
    if path is None:
        raise RunError(f"There is no recorded run called {name[:60]!r} on this server")
    return read_run(path).to_dict()
