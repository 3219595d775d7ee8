"""The player alone on a page: `?run=NAME&compare=NAME`, each recorded, listed, or `pool-N`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import streamlit as st

from bench.large_run import large_run
from core.scenario import Scenario
from core.simulate import simulate
from ui import catalogue, runs
from ui.components.run_player import PackedRun, pack, run_player

MILLION = {
    "schema": "scenario/1",
    "name": "A million blocks",
    "engine": {"num_blocks": 1_048_576, "max_num_batched_tokens": 4096, "max_model_len": 8192},
    "requests": [
        {"id": f"R{i}", "arrive_step": i, "prompt_tokens": [i + 1] * 4000, "max_tokens": 6}
        for i in range(4)
    ],
}


@st.cache_resource
def get(name: str) -> PackedRun:
    if name == "pool-1048576":
        return pack(simulate(Scenario.from_dict(MILLION)).to_dict())
    if name.startswith("pool-"):
        return pack(large_run(int(name.removeprefix("pool-"))).to_dict())
    if name in catalogue.entries():
        return runs.simulate(catalogue.entries()[name].text).packed
    return runs.recorded(name).packed


st.set_page_config(layout="wide")
asked = st.query_params
other = get(asked["compare"]) if "compare" in asked else None
shown = run_player(get(asked["run"]), key="player", compare=other, step=int(asked.get("step", "0")))
st.caption(f"Python heard of step {shown.step} and block {shown.block}")
