"""Whole models by the compiled kernels: as near to float32 as torch's own bfloat16, or nearer."""

from __future__ import annotations

import families
import pytest
import torch
from model_driver import Driver, generate
from test_cpu_kernels import kernels  # noqa: F401 (a fixture: skips where there are none)

from core.errors import UnsupportedError
from core.model.cache import cache_dir
from core.model.model_runner import ModelRunner
from core.record import record, verify_tokens
from core.scenario import Scenario
from kernels.cpu import build

PROMPTS = [[5, 6, 7], list(range(9, 60)), [200, 100, 50, 25] * 7, [3]]
NAMES = ["llama-biases", "llama3.1", "mistral-window", "qwen2-window", "qwen3", "qwen3-biases-yarn"]


def runner(directory, dtype, **more):
    return ModelRunner(directory, dtype, "cpu", 200, 4, **more)


@pytest.fixture(scope="module", params=NAMES)
def directory(request, tmp_path_factory):
    """A family's tiny model with heads of 32, which the kernels need."""
    config = {**families.CONFIGS[request.param], "head_dim": 32}
    return families.write(config, tmp_path_factory.mktemp("models") / request.param)


def without_kernels(monkeypatch, make):
    """What `make` makes where there are no kernels."""
    build.reason.cache_clear(), build.load.cache_clear()
    with monkeypatch.context() as patched:
        patched.setenv("KV_SCOPE_NATIVE", "0")
        made = make()
    build.reason.cache_clear(), build.load.cache_clear()
    return made


def errors(ours, exact):
    return max((a.float() - b.float()).abs().max().item() for a, b in zip(ours, exact, strict=True))


@pytest.mark.parametrize("weights", [None, "int8"])
def test_logits_are_as_near_to_float32_as_torch_s(kernels, directory, weights, monkeypatch):  # noqa: F811
    """One token of each prompt, alone and together: prompts take torch's attention."""
    compiled = runner(directory, "bfloat16", weights=weights)
    plain = without_kernels(monkeypatch, lambda: runner(directory, "bfloat16", weights=weights))
    assert compiled.model.compiled and not plain.model.compiled
    assert (compiled.source["kernels"], plain.source["kernels"]) == ("compiled", "torch")
    exact = generate(runner(directory, "float32"), PROMPTS, 1)[1]
    scale = max(rows.abs().max().item() for rows in exact)
    ours = errors(generate(compiled, PROMPTS, 1)[1], exact)
    theirs = errors(generate(plain, PROMPTS, 1)[1], exact)
    assert ours < 0.1 * scale
    assert ours <= 1.5 * theirs + 0.005 * scale


def test_decoding_through_blocks_is_as_near(kernels, directory):  # noqa: F811
    """Teacher-forced: the same tokens one by one, in blocks that lie anywhere, beside others."""
    exact, compiled = runner(directory, "float32"), runner(directory, "bfloat16")
    logits = {}
    for name, model in (("exact", exact), ("compiled", compiled)):
        driver = Driver(model, seed=3)
        first, second = driver.add(list(range(9, 60))), driver.add(list(range(100, 140)))
        driver.step([(first, 7), (second, 1)])
        driver.step([(second, 20), (first, 1)])
        while first.num_computed_tokens < 50:
            driver.step(
                [(first, 1), (second, 1)] if second.num_computed_tokens < 39 else [(first, 1)]
            )
        driver.step([(first, 1), (second, second.num_tokens - second.num_computed_tokens)])
        logits[name] = [torch.stack(driver.logits[seq.id]) for seq in (first, second)]
    scale = max(rows.abs().max().item() for rows in logits["exact"])
    assert errors(logits["compiled"], logits["exact"]) < 0.05 * scale


def test_heads_that_do_not_fill_registers_take_torch_s_path(tiny_dir):
    assert not runner(tiny_dir, "bfloat16").model.compiled


def test_float32_takes_torch_s_path(directory):
    assert not runner(directory, "float32").model.compiled


@pytest.mark.model
def test_smollm_runs_compiled(kernels, model_dir):  # noqa: F811
    assert cache_dir().exists()
    assert runner(model_dir, "bfloat16").model.compiled


def test_a_run_is_verified_only_by_the_kernels_that_recorded_it(kernels, directory):  # noqa: F811
    scenario = Scenario.from_dict(
        {
            "schema": "scenario/1",
            "model": str(directory),
            "engine": {"num_blocks": 16, "block_size": 4, "max_model_len": 64},
            "requests": [{"id": "A", "prompt_tokens": PROMPTS[2], "max_tokens": 6}],
        }
    )
    run = record(scenario, device="cpu")
    assert run.header["source"]["kernels"] == "compiled"
    verify_tokens(run)
    run.header["source"]["kernels"] = "torch"
    with pytest.raises(UnsupportedError, match="torch kernels, run here with compiled"):
        verify_tokens(run)
    del run.header["source"]["kernels"]  # of runs before there were any
    with pytest.raises(UnsupportedError, match="torch kernels"):
        verify_tokens(run)


@pytest.mark.parametrize(
    "kv_dtype",
    [
        "int8_per_token_head",
        "fp8",
        {"format": "int4"},
        {"format": "int8", "scale": "per_head_static", "calibration": "first_step"},
        {"format": "int8", "layers": {"0": "model", "1": "int4"}},
    ],
    ids=str,
)
def test_quantised_blocks_are_written_and_read_as_by_torch(
    kernels,  # noqa: F811
    directory,
    kv_dtype,
    monkeypatch,
):
    """Both bfloat16, so near and not equal: a number in the middle of two codes goes either way.
    That each kernel rounds and reads to the bit, `test_cpu_kernels` says."""
    compiled = runner(directory, "bfloat16", kv_dtype=kv_dtype, measure_kv_error=True)
    plain = without_kernels(
        monkeypatch,
        lambda: runner(directory, "bfloat16", kv_dtype=kv_dtype, measure_kv_error=True),
    )
    assert compiled.model.compiled and not plain.model.compiled
    logits, errors_of = [], []
    for model in (compiled, plain):
        driver = Driver(model, seed=3)
        first, second = driver.add(list(range(9, 60))), driver.add(list(range(100, 140)))
        driver.step([(first, 30), (second, 1)])
        driver.step([(second, 20), (first, 1)])
        while first.num_computed_tokens < 50:
            driver.step([(first, 1), (second, 1)])
        driver.step([(first, 1)])
        logits.append(driver.logits[first.id][0])
        taken = model.take_kv_error()
        errors_of.append({name: torch.tensor(sums) for name, sums in taken.items()})
    scale = logits[1].abs().max().item()
    assert errors([logits[0]], [logits[1]]) < 0.35 * scale
    for name in ("key", "value"):
        relative = [(of[name] / of[f"{name}_squares"]).sqrt() for of in errors_of]
        assert torch.allclose(*relative, rtol=0.15, atol=2e-3), name
