"""The GPU's command rehearsed: every part, what it says, and what becomes of what goes wrong.

What it measures on a GPU is shown by a GPU alone. Here: that all of it runs, that its arithmetic is
right, that a wrong kernel is found, and that other libraries get what their documentation asks for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from bench import gpu  # noqa: E402
from bench.gpu import command, correctness, engine, machine, peers, timer  # noqa: E402
from bench.gpu.bench import COPY, Bench  # noqa: E402
from bench.gpu.peers import FlashAttention, FlashInfer, installed  # noqa: E402
from bench.gpu.pools import (  # noqa: E402
    decode_bytes,
    key_bytes,
    make_pool,
    prefill_flops,
    unbroken,
)
from bench.gpu.report import Check, Report  # noqa: E402
from bench.gpu.shapes import (  # noqa: E402
    FORMATS,
    FULL,
    LLAMA,
    QUICK,
    TINY,
    DecodeCase,
    Heads,
    PrefillCase,
)
from bench.gpu.timer import WallTimer  # noqa: E402
from bench.gpu.vllm_peer import Vllm, VllmError  # noqa: E402
from tests.bench import stand_ins  # noqa: E402
from tests.kernels.interpreter import require_triton  # noqa: E402

REHEARSE = ["--device", "cpu", "--tiny"]
KERNEL_PARTS = ["correctness", "ceilings", "decode", "prefill", "paging", "moves"]
CPU = torch.device("cpu")


@pytest.fixture
def bench() -> Bench:
    return Bench(CPU, WallTimer(), TINY, "torch", Report())


@pytest.fixture(autouse=True)
def one_thread():
    """Tensors of a few kilobytes."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def beside(monkeypatch):
    monkeypatch.setattr(peers, "WORKSPACE_BYTES", 64)
    for name, module in stand_ins.modules().items():
        monkeypatch.setitem(sys.modules, name, module)


