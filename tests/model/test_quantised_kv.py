"""A quantised cache in the real engine: the numbers it must compute, wherever they come from."""

from __future__ import annotations

import dataclasses

import families
import kv_reference
import pytest
import torch
from kv_reference import expected_logits
from model_driver import Driver

from core.engine import Engine
from core.errors import MismatchError, ScenarioError
from core.llm import LLM
from core.model.errors import MemoryBudgetError
from core.model.kv_calibration import kv_amax
from core.model.model_runner import ModelRunner
from core.outputs import SamplingParams
from core.record import record, verify_tokens
from core.scenario import Scenario
from core.simulate import verify
from core.sizing import calls
from core.trace.run import parse_run

PROMPTS = [[7], [5, 9, 11, 250, 3], list(range(3, 20)), list(range(50, 115))]
INT4 = {"format": "int4"}
MIX = {"format": "int8", "layers": {"0": "model", "2": "int4"}}
FORMS = {
    "int8": "int8_per_token_head",
    "fp8": "fp8_per_token_head",
    "int4": INT4,
    "mix": MIX,
}
STATIC = {
    "fp8 per tensor": "fp8",
    "int8 per head": {"format": "int8", "scale": "per_head_static"},
    "int8 per tensor": {"format": "int8", "scale": "per_tensor"},
    "fp8, scales of one": {"format": "fp8_e4m3", "scale": "per_tensor", "calibration": "one"},
}


def form_of(kv_dtype):
    spec = Scenario.from_dict(
        {"schema": "scenario/1", "engine": {"kv_dtype": kv_dtype}}
    ).engine.kv_spec
    return spec.of_layers(3).__getitem__


def outputs_of(runner, kv_dtype, chunk, block_size=4):
    """Greedy tokens and their logits, prompts together, in a pool of that kind."""
    runner.bind(600, block_size, kv_dtype=kv_dtype)
    driver = Driver(runner)
    sequences = [driver.add(prompt) for prompt in PROMPTS]
    tokens = driver.run(sequences, 12, chunk)
    return tokens, [torch.stack(driver.logits[seq.id]) for seq in sequences]


def assert_near(pairs):
    """Logits within 1e-4, sequence by sequence; but where a number lay so near the middle of two
    codes that float32 took the other one, all that follows in that sequence may be off by what one
    step of one number is worth: in half of them at most."""
    differences = [(ours - expected).abs().max().item() for ours, expected in pairs]
    assert sum(difference <= 1e-4 for difference in differences) >= len(differences) / 2
    assert max(differences) <= 0.1


@pytest.mark.parametrize("chunk", [1, 7, None])
@pytest.mark.parametrize("name", FORMS)
def test_logits_equal_those_of_an_oracle_whose_cache_rounds(tiny, tiny_oracle, name, chunk):
    all_tokens, all_logits = outputs_of(tiny, FORMS[name], chunk)
    pairs, moved = [], []
    for prompt, tokens, logits in zip(PROMPTS, all_tokens, all_logits, strict=True):
        expected = expected_logits(tiny_oracle, prompt, tokens, form_of(FORMS[name]))
        pairs.append((logits, expected))
        plain = expected_logits(tiny_oracle, prompt, tokens, lambda _: "model")
        moved.append((logits - plain).abs().max().item())
    assert_near(pairs)
    assert max(moved) > 0.05, "rounding must change something, or nothing is tested"


@pytest.mark.parametrize("name", STATIC)
def test_fixed_scales_cut_off_what_is_too_large(tiny, tiny_oracle, name):
    """The scales are those of the shipped text; the prompts exceed some of them."""
    kv_dtype = STATIC[name]
    all_tokens, all_logits = outputs_of(tiny, kv_dtype, 7)
    amax = kv_amax(tiny).double()
    forms = form_of(kv_dtype)
    per_tensor = kv_dtype == "fp8" or kv_dtype["scale"] == "per_tensor"

    def scale_of(layer, side, x):
        largest = amax[layer, side]
        if per_tensor:
            largest = largest.amax().expand_as(largest)
        if name == "fp8, scales of one":
            return torch.ones(1, len(largest), 1, 1, dtype=torch.float64)
        scale = (largest.float() / kv_reference.LARGEST[forms(layer)]).double()
        return scale[None, :, None, None]

    assert_near(
        (logits, expected_logits(tiny_oracle, prompt, tokens, forms, scale_of))
        for prompt, tokens, logits in zip(PROMPTS, all_tokens, all_logits, strict=True)
    )


