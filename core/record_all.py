"""Many scenarios recorded on one device, each into a file of its own, with what was already there.

The files of a device lie in a folder that is named after it, as its driver names it: a run says in
its header where it comes from, and no file of one device is ever in another's place.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import InputFileError, KVScopeError
from core.model.load_runner import GpuSettings
from core.record import record
from core.scenario import Scenario
from core.simulate import verify
from core.trace.run import Run, check_writable, parse_run, read_run, revision
from core.trace.serving_metrics import step_us

SUFFIX = ".run.json.gz"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one scenario. what: "recorded", "kept" (an equal run was there) or "failed".

    said: in a few words, of the run, or why there is none.
    """

    name: str
    what: str
    said: str


def device_slug(device: str) -> str:
    """The folder of a device's runs: "NVIDIA H100 80GB HBM3" → "nvidia-h100-80gb-hbm3"."""
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-") or "unnamed"


def scenario_files(folder: Path) -> list[Path]:
    """The scenarios of a folder, by name. Raises InputFileError if there is none."""
    found = sorted(folder.glob("*.json")) if folder.is_dir() else []
    if not found:
        raise InputFileError(f"{folder} has no scenario (*.json)")
    return found


def record_all(
    scenarios: list[Path],
    folder: Path,
    device: str,
    *,
    device_kind: str | None = None,
    dtype: str = "bfloat16",
    weights: str | None = None,
    threads: int | None = None,
    again: bool = False,
    enforce_eager: bool = False,
) -> Iterator[Outcome]:
    """Record each into `folder`, after running scheduler and blocks again on what was recorded.

    device: its name, as headers have it. device_kind: "cpu" or "cuda". A run that is there already,
    of the same scenario, device, dtype, weights and revision of the code, is kept if it verifies:
    an interrupted recording goes on where it stood. again: record every one anew. A run of another
    device is never replaced. What fails is said, and the next one follows. enforce_eager: see
    `GpuSettings`.

    Raises InputFileError if nothing can be written there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path in scenarios:
        name = path.stem
        target = folder / f"{name}{SUFFIX}"
        check_writable(target)
        try:
            scenario = Scenario.from_file(path)
            source = {"device": device, "dtype": dtype, "weights": weights or dtype}
            there = _readable(target)
            if there is not None and there.header["source"]["device"] != device:
                other = there.header["source"]["device"]
                yield Outcome(
                    name, "failed", f"{target} is a run of {other}: choose another folder"
                )
                continue
            if there is not None and not again and _is_kept(there, scenario, source):
                yield Outcome(name, "kept", _said(there))
                continue
            run = record(
                scenario,
                dtype=dtype,
                weights=weights,
                device=device_kind,
                threads=threads,
                gpu=GpuSettings(enforce_eager=enforce_eager),
            )
            verify(parse_run(run.to_bytes()))  # as a reader of the file would
            run.write(target)
            yield Outcome(name, "recorded", _said(run))
        except KVScopeError as error:
            yield Outcome(name, "failed", " ".join(str(error).split()))


def _readable(target: Path) -> Run | None:
    """The run that is there; None if there is none, or one that cannot be read."""
    try:
        return read_run(target) if target.exists() else None
    except KVScopeError:
        return None


def _is_kept(run: Run, scenario: Scenario, source: dict[str, Any]) -> bool:
    """Whether it is what would be recorded now, and true."""
    try:
        verify(run)
    except KVScopeError:
        return False
    now = revision()
    return (
        run.scenario == scenario
        and all(run.header["source"].get(key) == value for key, value in source.items())
        and run.header["revision"] == now
        and now is not None
        and not now.endswith("+")  # then the same words may stand for other code
    )


def _said(run: Run) -> str:
    """Its size, its median step, and what computed it."""
    source = run.header["source"]
    tokens = sum(
        event["type"] == "token_sampled" for record in run.steps for event in record["events"]
    )
    step = statistics.median(map(step_us, run.steps)) / 1e3 if run.steps else 0.0
    return (
        f"{len(run.steps):>4} steps, {tokens:>5} tokens, {step:.2f} ms a step, {source['dtype']}, "
        f"{source.get('kernels', 'torch')}"
    )
