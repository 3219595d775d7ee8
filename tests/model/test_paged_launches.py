"""What the engine would launch on a GPU: each kernel's arguments, and what the compiler makes of
them for an H100.

The model has the default one's layer. Its kernels are not run here: what comes out means nothing,
and only that they are asked for, and with which arguments, is looked at.
"""

from __future__ import annotations

import importlib

import families
import pytest
import torch
from model_driver import Driver
from paged_checks import paged_runner

from core.runner import ScheduledSequence, StepBatch
from tests.kernels.interpreter import require_triton

SHARED_BYTES = 227 * 1024
MODULES = ("paged_decode", "paged_prefill", "rms_norm", "rotate_and_store", "store_kv", "blocks")
SMOLLM = {
    **families.CONFIGS["llama-mqa-tied"],
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "num_hidden_layers": 2,
    "max_position_embeddings": 8192,
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return families.write(SMOLLM, tmp_path_factory.mktemp("launches") / "smollm")


@pytest.fixture
def launches(monkeypatch):
    """Launches, in order, instead of their effects."""
    require_triton()
    for module in MODULES:  # before the switch below, which they would take over
        importlib.import_module(f"kernels.gpu.{module}")
    from kernels.gpu import launch

    made = []
    monkeypatch.setattr(launch, "INTERPRETED", True)  # so that "triton" is accepted on a CPU
    monkeypatch.setattr(launch.Launch, "__call__", lambda self: made.append(self))
    return made


def launched(directory, launches, kv_dtype, shares):
    """The launches of one step. shares: (tokens computed before, tokens to compute) of each."""
    runner = paged_runner(directory, "triton", dtype="bfloat16", max_model_len=2048)
    runner.bind(200, 16, kv_dtype=kv_dtype)
    driver = Driver(runner)
    scheduled = []
    for start, count in shares:
        seq = driver.add([1] * (start + count))
        driver.reserve(seq, start + count)
        scheduled.append(ScheduledSequence(seq, count, 1, start=start))
    launches.clear()
    runner.launch(StepBatch(0, scheduled, [(1, 2)]))
    return list(launches)


STEPS = {
    "decodes": [(7, 1), (300, 1), (40, 1)],
    "a chunk beside decodes": [(7, 1), (16, 37), (300, 1)],
    "prompts": [(0, 5), (0, 33), (0, 1)],
}


@pytest.mark.parametrize("shares", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("kv_dtype", ["model", "int8_per_token_head", "fp8"])
def test_every_pointer_and_stride_is_one_that_triton_needs_no_new_kernel_for(
    directory, launches, kv_dtype, shares
):
    """Triton compiles anew for a pointer that is not a multiple of 16 bytes, in the midst of
    serving."""
    names = set()
    for launch in launched(directory, launches, kv_dtype, shares):
        names.add(launch.kernel.__name__)
        for name, value in launch.arguments.items():
            # Fixed scales lie where they lie: the same in every step.
            if isinstance(value, torch.Tensor) and not name.endswith("_scale"):
                assert value.data_ptr() % 16 == 0, (launch.kernel.__name__, name)
            if name.endswith(("_row", "table_row")) and value:
                assert value % 16 == 0, (launch.kernel.__name__, name, value)
    several = any(count > 1 for _, count in shares)
    assert names == {
        "copy_kernel",
        "norm_kernel",
        "rotate_kernel",
        "split_kernel",
        "combine_kernel",
        *(["prefill_kernel"] if several else []),
        *([] if kv_dtype == "model" else ["store_kernel"]),
    }


def test_a_layer_s_launches_are_as_few_as_may_be(directory, launches):
    made = launched(directory, launches, "model", STEPS["a chunk beside decodes"])
    names = [launch.kernel.__name__ for launch in made]
    layer = ["norm_kernel", "rotate_kernel", "split_kernel", "combine_kernel", "prefill_kernel"]
    layers = [*layer, "norm_kernel"] * SMOLLM["num_hidden_layers"]
    assert names == ["copy_kernel"] * SMOLLM["num_hidden_layers"] + layers + ["norm_kernel"]
    (prefill,) = {launch.grid for launch in made if launch.kernel.__name__ == "prefill_kernel"}
    assert prefill == (1, 9, 1)  # one chunk, in one tile, of each head


@pytest.mark.parametrize("kv_dtype", ["model", "fp8"])
def test_what_chunks_of_any_size_need_is_compiled_ahead(directory, launches, kv_dtype):
    runner = paged_runner(directory, "triton", dtype="bfloat16", max_model_len=2048)
    runner.bind(200, 16, kv_dtype=kv_dtype)
    launches.clear()
    runner._paged.compile(runner.store)
    assert not any(layer.view(torch.uint8).any() for layer in runner.store.blocks)
    ahead = {kind(launch) for launch in launches if launch.kernel.__name__ == "prefill_kernel"}
    assert len(ahead) == (4 if kv_dtype == "model" else 3)  # of 16 rows, 32, 64, and 128 at most
    for count in (2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 700):
        for launch in launched(directory, launches, kv_dtype, [(0, count), (3, 1)]):
            assert launch.kernel.__name__ != "prefill_kernel" or kind(launch) in ahead


def kind(launch):
    """What a kernel is compiled for."""
    constants = {p.name for p in launch.kernel.params if p.is_constexpr}
    chosen = {name: launch.arguments[name] for name in sorted(constants)}
    return launch.kernel.__name__, str(chosen)


@pytest.mark.parametrize("kv_dtype", ["model", "int8_per_token_head"])
def test_they_compile_and_fit_the_chip(directory, launches, kv_dtype, monkeypatch):
    made = launched(directory, launches, kv_dtype, STEPS["a chunk beside decodes"])
    monkeypatch.undo()
    from kernels.gpu.compile import compile_launch

    different = {kind(launch): launch for launch in made}
    assert len(different) == (7 if kv_dtype == "model" else 8)
    for launch in different.values():
        compiled = compile_launch(launch, 90)
        assert compiled.spilled == 0 and compiled.shared <= SHARED_BYTES, compiled