def test_the_first_step_fixes_the_scales_and_nothing_changes_them_after(tiny):
    kv_dtype = {"format": "int8", "scale": "per_head_static", "calibration": "first_step"}
    tiny.bind(64, 4, kv_dtype=kv_dtype)
    driver = Driver(tiny)
    first = driver.add(PROMPTS[2])
    driver.run([first], 1)
    before = [scales.scale.clone() for scales in tiny.store.scales]
    assert not any(scales.pending for scales in tiny.store.scales)
    codes = tiny.store.blocks[0][:, first.block_table[:4]]
    assert codes.abs().amax() == 127, "the largest number of the first step is the largest code"
    driver.run([driver.add(PROMPTS[3])], 4)
    for scales, old in zip(tiny.store.scales, before, strict=True):
        assert torch.equal(scales.scale, old)


# ---- nothing depends on how a token's keys came to be read ---------------------------------------

REQUESTS = [
    {"id": "A", "prompt_tokens": list(range(50, 90)), "max_tokens": 14},
    {"id": "B", "prompt_tokens": [5, 9, 11, 250, 3, 8, 8], "max_tokens": 12, "n": 3},
    {"id": "C", "prompt_tokens": [*range(50, 82), 8, 9], "max_tokens": 6, "arrive_step": 3},
    {"id": "D", "prompt_tokens": list(range(50, 90)), "max_tokens": 5, "arrive_step": 8},
    {"id": "E", "prompt_tokens": list(range(20, 33)), "max_tokens": 4, "beam_width": 2},
    {"id": "F", "fork_of": "A", "arrive_step": 6, "max_tokens": 14},
]


def run_of(runner, kv_dtype, requests=None, **engine):
    settings = {
        "num_blocks": 200,
        "block_size": 4,
        "max_num_seqs": 10,
        "max_num_batched_tokens": 100,
        "max_model_len": 64,
        "kv_dtype": kv_dtype,
        **engine,
    }
    scenario = Scenario.from_dict(
        {
            "schema": "scenario/1",
            "model": "tiny",
            "engine": settings,
            "requests": [
                {"ignore_eos": True, "temperature": 0, **request}
                for request in (REQUESTS if requests is None else requests)
            ],
        }
    )
    runner.bind(**scenario.engine.kv_pool)
    engine = Engine(scenario, runner, debug=True)
    run = engine.run_to_end()
    return {name: seq.output_tokens for name, seq in engine.sequences().items()}, run


def count(run, kind):
    return sum(event["type"] == kind for step in run.steps for event in step["events"])


@pytest.mark.parametrize("name", [*FORMS, "int8 per head"])
def test_tokens_are_the_same_however_they_are_scheduled(tiny, name):
    """Chunks, blocks, batches, prefix hits, forks, copies and preemption: scales go with codes."""
    kv_dtype = {**FORMS, **STATIC}[name]
    expected, plain = run_of(tiny, kv_dtype, prefix_cache="off")
    assert count(plain, "preempted") == 0
    for engine in (
        {"block_size": 16, "num_blocks": 60},
        {"block_size": 1},
        {"long_prefill_token_threshold": 3},
        {"prefix_cache": "hash"},
        {"max_num_batched_tokens": 9, "prefix_cache": "off"},
    ):
        tokens, _ = run_of(tiny, kv_dtype, **engine)
        # F is refused where A, in small pieces, has not come as far as its fork by then.
        assert tokens == {name: expected[name] for name in tokens}, engine
        assert set(expected) - set(tokens) <= {"F"}
    tight = {"num_blocks": 20, "max_num_seqs": 8}
    tokens, run = run_of(tiny, kv_dtype, **tight)
    assert tokens == expected
    assert count(run, "preempted") and count(run, "block_copied") and count(run, "block_shared")


def test_a_copied_block_has_the_scales_of_its_codes(tiny, monkeypatch):
    """Trap 42. Without them the twins would read other numbers: seen by leaving the copy out."""
    twins = [{**REQUESTS[1], "temperature": 1.5, "seed": 5}]
    expected, run = run_of(tiny, INT4, twins)
    assert count(run, "block_copied") == 2
    monkeypatch.setattr("core.model.kv_scales.LayerScales.copy", lambda self, src, dst: None)
    assert run_of(tiny, INT4, twins)[0] != expected


