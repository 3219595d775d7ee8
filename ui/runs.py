"""The one place where pages get a run: simulated here, recorded on disk, or brought by a visitor.

A `Played` is to be read and never changed: all visitors share it.
Whatever goes wrong is a `KVScopeError` with one sentence for the person.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import streamlit as st

from core import by_hand
from core.errors import KVScopeError, MismatchError, RunError, ScenarioError
from core.scenario import Scenario
from ui import catalogue, status
from ui.components.run_player import PackedRun, pack
from ui.paths import runs_dir

SUFFIX = ".run.json.gz"
GPU_FOLDER = "gpu"
"""In the folder of recorded runs: a folder for each GPU, named by `core.record_all.device_slug`."""
MAX_UPLOAD_BYTES = 8 * 1024 * 1024
MAX_OPENED_BYTES = 48 * 1024 * 1024
"""Most that an uploaded file may expand to."""
MAX_BLOCKS_HERE = 65_536
"""Larger pools are run in a process of their own."""
MAX_BLOCKS = 1_048_576
MAX_REQUESTS = 2_000
MAX_PROMPT_TOKENS = 400_000
MAX_OUTPUT_TOKENS = 40_000
MAX_LAST_STEP = 5_000
MAX_PROMPT_STEPS = 10_000
"""Steps that the prompts alone may take, cut into chunks as the scenario wants."""
"""What one visitor may ask of a process that all of them share."""

END = {str(by_hand.END): "⟨stop⟩"}
"""The text of the token that ends a sequence by hand."""

LIVE_FILE_NOTE = (
    "This run comes from your file. It is a part of a live engine's life, beside requests of "
    "others, so it cannot be run again; its events lead to the use of blocks that it states. Its "
    "device, model, texts and times are the file's own word."
)

FILE_NOTE = (
    "This run comes from your file. The scheduler and the block manager, run again on its tokens, "
    "agree with every step. Its device, model, texts and times are the file's own word."
)

RunData = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Played:
    """A run in the form in which the browser gets it, and its header.

    Only text is kept: as Python objects a long run takes ten times the room.
    """

    header: RunData
    packed: PackedRun

    @classmethod
    def of(cls, data: RunData) -> Played:
        return cls(data["header"], pack(data))

    def data(self) -> RunData:
        """The whole run, read anew from its text."""
        return self.packed.run()


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded run on disk: its name in links, its title, its label's word and detail.

    One of a GPU has the scenario's name and the GPU's, ``one_question@nvidia-a100-sxm4-80gb``, and
    says it in its title: it is offered beside the CPU's and never in its place.
    """

    name: str
    title: str
    label: str
    detail: str


def check_size(scenario: Scenario) -> None:
    """Refuse what would keep the other visitors waiting. Raises ScenarioError."""
    engine = scenario.engine
    if engine.num_blocks > MAX_BLOCKS:
        raise ScenarioError(
            "engine.num_blocks",
            f"{engine.num_blocks:,} is more than the {MAX_BLOCKS:,} blocks that this page runs; "
            "`python -m core simulate` takes more",
        )
    if len(scenario.requests) > MAX_REQUESTS:
        raise ScenarioError(
            "requests", f"{len(scenario.requests):,}; this page runs {MAX_REQUESTS:,}"
        )
    prompts = outputs = 0
    for i, request in enumerate(scenario.requests):
        last = max(request.arrive_step, request.cancel_step or 0)
        if last > MAX_LAST_STEP:
            raise ScenarioError(
                f"requests[{i}].arrive_step", f"step {last:,}; this page runs to {MAX_LAST_STEP:,}"
            )
        prompt = len(request.prompt_tokens or ()) or len((request.prompt or "").encode())
        room = max(0, engine.max_model_len - prompt)
        prompts += prompt
        outputs += request.n * min(request.max_tokens, room)
    chunk = engine.max_num_batched_tokens
    if engine.long_prefill_token_threshold:
        chunk = min(chunk, engine.long_prefill_token_threshold)
    if prompts // chunk > MAX_PROMPT_STEPS:
        raise ScenarioError(
            "engine.max_num_batched_tokens",
            f"{prompts:,} prompt tokens in chunks of {chunk:,} take more than the "
            f"{MAX_PROMPT_STEPS:,} steps that this page runs; `python -m core simulate` takes more",
        )
    for what, tokens, most in (
        ("prompt", prompts, MAX_PROMPT_TOKENS),
        ("output", outputs, MAX_OUTPUT_TOKENS),
    ):
        if tokens > most:
            raise ScenarioError(
                "requests",
                f"up to {tokens:,} {what} tokens in all; this page runs {most:,}, "
                "`python -m core simulate` takes more",
            )


@st.cache_resource(ttl=3600, max_entries=64, show_spinner=False)
def simulate(text: str, base: str = "") -> Played:
    """Run a scenario without a model. base: a recorded run that knows the texts of its tokens.
    Raises ScenarioError."""
    from core.simulate import simulate as run_here
    from ui import worker

    scenario = Scenario.from_json(text).scripted()
    check_size(scenario)
    large = scenario.engine.num_blocks > MAX_BLOCKS_HERE
    run = (worker.simulate(scenario) if large else run_here(scenario)).to_dict()
    known = catalogue.words()
    texts = run["header"].setdefault("token_text", {})
    if base:
        known = recorded(base).header.get("token_text", {})
    known = {**END, **known}
    for token in _token_ids(run):
        if token in known and (base or token not in texts):
            texts[token] = known[token]
    return Played.of(run)


