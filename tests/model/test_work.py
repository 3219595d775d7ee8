"""A step's counted work: against numbers worked out by hand, and against what torch counts."""

from __future__ import annotations

import families
import pytest
import tiny_llama
import torch
from model_driver import Driver
from torch.utils.flop_counter import FlopCounterMode

from core.engine import Engine
from core.model import step_clock
from core.model.config import ModelConfig
from core.model.errors import ModelConfigError
from core.model.model_runner import ModelRunner
from core.model.work import SequenceWork, StepWork, WorkCounter
from core.scenario import Scenario
from core.simulate import verify
from core.trace.run import parse_run

# 1 layer, h 8, 2 query heads and 1 KV head of 4, MLP 16, vocabulary 32.
SMALL = {
    **tiny_llama.CONFIG,
    "hidden_size": 8,
    "head_dim": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "vocab_size": 32,
    "tie_word_embeddings": True,
}


def counter(changes=None, dtype="float32", **weights):
    return WorkCounter(ModelConfig.from_dict({**SMALL, **(changes or {})}), dtype, **weights)


def test_a_prompt_by_hand():
    """3 tokens, nothing before. qkv 8 × 16, o 8 × 8, gate and up 8 × 32, down 16 × 8."""
    work = counter().count([SequenceWork(3, 0)])
    assert work.linear_flops == 2 * 3 * (8 * 16 + 8 * 8 + 8 * 32 + 16 * 8)
    assert work.attention_flops == 2 * (4 + 4) * (1 + 2 + 3) * 2  # heads, q·k and p·v, keys, ·2
    assert work.logits_flops == 2 * 8 * 32
    matrices = 8 * 16 + 8 * 8 + 8 * 32 + 16 * 8
    norms = 3 * 8
    assert work.weight_bytes == 4 * (matrices + norms + 32 * 8 + 3 * 8)
    assert work.kv_read_bytes == 0
    assert work.kv_write_bytes == 3 * 2 * 4 * 4  # tokens, K and V, numbers, bytes
    assert work.logits_bytes == 32 * 4
    assert work.flops == 3456 + 192 + 512
    assert work.arithmetic_intensity == work.flops / work.bytes


def test_a_mixed_step_by_hand():
    """A decode with 9 before it, and a chunk of 2 after 4 that samples nothing."""
    work = counter(dtype="bfloat16").count([SequenceWork(1, 9), SequenceWork(2, 4, samples=False)])
    assert work.attention_flops == 4 * 2 * 4 * (10 + 5 + 6)
    assert work.kv_read_bytes == (9 + 4) * 2 * 4 * 2
    assert work.kv_write_bytes == 3 * 2 * 4 * 2
    assert work.logits_bytes == 32 * 2
    assert work.logits_flops == 2 * 8 * 32


def test_weights_are_read_once_however_many_tokens_use_them():
    one, many = (counter().count([SequenceWork(1, 7)] * n) for n in (1, 16))
    assert many.weight_bytes - one.weight_bytes == 15 * 8 * 4  # rows of the embedding
    assert many.flops == 16 * one.flops
    assert many.arithmetic_intensity > 4 * one.arithmetic_intensity


def test_an_empty_step_is_no_work():
    work = counter().count([])
    assert work == StepWork()
    assert work.arithmetic_intensity == 0


def test_a_step_that_samples_nothing_leaves_the_logits_matrix_alone():
    sampled, unfinished = (counter().count([SequenceWork(4, 0, s)]) for s in (True, False))
    assert sampled.weight_bytes - unfinished.weight_bytes == 4 * (32 * 8 + 8)
    assert unfinished.logits_bytes == unfinished.logits_flops == 0


def test_a_window_bounds_keys_and_reads():
    raw = families.CONFIGS["mistral-window"]
    config = ModelConfig.from_dict(raw)
    window = config.kv_window
    assert window is not None
    per_key = 4 * config.num_hidden_layers * config.num_attention_heads * config.head_dim
    per_token = config.kv_bytes_per_token("float32")
    work = WorkCounter(config, "float32").count([SequenceWork(1, 3 * window)])
    assert work.attention_flops == per_key * window
    assert work.kv_read_bytes == per_token * (window - 1)
    # A chunk across the window's edge: the first queries still see everything before them.
    work = WorkCounter(config, "float32").count([SequenceWork(5, window - 3)])
    assert work.attention_flops == per_key * (window - 2 + window - 1 + 3 * window)


def test_int8_matrices_carry_a_scale_for_each_row():
    plain, eight = counter(dtype="bfloat16"), counter(dtype="bfloat16", linear="int8")
    one = [SequenceWork(1, 0)]
    matrices, rows = 8 * 16 + 8 * 8 + 8 * 32 + 16 * 8, 16 + 8 + 32 + 8
    saved = plain.count(one).weight_bytes - eight.count(one).weight_bytes
    assert saved == 2 * matrices - (matrices + 4 * rows)
    with pytest.raises(ModelConfigError, match="float7"):
        counter(dtype="float7")