def test_a_window_gives_back_quantised_blocks(tmp_path):
    """Trap 43: blocks before the window go, and the tokens stay."""
    directory = families.FAMILIES["mistral-window"](tmp_path / "mistral")
    runner = ModelRunner(directory, dtype="float32", device="cpu", num_blocks=64, block_size=4)
    requests = [REQUESTS[0], REQUESTS[1]]
    expected, _ = run_of(runner, "int8_per_token_head", requests, block_size=1)
    for engine in ({"prefix_cache": "hash"}, {"long_prefill_token_threshold": 5}):
        tokens, run = run_of(runner, "int8_per_token_head", requests, **engine)
        assert tokens == expected
    freed = [e for step in run.steps for e in step["events"] if e["type"] == "blocks_freed"]
    assert all(e["reason"] != "window" for e in freed)  # the tree keeps whole paths
    _, hashed = run_of(runner, "int8_per_token_head", requests, prefix_cache="hash")
    freed = [e for step in hashed.steps for e in step["events"] if e["type"] == "blocks_freed"]
    assert any(e["reason"] == "window" for e in freed)


@pytest.mark.parametrize("kv_dtype", ["fp8", STATIC["fp8, scales of one"], "fp8_per_token_head"])
def test_an_overflow_is_cut_off_and_never_nan(tiny, kv_dtype):
    """Trap 42: numbers beyond 448 scales, also infinite ones."""
    tiny.bind(8, 4, kv_dtype=kv_dtype)
    store = tiny.store
    key_value = torch.full((1, 4, 16), 1e6)
    key_value[0, 1] = -1e30
    key_value[0, 2] = 0
    index = store.layout.slot_index(torch.tensor([5]))
    store.write(0, key_value, index)
    read = store.read(0, store.layout.block_index(torch.tensor([[1]])), 1)
    assert torch.isfinite(read).all()
    assert (read[1, 0, 0, 1] == 0).all(), "zeros stay zeros"
    if not store.dynamic(0):
        assert read[0, 0, 0, 1].unique().item() == 448 * store.scales[0].scale[0, 0].item()


# ---- what a run says -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*FORMS, *STATIC])
def test_bytes_allocated_equal_the_sizing_librarys(tiny, name):
    kv_dtype = {**FORMS, **STATIC}[name]
    tiny.bind(37, 4, kv_dtype=kv_dtype)
    spec = tiny.store.spec
    config = {
        "model_type": "llama",
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "hidden_size": 48,
        "vocab_size": 320,
        "intermediate_size": 80,
    }
    inputs = {"config": config, "dtype": spec.sizing_dtype("float32", 3)}
    token = calls.call("kv_bytes_per_token", inputs).value
    block = calls.call("block_bytes", {**inputs, "block_size": 4}).value
    assert tiny.kv_bytes_per_token == token
    fixed = tiny.kv_format["scale_bytes"]
    assert tiny.kv_cache_bytes == 37 * block + fixed
    if spec.scale in ("per_tensor", "per_head_static"):
        scale = {"config": config, "scale": spec.scale, "scale_bytes": 4}
        assert fixed == calls.call("kv_static_scale_bytes", scale).value


def test_the_error_of_a_run_is_that_of_its_stored_numbers(tiny):
    """Summed over steps, by layer, side and head; native layers have none."""
    _, run = run_of(tiny, MIX, [REQUESTS[0]], measure_kv_error=True, long_prefill_token_threshold=7)
    parts = [step["kv_error"] for step in run.steps if step["scheduled"]]
    total = {name: sum(torch.tensor(part[name]) for part in parts) for name in parts[0]}
    assert total["key"].shape == total["value_squares"].shape == (3, 2)
    assert not total["key"][0].any() and (total["key_squares"] > 0).all()
    relative = (total["key"] / total["key_squares"]).sqrt()
    assert (relative[1] < 0.02).all() and (relative[2] > 0.05).all()
    # Against the pool itself: keys as the engine computed them without rounding lie in another.
    tiny.bind(20, 4, kv_dtype="int8_per_token_head", measure_kv_error=True)
    exact = torch.randn(5, 4, 16, generator=torch.Generator().manual_seed(1))
    slots = torch.tensor([3, 9, 0, 17, 2])
    tiny.store.write(1, exact, tiny.store.layout.slot_index(slots))
    key, value = tiny.store.kv_blocks(1).read(torch.arange(20))
    error = (torch.cat((key[slots], value[slots]), 1) - exact).square().sum((0, 2))
    taken = tiny.take_kv_error()
    assert torch.tensor([*taken["key"][0], *taken["value"][0]]) == pytest.approx(error, rel=1e-4)
    assert tiny.take_kv_error() == {}