def _token_ids(run: RunData) -> set[str]:
    ids = {str(t) for tokens in run["header"]["prompts"].values() for t in tokens}
    for request in run["header"]["scenario"]["requests"]:
        script = request.get("output_tokens") or []
        for part in script:
            ids.update(map(str, part if isinstance(part, list) else [part]))
    return ids


def recorded_names() -> list[str]:
    """Names of the recorded runs, sorted; those of GPUs come last, GPU by GPU. Empty where the
    folder is missing."""
    names = _names_in(runs_dir())
    try:
        devices = sorted(p.name for p in (runs_dir() / GPU_FOLDER).iterdir() if p.is_dir())
    except OSError:
        return names
    for device in devices:
        if _safe(device):
            found = _names_in(runs_dir() / GPU_FOLDER / device)
            names += [f"{name}@{device}" for name in found]
    return names


def _names_in(folder: Path) -> list[str]:
    try:
        found = sorted(p.name for p in folder.iterdir() if p.name.endswith(SUFFIX))
    except OSError:
        return []
    return [name.removesuffix(SUFFIX) for name in found if _safe(name)]


def _safe(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name) is not None and ".." not in name


def recorded_path(name: str) -> Path | None:
    """The file of a recorded run, by its name with or without the suffix. None: there is none."""
    name, at, device = name.partition("@")
    name = name if name.endswith(SUFFIX) else name + SUFFIX
    if not _safe(name) or (at and not _safe(device)):
        return None
    path = (runs_dir() / GPU_FOLDER / device if at else runs_dir()) / name
    return path if path.is_file() else None


def recorded(name: str) -> Played:
    """A recorded run. Raises RunError."""
    path = recorded_path(name)
    if path is None:
        raise RunError(f"There is no recorded run called {name[:60]!r} on this server")
    return _recorded(str(path), path.stat().st_mtime_ns)


@st.cache_resource(ttl=3600, max_entries=64, show_spinner=False)
def _recorded(path: str, mtime_ns: int) -> Played:
    from core.trace.run import read_run

    return Played.of(read_run(path).to_dict())


def list_recorded() -> list[Recorded]:
    """Every recorded run that can be read. A damaged one is left out: it must not hide the rest."""
    stamps = []
    for name in recorded_names():
        path = recorded_path(name)
        try:
            if path is not None:
                stamps.append((name, str(path), path.stat().st_mtime_ns))
        except OSError:
            continue  # taken away just now
    return list(_listed(tuple(stamps)))


@lru_cache(maxsize=4)
def _listed(stamps: tuple[tuple[str, str, int], ...]) -> tuple[Recorded, ...]:
    """The list, made anew only when a file of it has changed: every run of every page asks."""
    out = []
    for name, path, mtime_ns in stamps:
        try:
            header = _recorded(path, mtime_ns).header
        except KVScopeError:
            continue
        title = header["scenario"].get("name") or name.partition("@")[0]
        if "@" in name:
            title = f"{title}, on {header['source']['device']}"
        out.append(Recorded(name, title, *label(header)))
    return tuple(out)


SHORT_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


def label(header: RunData) -> tuple[str, str]:
    """Where a run comes from: the word, and the detail that belongs to it."""
    if header["label"] == "SIMULATED":
        return "SIMULATED", "real scheduler and blocks, scripted tokens"
    source = header["source"]
    model = status.MODEL_NAME if source["model"] == status.DEFAULT_MODEL else source["model"]
    when = datetime.fromisoformat(header["recorded_at"].replace("Z", "+00:00"))
    dtype = SHORT_DTYPES.get(source["dtype"], source["dtype"])
    if source.get("weights") == "int8":
        dtype += ", int8 weights"
    parts = [source["device"], model, dtype, f"{when.day} {when:%b %Y}"]
    return header["label"], ", ".join(part for part in parts if part)


_RUN_START = re.compile(rb'\s*\{\s*"schema"\s*:\s*"run/')


def open_file(data: bytes) -> tuple[str, Any]:
    """A visitor's file: ``("run", Played)`` or ``("scenario", text)``.

    Raises KVScopeError, also for a run with which the scheduler, run again, does not agree.
    """
    if data[:2] != b"\x1f\x8b" and not _RUN_START.match(data):
        Scenario.from_json(data)
        return "scenario", data.decode("utf-8-sig")
    from core.simulate import begins_midway, verify, verify_states
    from core.trace.run import parse_run

    run = parse_run(data, MAX_OPENED_BYTES)
    check_size(run.scenario)
    try:
        if begins_midway(run):
            verify_states(run)
        else:
            verify(run)
    except MismatchError as exc:
        raise RunError(f"the scheduler, run again on its tokens, does not agree: {exc}") from None
    return "run", Played.of(run.to_dict())