def test_all_of_it_runs_without_a_gpu(beside, tmp_path, capsys):
    """Every part but the engine, which has a test of its own."""
    file = tmp_path / "out.json"
    assert gpu.main([*REHEARSE, "--part", *KERNEL_PARTS, "--json", str(file)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("rehearsal: REHEARSAL") and "measures nothing" in shown
    assert shown.rstrip().endswith(command.REHEARSAL)
    content = json.loads(file.read_text())
    assert content["correct"] and content["failed"] == {}
    assert "measures nothing" in content["settings"]["rehearsal"]
    rows = content["rows"]
    assert {row["part"] for row in rows} == set(KERNEL_PARTS[1:])
    by = {(row["name"], row["who"]): row for row in rows}
    for case in TINY.decode:
        theirs = {"native": 2, "fp8_e4m3": 1}.get(case.form, 0)
        assert sum(name == str(case) for name, _ in by) == 1 + theirs, case
    native = str(TINY.decode[0])
    ours, theirs = by[native, "twin (torch)"], by[native, "flashinfer 0.7.4"]
    assert (native, "flash_attn 2.8.3") in by
    assert theirs["against"]["median"] == pytest.approx(
        ours["seconds"]["median"] / theirs["seconds"]["median"]
    )
    for row in rows:
        assert 0 < row["seconds"]["low"] <= row["seconds"]["median"] <= row["seconds"]["high"]
        assert row["name"] in shown and row["unit"] in ("B/s", "FLOP/s")
        assert row["part"] == "ceilings" or row["share"]["median"] > 0
    kernels = {check["name"].split()[0].rstrip(",") for check in content["checks"]}
    assert kernels == {"paged_decode", "paged_prefill", "store_kv", "copy_blocks", "gather_blocks",
                       "scatter_blocks", "rms_norm", "rotate_and_store"}  # fmt: skip


def test_the_kernels_themselves_are_rehearsed_in_tritons_interpreter(root, tmp_path):
    """Every kernel once beside its twin, and rows of ours."""
    require_triton()
    file = tmp_path / "out.json"
    done = subprocess.run(
        [sys.executable, "-m", "bench", "gpu", *REHEARSE, "--json", str(file), "--part",
         "correctness", "prefill"],
        cwd=root, env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    content = json.loads(file.read_text())
    assert content["settings"]["kernels"] == "triton's interpreter"
    assert {row["who"] for row in content["rows"]} == {"ours"}
    assert any(check["worst"] > 0 for check in content["checks"]), "nothing but twins was compared"


def test_the_engine_and_vllm_in_turn(tiny_dir, monkeypatch, capsys):
    monkeypatch.setattr(Vllm, "PYTHONPATH", str(Path(__file__).parent))
    arguments = ["--part", "engine", "--model", str(tiny_dir), "--vllm-python", sys.executable]
    assert gpu.main([*REHEARSE, *arguments]) == 0
    shown = capsys.readouterr().out
    assert "BROKE" not in shown and "not compared" not in shown, shown
    assert "vLLM 0.33.0: {" in shown and "'enable_prefix_caching': False" in shown
    lines = [line for line in shown.splitlines() if line.startswith("serve 2 × (6 in, 3 out)")]
    assert " ours " in lines[0] and "tok/s" in lines[0]
    assert "vLLM 0.33.0" in lines[-1] and "ours: " in lines[-1]


@pytest.fixture(scope="session")
def tiny_dir(tmp_path_factory, root):
    sys.path.insert(0, str(root / "tests" / "model"))
    import tiny_llama

    return tiny_llama.write_checkpoint(tmp_path_factory.mktemp("models") / "tiny")


def vllm_of(tiny_dir, monkeypatch, behaviour: str) -> Vllm:
    monkeypatch.setattr(Vllm, "PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setenv("STAND_IN", behaviour)
    common = engine.common_settings(TINY.load)
    return Vllm(sys.executable, tiny_dir, TINY.load, common, 1 << 20)


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [("dies", "its process ended"), ("stops early", "3 tokens were asked for, but")],
)
def test_a_vllm_that_fails_is_one_line(tiny_dir, monkeypatch, behaviour, why):
    with (
        pytest.raises(VllmError, match=why),
        closing(vllm_of(tiny_dir, monkeypatch, behaviour)) as theirs,
    ):
        theirs.serve()


def test_an_interpreter_without_vllm_is_one_line(tiny_dir):
    common = engine.common_settings(TINY.load)
    with pytest.raises(VllmError, match="No module named 'vllm'"):
        Vllm(sys.executable, tiny_dir, TINY.load, common, 1 << 20)
    with pytest.raises(VllmError, match="No such file"):
        Vllm("/no/such/python", tiny_dir, TINY.load, common, 1 << 20)


def test_a_setting_that_this_version_does_not_have_is_said(bench, tiny_dir, monkeypatch, capsys):
    monkeypatch.setattr(engine, "BEST", {"time_travel": True})
    variants = {"of the future": {"time_travel": False}, "refused": {"kv_dtype": "int3"},
                "int8 KV": {"kv_dtype": "int8_per_token_head"}}  # fmt: skip
    monkeypatch.setattr(engine, "VARIANTS", variants)
    engine.run(bench, str(tiny_dir), None)
    shown = capsys.readouterr().out
    assert "of the future: not in this version (time_travel)" in shown
    assert "refused: not measured: engine.kv_dtype" in shown
    assert {row.who for row in bench.report.rows} == {"ours", "ours, int8 KV"}
    assert engine.unknown_settings({"num_blocks": 1, "trace": True}) == []


def test_without_a_gpu_there_is_one_line_and_exit_code_2(monkeypatch, capsys):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for arguments, words in (
        ([], "there is no GPU here"),
        (["--quick"], "--device cpu --tiny rehearses"),
        (["--tiny"], "goes with --device cpu"),
        (["--device", "cpu"], "only the rehearsal"),
        ([*REHEARSE, "--json", str(command.RUNS / "gpu.json")], "not written into runs/"),
        ([*REHEARSE, "--json", "nowhere/gpu.json"], "cannot write nowhere/gpu.json"),
    ):
        assert gpu.main(arguments) == 2
        said = capsys.readouterr()
        assert words in said.err and said.err.count("\n") == 1 and not said.out
    assert not (command.RUNS / "gpu.json").exists()
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert gpu.main([]) == 2
    assert "unset it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kernel", "wrong"),
    [
        ("paged_decode", lambda out: out + 0.1),
        ("paged_prefill", lambda out: out * float("nan")),
        ("gather_blocks", lambda out: out.roll(1)),
        ("rms_norm", lambda out: out[:, :-1]),
    ],
)
def test_a_wrong_kernel_is_found_and_the_rest_goes_on(kernel, wrong, monkeypatch, capsys):
    right = getattr(correctness, kernel)
    monkeypatch.setattr(correctness, kernel, lambda *a, **k: wrong(right(*a, **k)))
    assert gpu.main([*REHEARSE, "--part", "correctness", "ceilings"]) == 1
    shown = capsys.readouterr().out
    assert f"WRONG: {kernel}" in shown
    assert "\nceilings\n" in shown and "product 16³" in shown


def test_a_part_that_breaks_is_said_and_the_rest_goes_on(monkeypatch, capsys):
    def broken(*arguments):
        raise RuntimeError("CUDA error: an illegal memory\naccess")

    monkeypatch.setattr(command.attention, "decode", broken)
    assert gpu.main([*REHEARSE, "--part", "decode", "ceilings", "moves"]) == 0
    shown = capsys.readouterr().out
    assert "BROKE: decode: RuntimeError: CUDA error: an illegal memory access" in shown
    assert "copy 2 blocks of 16" in shown
    monkeypatch.setattr(command.correctness, "run", broken)
    assert gpu.main([*REHEARSE, "--part", "correctness"]) == 1, "what was not checked is not right"


def test_a_device_that_no_longer_answers_is_left_to_a_fresh_process(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(command, "answers", lambda device: False)
    file = tmp_path / "out.json"
    assert gpu.main([*REHEARSE, "--part", "ceilings", "paging", "--json", str(file)]) == 0
    content = json.loads(file.read_text())
    assert {row["part"] for row in content["rows"]} == {"ceilings", "paging"}
    assert content["failed"] == {}
    monkeypatch.setattr(command.subprocess, "run", lambda *a, **k: None)
    assert gpu.main([*REHEARSE, "--part", "ceilings", "moves"]) == 0
    assert "BROKE: moves: the process for it ended without a report" in capsys.readouterr().out


def test_another_library_whose_result_differs_is_not_timed(beside, bench, monkeypatch, capsys):
    monkeypatch.setattr(stand_ins, "_attend", lambda q, key, value, scale: torch.zeros_like(q))
    found, absent = installed(CPU)
    assert [peer.name for peer in found] == ["flashinfer 0.7.4", "flash_attn 2.8.3"]
    assert absent == []
    command.attention.decode(bench, found)
    assert {row.who for row in bench.report.rows} == {"twin (torch)"}
    assert capsys.readouterr().out.count("its result differs from ours") == 3


def test_what_is_not_installed_or_cannot_be_loaded_is_a_line_each(monkeypatch):
    monkeypatch.setitem(sys.modules, "flashinfer", None)
    monkeypatch.setattr(
        FlashAttention, "__init__", lambda self, device: (_ for _ in ()).throw(OSError("undefined"))
    )
    found, absent = installed(CPU)
    assert found == []
    assert absent[0].startswith("FlashInfer: ") and "flashinfer" in absent[0]
    assert absent[1] == "FlashAttention: cannot be loaded: undefined"


@pytest.mark.parametrize("length", [1, 16, 37, 300])
def test_other_libraries_read_the_same_keys(beside, length):
    """Lengths at the edges of pages of 16, and beyond one page of 256."""
    heads = Heads(4, 2, 64)
    pool = make_pool(2, length, heads, "native", 16, torch.bfloat16, CPU)
    query = torch.randn(2, 4, 64).bfloat16()
    ours = command.attention.paged_decode(query, pool.blocks, pool.block_table, pool.seq_lens, 0.2)
    for make in (FlashInfer, FlashAttention):
        theirs = make(CPU).decode(pool, query, 0.2)()
        torch.testing.assert_close(theirs.reshape(ours.shape), ours, rtol=2e-2, atol=2e-2)
    whole = unbroken(pool)
    assert whole.blocks.block_size == length
    same = command.attention.paged_decode(
        query, whole.blocks, whole.block_table, whole.seq_lens, 0.2
    )
    assert torch.equal(same, ours)


def test_bytes_and_operations_are_counted():
    heads = Heads(4, 2, 64)
    bf16 = torch.bfloat16
    assert key_bytes(heads, "native", bf16) == 2 * 2 * 64 * 2
    assert key_bytes(heads, "fp8_e4m3", bf16) == 2 * 2 * 64
    assert key_bytes(heads, "int8", bf16) == 2 * 2 * (64 + 4)
    assert key_bytes(heads, "int4", bf16) == 2 * 2 * (32 + 4)
    for form in FORMATS:  # what is counted is what lies there
        pool = make_pool(1, 32, heads, form, 16, bf16, CPU)
        own = (pool.blocks.key_scale, pool.blocks.value_scale)
        scales = sum(s.numel() * 4 for s in own if s is not None and 0 not in s.stride())
        assert pool.pool.nbytes + scales == 32 * key_bytes(heads, form, bf16), form
    assert decode_bytes(DecodeCase(3, 10, heads), bf16) == 3 * 10 * 512 + 3 * 2 * 4 * 64 * 2
    # Three queries after five: 6 + 7 + 8 pairs, a product for scores and one for values.
    case = PrefillCase(2, 3, 5, heads)
    assert prefill_flops(case) == 2 * (6 + 7 + 8) * 4 * 64 * 2 * 2


def test_a_share_is_of_a_ceiling_measured_in_turn(bench):
    """A clock that says 2 s for the ceiling and 1 s for the work."""
    copy = bench.ceiling(COPY)

    class Clock(WallTimer):
        def seconds(self, work):
            return 2.0 if work is copy.work else 1.0

    bench.timer = Clock()
    bench.measure("decode", "x", {"ours": lambda: None}, copy.units / 4, COPY)
    [row] = bench.report.rows
    assert row.share.median == pytest.approx(0.5)
    assert row.rate.median == copy.units / 4


def test_cuda_events_begin_after_the_flush(monkeypatch):
    """In the order in which the device is told, and only the work between the events."""
    told = []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            told.append("event")

        def elapsed_time(self, end):
            return 3.0  # ms

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: told.append("wait"))
    monkeypatch.setattr(timer, "FLUSH_BYTES", 16)
    monkeypatch.setattr(timer, "_SPIN_UP_S", 0)
    clock = timer.CudaTimer(CPU, runs=2)
    monkeypatch.setattr(clock, "_flushed", FlushRecord(told))
    told.clear()
    assert clock.seconds(lambda: told.append("work")) == pytest.approx(3e-3)
    assert told[:3] == ["wait", "work", "wait"]
    assert told[3:] == ["flush", "event", "work", "event"] * 2 + ["wait"]
    assert not clock.waits_for_host(lambda: None)
    # Of 3 ms each: work that takes 8 ms to launch has 6 flushes before it, 100 ms cannot be hidden.
    told.clear()
    clock.seconds(lambda: time.sleep(8e-3))
    assert told.index("event") - 2 >= 6
    assert clock.waits_for_host(lambda: time.sleep(0.1))


class FlushRecord:
    def __init__(self, told):
        self.told = told

    def zero_(self):
        self.told.append("flush")


on_a_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
]


