"""Runs of a GPU lie in a folder of their own and are offered beside the CPU's, never as theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import RunError
from core.scenario import Scenario
from core.simulate import simulate
from tests.app.conftest import Open
from ui import catalogue, landing, preview, runs
from ui.roofline import measured

H100 = "NVIDIA H100 80GB HBM3"
FOLDER = "nvidia-h100-80gb-hbm3"


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same scenario, recorded on two devices."""
    run = simulate(Scenario.from_json(catalogue.entries()["fork"].text))
    run.header["label"] = "RECORDED"
    (tmp_path / "gpu" / FOLDER).mkdir(parents=True)
    for device, folder in (("CPU", tmp_path), (H100, tmp_path / "gpu" / FOLDER)):
        run.header["source"] = {
            "device": device, "dtype": "bfloat16", "model": "m", "model_sha256": "0",
        }  # fmt: skip
        run.write(folder / "one_system_prompt.run.json.gz")
    monkeypatch.setenv("KV_SCOPE_RUNS", str(tmp_path))
    return tmp_path


def test_both_are_listed_and_each_says_its_device(both: Path) -> None:
    cpu, gpu = runs.list_recorded()
    assert (cpu.name, gpu.name) == ("one_system_prompt", f"one_system_prompt@{FOLDER}")
    assert gpu.title == f"{cpu.title}, on {H100}"
    assert cpu.detail.startswith("CPU, ") and gpu.detail.startswith(f"{H100}, ")
    assert runs.recorded("one_system_prompt").header["source"]["device"] == "CPU"
    assert runs.recorded(gpu.name).header["source"]["device"] == H100


def test_without_the_cpus_run_the_gpus_does_not_stand_in(both: Path) -> None:
    (both / "one_system_prompt.run.json.gz").unlink()
    assert runs.recorded_path("one_system_prompt") is None
    assert [item.name for item in runs.list_recorded()] == [f"one_system_prompt@{FOLDER}"]
    with pytest.raises(RunError):
        runs.recorded("one_system_prompt")


def test_the_picker_of_the_block_pool_offers_it_and_plays_it(both: Path, open_page: Open) -> None:
    name = f"run:one_system_prompt@{FOLDER}"
    at = open_page("block_pool", run=f"one_system_prompt@{FOLDER}")
    assert not at.exception and not at.error
    select = at.selectbox(key="bp.select")
    assert select.value == name
    assert any(option.endswith(f", on {H100}") for option in select.options)
    assert at.query_params["run"] == f"one_system_prompt@{FOLDER}"


def test_the_maps_link_for_it_is_its_own(both: Path) -> None:
    """The page about the CPU's run would show the CPU's run."""
    ways = [way for group in landing._recorded().values() for way in group]
    assert (f"one_system_prompt@{FOLDER}" in [query.get("run") for _, _, query in ways]) and (
        [page for title, page, _ in ways if title.endswith(H100)] == ["block_pool"]
    )


def test_the_roofline_page_lists_both_with_their_devices(both: Path) -> None:
    listed = {one.name: one.title for one in measured.listed()}
    assert listed[f"one_system_prompt@{FOLDER}"].endswith(f", on {H100}")
    part = measured.part(f"one_system_prompt@{FOLDER}")
    assert part is not None and part["header"]["source"]["device"] == H100


def test_home_plays_the_cpus(both: Path) -> None:
    assert preview.pick() == "one_system_prompt"
    (both / "one_system_prompt.run.json.gz").unlink()
    assert preview.pick() == f"one_system_prompt@{FOLDER}"


@pytest.mark.parametrize(
    "name",
    ["one_system_prompt@..", "one_system_prompt@/etc", "one_system_prompt@", "a@b@c",
     f"../one_system_prompt@{FOLDER}", "one_system_prompt@unknown"],
)  # fmt: skip
def test_a_hostile_name_finds_nothing(both: Path, name: str) -> None:
    assert runs.recorded_path(name) is None
