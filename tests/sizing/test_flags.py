"""Commands for two servers: they parse as documented, and say what the plan says."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

import pytest

from core.sizing import catalog, flags, gpus
from core.sizing.deployment import Deployment
from core.sizing.errors import SizingError
from core.sizing.plan import Plan, plan

Json = dict[str, Any]


def _plan(**more: Any) -> Plan:
    given: Json = {"tp": 2, "weight_dtype": "fp8", "kv_dtype": "fp8", "prefix_tokens": 1024, **more}
    return plan(Deployment(catalog.get("llama-3-70b"), gpus.get("h100-sxm5"), **given))


def vllm() -> argparse.ArgumentParser:
    """The options of `vllm serve` that a plan decides."""
    p = argparse.ArgumentParser(exit_on_error=False)
    p.add_argument("model")
    for name in ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size"):
        p.add_argument(f"--{name}", type=int, default=1)
    for name in ("max-model-len", "max-num-seqs", "max-num-batched-tokens"):
        p.add_argument(f"--{name}", type=int)
    p.add_argument("--block-size", type=int, choices=(1, 8, 16, 32, 64, 128))
    p.add_argument("--gpu-memory-utilization", type=float)
    scaled = (f"{name}_per_token_head" for name in ("int4", "int8", "fp8"))
    p.add_argument("--kv-cache-dtype", choices=("auto", "fp8", "fp8_e4m3", "fp8_e5m2", *scaled))
    p.add_argument("--enable-prefix-caching", action=argparse.BooleanOptionalAction)
    p.add_argument("--quantization", choices=("awq", "fp8", "gptq"))
    p.add_argument("--enable-expert-parallel", action="store_true")
    return p


def sglang() -> argparse.ArgumentParser:
    """The options of `sglang.launch_server` that a plan decides."""
    p = argparse.ArgumentParser(exit_on_error=False)
    p.add_argument("--model-path")
    for name in ("tp", "pp-size", "dp"):
        p.add_argument(f"--{name}", type=int, default=1)
    for name in ("context-length", "max-running-requests", "chunked-prefill-size", "page-size"):
        p.add_argument(f"--{name}", type=int)
    p.add_argument("--mem-fraction-static", type=float)
    p.add_argument("--kv-cache-dtype", choices=("auto", "fp8_e4m3", "fp8_e5m2"))
    p.add_argument("--disable-radix-cache", action="store_true")
    p.add_argument("--enable-dp-attention", action="store_true")
    p.add_argument("--quantization", choices=("awq", "fp8", "gptq"))
    return p


def parsed(text: str, engine: str) -> argparse.Namespace:
    """A command as a shell gives it to the server; comments and line ends are the shell's."""
    words = shlex.split(text.replace("\\\n", " "), comments=True)
    start = ["vllm", "serve"] if engine == "vllm" else ["python", "-m", "sglang.launch_server"]
    assert words[: len(start)] == start
    return (vllm() if engine == "vllm" else sglang()).parse_args(words[len(start) :])


def test_vllm_says_what_the_plan_says() -> None:
    made = _plan(dp=2, max_num_seqs=128, gpu_memory_utilization=0.9)
    got = parsed(flags.command(made, "vllm", "org/model").text(), "vllm")
    assert (got.model, got.tensor_parallel_size, got.data_parallel_size) == ("org/model", 2, 2)
    assert (got.max_model_len, got.max_num_seqs, got.max_num_batched_tokens) == (4096, 128, 8192)
    assert (got.block_size, got.kv_cache_dtype, got.quantization) == (16, "fp8", "fp8")
    assert got.gpu_memory_utilization == 0.9 and got.enable_prefix_caching is True


def test_sglang_leaves_the_pool_that_the_plan_counts() -> None:
    made = _plan(prefix_cache=False)
    got = parsed(flags.command(made, "sglang", "org/model").text(), "sglang")
    assert (got.model_path, got.tp, got.dp, got.context_length) == ("org/model", 2, 1, 4096)
    assert (got.max_running_requests, got.page_size, got.kv_cache_dtype) == (256, 16, "fp8_e4m3")
    assert got.disable_radix_cache and got.chunked_prefill_size == 8192
    visible = made.deployment.gpu.visible_bytes
    static = got.mem_fraction_static * visible
    exact = (made.weights_per_gpu.value or 0) + (made.kv_pool_per_gpu.value or 0)
    assert 0 <= exact - static < 0.001 * visible