class TestOnAGpu:
    pytestmark = on_a_gpu

    def test_the_quick_command(self, tmp_path):
        file = tmp_path / "out.json"
        parts = [part for part in command.PARTS if part != "engine"]
        assert gpu.main(["--quick", "--json", str(file), "--part", *parts]) == 0
        content = json.loads(file.read_text())
        assert content["failed"] == {}
        ours = [row for row in content["rows"] if row["who"] == "ours"]
        assert {row["part"] for row in ours} == {"decode", "prefill", "paging", "moves"}
        for row in content["rows"]:
            assert row["part"] == "ceilings" or 0 < row["share"]["median"] < 1.5, row

    def test_the_clock_agrees_with_the_wall(self):
        device = torch.device("cuda")
        clock = timer.CudaTimer(device, runs=3)
        a = torch.randn(4096, 4096, device=device)

        def work():
            for _ in range(50):
                torch.matmul(a, a)

        work()
        torch.cuda.synchronize()
        started = time.perf_counter()
        work()
        torch.cuda.synchronize()
        wall = time.perf_counter() - started
        assert clock.seconds(work) == pytest.approx(wall, rel=0.3)
        assert clock.waits_for_host(lambda: time.sleep(0.1))


def test_work_that_waits_for_python_says_so(bench, capsys):
    class Clock(WallTimer):
        def waits_for_host(self, work):
            return True

    bench.timer = Clock()
    bench.measure("decode", "x", {"ours": lambda: None}, 1, COPY)
    assert "Python may be in the time" in capsys.readouterr().out


