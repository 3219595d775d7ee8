"""The benchmarks run and say what they measured; what they measured is not judged here."""

from __future__ import annotations

import json

import pytest
import tiny_llama

from bench import engine, perplexity
from bench.machine import Shares
from bench.other_work import OtherWork
from bench.timing import Timing, alternate, ratio
from bench.workload import Workload, prompts
from core.model.calibrate import Calibration, Rate
from core.model.work import StepWork

SMALL = Workload(
    prefill=24,
    batches=(1, 3),
    decode_prompt=8,
    decode_steps=3,
    serve_requests=2,
    serve_prompt=8,
    serve_outputs=3,
    first_token=48,
    shared=32,
    repeats=1,
)


@pytest.fixture(autouse=True)
def small(tmp_path, monkeypatch):
    monkeypatch.setenv("KV_SCOPE_CACHE", str(tmp_path))
    monkeypatch.setattr(engine, "QUICK", SMALL)


def test_engine(tiny_dir, tmp_path, capsys):
    pytest.importorskip("transformers")
    report = tmp_path / "out.json"
    arguments = ["--quick", "--threads", "1", "--model", str(tiny_dir), "--json", str(report)]
    assert engine.main(arguments) == 0
    shown = capsys.readouterr().out
    content = json.loads(report.read_text())
    rows = {row["name"]: row for row in content["rows"]}
    assert list(rows) == [
        "prefill 24",
        "decode, batch 1",
        "decode, batch 3",
        "serve 2 × (8 in, 3 out)",
        "first token of 48, cold",
        "first token of 48, 32 cached",
        "ready in a fresh process",
        "pool of 512 blocks",
    ]
    for name, row in rows.items():
        assert name in shown
        assert 0 < row["ours"]["low"] <= row["ours"]["median"] <= row["ours"]["high"]
    for name in ("prefill 24", "decode, batch 3"):
        row = rows[name]
        assert row["met"] == (row["ratio"]["median"] >= (1.0 if "prefill" in name else 2.2))
        quotient = row["ours"]["median"] / row["transformers"]["median"]
        assert row["ratio"]["median"] == pytest.approx(quotient)  # of one pair
        assert row["roofline"]["memory"] > 0
    pool = rows["pool of 512 blocks"]
    assert pool["met"]
    assert pool["ours"]["median"] == 2 * 3 * 2 * 16 * 2 * 16 * 512
    assert content["settings"]["transformers_used"]["decode 3"] in ("DynamicCache", "StaticCache")
    assert not list(tmp_path.glob("calibration.json")), "a quick measurement is not kept"


def test_engine_without_transformers(tiny_dir, monkeypatch, capsys):
    def absent(*arguments):
        raise ModuleNotFoundError("No module named 'transformers'", name="transformers")

    monkeypatch.setattr("bench.peer.Peer", absent)
    monkeypatch.setattr(engine, "_rows", lambda *arguments: iter(()))
    assert engine.main(["--quick", "--model", str(tiny_dir), "--weights", "int8"]) == 0
    shown = capsys.readouterr().out
    assert "transformers is not installed: ours only" in shown
    assert "'weights': 'int8'" in shown


def test_a_missing_model_is_one_line(capsys):
    assert engine.main(["--quick", "--model", "no-such-model"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_perplexity(tmp_path, capsys):
    directory = tiny_llama.write_checkpoint(tmp_path / "tiny")
    assert perplexity.main(["--model", str(directory), "--tokens", "60"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        "float32",
        "bfloat16",
        "int8 weights, bfloat16",
    ]
    assert all("59 tokens judged" in line for line in lines)


def test_perplexity_of_a_uniform_guess(tmp_path, monkeypatch):
    """All logits equal: every token has probability 1/320."""
    directory = tiny_llama.write_checkpoint(tmp_path / "tiny")
    monkeypatch.setattr(perplexity, "PIECE", 7)
    monkeypatch.setattr(
        "core.model.llama.Llama.compute_logits",
        lambda self, x, clock: x.new_zeros(len(x), self.config.vocab_size),
    )
    text = "the block table maps the tokens " * 20
    value, count = perplexity.perplexity(str(directory), text, "float32", None, 30)
    assert value == pytest.approx(320)
    assert count == 30 - 5  # the first of each of five pieces is not judged


def test_turns_alternate():
    order = []

    def run(name):
        order.append(name)
        return float(len(order))

    samples = alternate({"a": lambda: run("a"), "b": lambda: run("b")}, 2)
    assert order == ["a", "b", "a", "b", "b", "a"]
    assert samples == {"a": [3, 6], "b": [4, 5]}
    assert ratio(samples["b"], samples["a"]) == Timing(
        pytest.approx((4 / 3 + 5 / 6) / 2), pytest.approx(5 / 6), pytest.approx(4 / 3)
    )
    assert Timing(2.0, 1.0, 4.0).per_second(8) == Timing(4.0, 2.0, 8.0)


def test_shares_of_the_ceilings():
    one = Rate(100.0, 100.0, 100.0)
    machine = Calibration("CPU", "p", 1, "t", "torch", "d", one, {"float32": one})
    work = StepWork(linear_flops=50, weight_bytes=20)
    assert Shares.of(work, 2.0, machine, "float32") == Shares(memory=0.1, compute=0.25)


def test_prompts_are_the_same_every_time():
    assert prompts(2, 5, 320) == prompts(2, 5, 320)
    assert prompts(1, 5, 320, seed=1) != prompts(1, 5, 320)
    assert all(16 <= token < 320 for token in prompts(1, 500, 320)[0])


def test_other_work_is_a_share():
    share = OtherWork().share()
    assert share is None or share >= 0