@pytest.mark.parametrize("engine", flags.ENGINES)
def test_what_an_engine_has_no_option_for_is_a_note(engine: str) -> None:
    made = flags.command(_plan(kv_dtype="fp32"), engine, "m")
    assert any("fp32" in note and "planned number" in note for note in made.notes)
    assert parsed(made.text(), engine).kv_cache_dtype == "auto"
    awq = flags.command(_plan(weight_dtype="int4"), engine, "m")
    assert parsed(awq.text(), engine).quantization is None, "named, it would choose a slow kernel"
    assert any("int4" in note and "checkpoint" in note for note in awq.notes)
    plain = flags.command(_plan(weight_dtype="bf16", kv_dtype="bf16"), engine, "m")
    assert parsed(plain.text(), engine).quantization is None


def test_scales_a_head_are_a_format_of_one_engine_and_a_note_of_the_other() -> None:
    made = _plan(kv_dtype="int8_per_token_head")
    ours = flags.command(made, "vllm", "m")
    assert parsed(ours.text(), "vllm").kv_cache_dtype == "int8_per_token_head"
    theirs = flags.command(made, "sglang", "m")
    assert parsed(theirs.text(), "sglang").kv_cache_dtype == "auto"
    assert any("int8_per_token_head" in note for note in theirs.notes)


@pytest.mark.parametrize("engine", flags.ENGINES)
def test_a_published_checkpoint_says_itself_how_it_is_stored(engine: str) -> None:
    for model, tp in (("deepseek-v3", 8), ("gpt-oss-120b", 2)):
        made = plan(Deployment(catalog.get(model), gpus.get("h200-sxm"), tp=tp, context=4096))
        found = flags.command(made, engine, "m")
        assert parsed(found.text(), engine).quantization is None
        assert not any("checkpoint" in note for note in found.notes)


def test_attention_apart_is_said_as_each_engine_has_it() -> None:
    where: Json = {"tp": 8, "attention_dp": 4, "context": 4096, "max_num_seqs": 64}
    made = plan(Deployment(catalog.get("deepseek-v3"), gpus.get("h200-sxm"), **where))
    ours = parsed(flags.command(made, "vllm", "m").text(), "vllm")
    assert (ours.tensor_parallel_size, ours.data_parallel_size) == (2, 4)
    assert ours.enable_expert_parallel and ours.max_num_seqs == 64, "of each group"
    theirs = parsed(flags.command(made, "sglang", "m").text(), "sglang")
    assert (theirs.tp, theirs.dp, theirs.enable_dp_attention) == (8, 4, True)
    assert theirs.max_running_requests == 4 * 64, "of all, which SGLang divides"
    assert theirs.chunked_prefill_size == 4 * 8192
    plain = parsed(flags.command(_plan(dp=2), "sglang", "m").text(), "sglang")
    assert not plain.enable_dp_attention and plain.dp == 2 and plain.max_running_requests == 256


@pytest.mark.parametrize("engine", flags.ENGINES)
def test_a_budget_below_max_num_seqs_is_the_limit_of_both(engine: str) -> None:
    made = flags.command(_plan(max_num_batched_tokens=100), engine, "m")
    got = parsed(made.text(), engine)
    assert (got.max_num_seqs if engine == "vllm" else got.max_running_requests) == 100


@pytest.mark.parametrize("engine", flags.ENGINES)
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"tp": 8, "context": 16_384, "prefix_tokens": 0}, "made for 8,192 tokens"),
        ({"block_size": 5}, "multiples of 16"),
        ({"dp": 5}, "start 5 replicas of 2 each"),
        ({"tp": 16}, "over several machines"),
    ],
)
def test_what_would_not_start_is_said_above_it(engine: str, more: Json, said: str) -> None:
    assert any(said in note for note in flags.command(_plan(**more), engine, "m").notes)
    plain = flags.command(_plan(), engine, "m").notes
    assert not any(said in note for note in plain)
    one = flags.command(_plan(tp=1, gpu_memory_utilization=0.98), engine, "m").notes
    assert one[0].endswith("on 1 GPU")


@pytest.mark.parametrize("engine", flags.ENGINES)
def test_a_hostile_name_stays_one_word(engine: str) -> None:
    name = "a b; rm -rf $HOME `x` '\"\n#"
    words = flags.command(_plan(), engine, name).words
    assert name in words
    text = flags.command(_plan(), engine, name.replace("\n", "")).text()
    got = parsed(text, engine)
    assert (got.model if engine == "vllm" else got.model_path) == name.replace("\n", "")


def test_what_cannot_start_is_refused() -> None:
    with pytest.raises(SizingError, match="not one sequence"):
        flags.command(_plan(tp=1, weight_dtype="bf16"), "vllm", "m")
    with pytest.raises(SizingError, match="not one of vllm, sglang"):
        flags.command(_plan(), "other", "m")