def test_sums_and_dicts():
    one = counter().count([SequenceWork(3, 2)])
    assert (one + one).flops == 2 * one.flops
    assert StepWork.from_dict(one.as_dict()) == one
    assert one.as_dict()["bytes"] == one.bytes
    assert one.roofline_seconds(1.0, 1e30) == one.flops
    assert one.roofline_seconds(1e30, 1.0) == one.bytes


@pytest.mark.parametrize("name", ["llama-biases", "qwen2", "qwen3"])
def test_products_equal_what_torch_counts(tmp_path, monkeypatch, name):
    """Every matrix product of a real forward pass, counted by torch as it runs."""
    monkeypatch.setattr("core.model.layers.pack_weight", lambda weight: None)
    monkeypatch.setattr("core.model.attention._FEW_KEYS", 0)
    families.FAMILIES[name](tmp_path / name)
    runner = ModelRunner(
        tmp_path / name, dtype="float32", device="cpu", num_blocks=64, block_size=4
    )
    driver = Driver(runner)
    decode, prompt = driver.add(list(range(5, 16))), driver.add([7])
    driver.step([(decode, 11)])
    work = runner.step_work
    with FlopCounterMode(display=False) as counted:
        driver.step([(decode, 1), (prompt, 1)])
    flops = counted.get_flop_counts()["Global"]
    config, step = runner.config, runner.step_work
    products = sum(n for op, n in flops.items() if str(op) in ("aten.mm", "aten.addmm"))
    assert products == step["linear_flops"] + step["logits_flops"]
    # Attention computes whole blocks, 3 of 4 tokens for the 12 keys that are needed: no less, and
    # here no more.
    assert flops[torch.ops.aten.bmm] == step["attention_flops"]
    assert step["attention_flops"] == 4 * config.num_hidden_layers * (12 + 1) * (
        config.num_attention_heads * config.head_dim
    )
    assert work["attention_flops"] == step["attention_flops"] // 13 * 66


def test_weight_bytes_equal_the_model_s_own_size(tiny):
    """All parameters but the embedding's other rows; float32."""
    config = tiny.config
    work = WorkCounter(config, "float32").count([SequenceWork(1, 0)])
    rest = config.num_parameters - config.vocab_size * config.hidden_size + config.hidden_size
    assert work.weight_bytes == 4 * rest


def test_a_run_carries_timing_and_work_and_verifies(tiny):
    scenario = Scenario.from_dict(
        {
            "schema": "scenario/1",
            "engine": {"num_blocks": 16, "block_size": 4, "max_model_len": 40},
            "requests": [
                {"id": "A", "prompt_tokens": [5, 6, 7, 8, 9], "max_tokens": 3, "ignore_eos": True},
                {"id": "B", "prompt_tokens": [9, 8], "arrive_step": 1, "max_tokens": 2},
            ],
        }
    )
    tiny.bind(16, 4)
    run = parse_run(Engine(scenario, tiny, debug=True, label="LIVE").run_to_end().to_bytes())
    verify(run)
    counter = WorkCounter(tiny.config, "float32")
    for record in run.steps:
        timing = record["timing"]
        parts = timing["attention_us"] + timing["linear_us"] + timing["other_us"]
        assert parts == pytest.approx(timing["forward_us"], abs=0.3)  # each is rounded to 0.1
        shares = [
            SequenceWork(
                share["num_scheduled_tokens"],
                share["num_computed_tokens"] + share["num_cached_tokens"],
            )
            for share in record["scheduled"].values()
        ]
        assert record["work"] == counter.count(shares).as_dict()
    assert run.steps[1]["work"]["kv_write_bytes"] == 3 * tiny.kv_bytes_per_token


def test_a_lap_is_the_time_since_the_one_before(monkeypatch):
    times = iter([1000, 4000, 4500, 9500, 10_000, 11_000, 12_000, 13_500])
    monkeypatch.setattr(step_clock, "perf_counter_ns", lambda: next(times))
    clock = step_clock.CpuClock()
    for part in (step_clock.LINEAR, step_clock.OTHER, step_clock.ATTENTION, step_clock.LINEAR):
        clock.lap(part)
    clock.end_forward()
    clock.lap(step_clock.LINEAR)  # of sampling: logits of judged prompts
    clock.end()
    assert clock.read() == {
        "forward_us": 9.0,
        "attention_us": 5.0,
        "linear_us": 3.5,
        "other_us": 0.5,
        "sample_us": 2.5,
    }