def test_a_run_says_what_its_cache_stored_and_verifies(tiny_dir):
    scenario = Scenario.from_dict(
        {
            "schema": "scenario/1",
            "model": str(tiny_dir),
            "engine": {"kv_dtype": MIX, "measure_kv_error": True},
            "requests": [{"id": "A", "prompt_tokens": list(range(9, 30)), "max_tokens": 4}],
        }
    )
    run = parse_run(record(scenario, dtype="float32", device="cpu").to_bytes())
    assert run.header["kv_format"] == {
        "layers": ["model", "int8", "int4"],
        "scale": "per_token_head",
        "calibration": None,
        "scale_bytes": 0,
    }
    assert run.header["scenario"]["engine"]["kv_dtype"] == MIX
    verify(run)
    verify_tokens(run)
    for damage in (
        {"layers": ["model", "int8", "int8"]},
        {"layers": ["model"]},
        {"scale": "per_tensor"},
        {"calibration": "one"},
        {"scale_bytes": 8},
    ):
        told = {**run.header, "kv_format": {**run.header["kv_format"], **damage}}
        with pytest.raises(MismatchError, match=r"header\.kv_format"):
            verify(dataclasses.replace(run, header=told))
    for told in ({"kv_format": None}, {"kv_bytes_per_token": 1}, {"kv_cache_bytes": 1}):
        (name,) = told
        with pytest.raises(MismatchError, match=rf"header\.{name}"):
            (verify if name == "kv_format" else verify_tokens)(
                dataclasses.replace(run, header={**run.header, **told})
            )
    # What a step must read and write, too: 2 heads of 16 numbers, and scales, K and V.
    assert run.header["kv_bytes_per_token"] == 2 * 2 * (16 * 4 + (16 + 4) + (8 + 4))
    assert run.steps[0]["work"]["kv_write_bytes"] == 21 * run.header["kv_bytes_per_token"]


def test_what_the_model_has_not_is_refused(tiny, tmp_path):
    with pytest.raises(ScenarioError, match="no layer 3: the model has 3"):
        tiny.bind(8, 4, kv_dtype={"format": "int8", "layers": {"1-3": "model"}})
    tiny.bind(8, 4)  # and can be bound again
    odd = families.write({**families.CONFIGS["llama-biases"], "head_dim": 18}, tmp_path / "even")
    ModelRunner(odd, "float32", "cpu", 8, 4, kv_dtype=INT4)


def test_the_same_bytes_hold_more_blocks_in_fewer_bits(tiny_dir):
    """So that a pool is compared with a pool of its own size; fixed scales are counted."""

    def blocks(kv_dtype, num_bytes=100_000):
        llm = LLM(tiny_dir, dtype="float32", kv_cache_memory_bytes=num_bytes, kv_dtype=kv_dtype,
                  block_size=4)  # fmt: skip
        assert llm.runner.kv_cache_bytes <= num_bytes
        assert llm.runner.kv_cache_bytes + llm.runner.kv_bytes_per_token * 4 > num_bytes
        [out] = llm.generate([[5, 6, 7]], SamplingParams(max_tokens=3, ignore_eos=True))
        assert len(out.outputs[0].token_ids) == 3
        return llm.config.num_blocks

    # A token: 3 layers · 2 sides · 2 heads · 16 numbers of 4, 1 or ½ bytes, and scales of 4.
    assert blocks("model") == 100_000 // (4 * 12 * 64)
    assert blocks("int8_per_token_head") == 100_000 // (4 * 12 * 20)
    assert blocks(INT4) == 100_000 // (4 * 12 * 12)
    assert blocks("fp8", 100_024) == (100_024 - 3 * 2 * 4) // (4 * 12 * 16)
    with pytest.raises(MemoryBudgetError, match="hold no block: one takes 960 bytes"):
        blocks("int8_per_token_head", 959)
    with pytest.raises(ScenarioError, match="kv_cache_memory_bytes decides it"):
        LLM(tiny_dir, num_blocks=4, kv_cache_memory_bytes=100_000)