def test_nothing_that_is_not_a_number_passes():
    assert not Check("k", "t", float("nan"), 1, "m").passed
    near = correctness.distance
    x = torch.ones(3)
    assert near(x, x, 0.1) == 0
    assert near(x + 0.1, x, 0.1) == pytest.approx(0.5)
    assert near(x * float("nan"), x, 0.1) != near(x, x, 0.1)
    assert near(x[:2], x, 0.1) == float("inf")


def test_clocks_are_nvidia_smis(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    line = "NVIDIA H100 80GB HBM3, 580.65.06, 81559 MiB, 1980 MHz, 1980 MHz, 2619 MHz, 2619 MHz, "
    program.write_text(f"#!/bin/sh\necho '{line}120.1 W, 700.0 W, 41, 0 %'\n")
    program.chmod(0o755)
    found = machine.clocks()
    assert found["driver_version"] == "580.65.06" and found["clocks.sm"] == "1980 MHz"
    assert found["temperature.gpu"] == "41"
    program.write_text("#!/bin/sh\nexit 9\n")
    assert machine.clocks() is None


@pytest.mark.parametrize("sizes", [FULL, QUICK], ids=["full", "quick"])
def test_the_shapes_fit_a_gpu_of_40_gb(sizes):
    for case in (*sizes.decode, *sizes.paging):
        pool = case.batch * case.context * key_bytes(case.heads, case.form, torch.bfloat16)
        assert pool <= 10e9, case
    assert {case.form for case in sizes.decode} == set(FORMATS)
    assert LLAMA in {case.heads for case in sizes.decode}
