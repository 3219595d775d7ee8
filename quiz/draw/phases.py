"""Prefill and decode: how often the model runs, and what each run waits for."""

from __future__ import annotations

from random import Random

from core.sizing import catalog, gpus
from quiz.draw.common import (
    FORMATS,
    GPUS,
    calc,
    counted,
    geometry,
    gpu_title,
    grouped_models,
    misread,
    ms,
    scenario,
    title,
    whole,
)
from quiz.items import Answer, Drawn, Proof


def phase_facts(_: Random) -> Drawn:
    """The two figures that the sentences on this question name."""
    floor = calc("decode_step_time", model="llama-3-70b", gpu="h100-sxm5", n_gpu=8)
    values = {"ridge": f"{calc('ridge_point', gpu='h100-sxm5'):.0f}", "floor": ms(floor)}
    return Drawn(values, {}, "")


def passes(rng: Random) -> Drawn:
    """How many times the model runs for one prompt and one answer."""
    prompt, output = rng.randrange(24, 121), rng.randrange(8, 41)
    answers = {
        "right": output,
        "token_by_token": prompt + output,
        "prefill_gives_none": output + 1,
        "once_each": 2,
        "whole_text": 1,
    }
    engine = {"num_blocks": 64, "max_num_batched_tokens": 128, "max_model_len": 256}
    request = {"id": "A", "prompt_tokens": list(range(1, prompt + 1)), "max_tokens": output}
    own = scenario(f"{prompt} prompt tokens, {output} answer tokens", engine, [request])
    return Drawn(
        values={"prompt": prompt, "output": output, "last": output - 1, "all": prompt + output},
        answers={key: Answer(counted(value, "run")) for key, value in answers.items()},
        sign=f"{prompt}+{output}",
        given=(f"prompt {prompt} tokens", f"answer {output} tokens", "no other request"),
        proof=Proof({"own": own}),
    )


def _fits(model: str, gpu: str) -> bool:
    """Whether one GPU holds it, and each token visits all of it (no mixture of experts)."""
    spec = catalog.get(model)
    dense = spec.params == spec.active_params
    return dense and calc("weight_bytes", model=model) < 0.9 * gpus.get(gpu).visible_bytes


def decode_floor(rng: Random) -> Drawn:
    """The least time of one decode step of one sequence, by the data sheet."""
    gpu = rng.choice(tuple(GPUS))
    model = rng.choice([one for one in grouped_models() if _fits(one, gpu)])
    context = 1024 * rng.choice((1, 2, 4, 8))
    spec = gpus.get(gpu)
    args = {"model": model, "context": context}
    right = calc("decode_step_time", gpu=gpu, **args)
    times = {
        "right": right,
        "compute_bound": calc("decode_flops", **args) / spec.peaks["bf16"],
        "cache_only": calc("decode_kv_bytes", **args) / spec.bandwidth,
        "one_byte": calc("decode_step_time", gpu=gpu, weights="fp8", kv="fp8", **args),
        "prefill_again": calc("prefill_time", model=model, tokens=context, gpu=gpu),
    }
    weight = calc("decode_weight_bytes", model=model)
    gigabytes = float(weight) / 1e9
    return Drawn(
        values={
            "model": title(model),
            "gpu": GPUS[gpu],
            "context": whole(context),
            "weights": f"{gigabytes:.3g} GB" if gigabytes < 10 else f"{gigabytes:.1f} GB",
            "bandwidth": f"{spec.bandwidth / 1e12:.3g} TB/s",
            "floor": ms(right),
            "flop_time": ms(times["compute_bound"]),
        },
        answers={key: Answer(ms(value)) for key, value in times.items()},
        sign=f"{model} {gpu} {context}",
        drawn=f"{title(model)} on an {GPUS[gpu]}",
        given=(
            f"parameters {catalog.get(model).params:,}",
            "BF16",
            f"context {context:,} tokens",
            f"memory {spec.bandwidth / 1e12:.3g} TB/s",
            f"dense BF16 {spec.peaks['bf16'] / 1e12:,.4g} TFLOP/s",
        ),
        proof=Proof({"run": "two_answers_one_prefix", "step": 0}, page="prefill_decode"),
    )


def compute_bound_batch(rng: Random) -> Drawn:
    """The batch from which the weights' matrices are bound by compute, in BF16."""
    gpu = rng.choice([name for name in gpus.names() if "bf16" in gpus.get(name).peaks])
    spec = gpus.get(gpu)
    sequences = {
        "right": calc("min_compute_bound_batch", gpu=gpu),
        "always": 1,
        # One FLOP a weight instead of two is the same as weights of twice the bytes.
        "one_flop": calc("min_compute_bound_batch", gpu=gpu, weight_bytes=4),
        "one_byte": calc("min_compute_bound_batch", gpu=gpu, weight_bytes=1),
    }
    return Drawn(
        values={
            "gpu": gpu_title(gpu),
            "right": whole(sequences["right"]),
            "ridge": f"{calc('ridge_point', gpu=gpu):.0f}",
        },
        answers={key: Answer(counted(int(value), "sequence")) for key, value in sequences.items()},
        sign=gpu,
        drawn=gpu_title(gpu),
        given=(
            f"memory {spec.bandwidth / 1e12:.3g} TB/s",
            f"dense BF16 {spec.peaks['bf16'] / 1e12:,.4g} TFLOP/s",
        ),
        proof=Proof({"run": "two_answers_one_prefix", "step": 0}, page="prefill_decode"),
    )


def intensity(rng: Random) -> Drawn:
    """FLOP that decode's attention does for each byte of the cache that it reads."""
    model, dtype = rng.choice(grouped_models()), rng.choice(tuple(FORMATS))
    batch, gpu = 2 ** rng.randrange(4, 8), rng.choice(tuple(GPUS))
    shape = geometry(model)
    at = "arithmetic_intensity_attention_decode"
    rates = {
        "right": calc(at, model=model, dtype=dtype),
        "weights": calc(
            "arithmetic_intensity_weights", batch=batch, weight_bytes=1 if dtype == "fp8" else 2
        ),
        "no_groups": calc(at, config=misread(model, shape["n_heads"]), dtype=dtype),
        "one_head": calc(at, config=misread(model, 1), dtype=dtype),
        "other_format": calc(at, model=model, dtype="bf16" if dtype == "fp8" else "fp8"),
        "ridge": calc("ridge_point", gpu=gpu),
    }
    return Drawn(
        values={
            "model": title(model),
            "dtype": FORMATS[dtype],
            "gpu": GPUS[gpu],
            "batch": batch,
            "query": shape["n_heads"],
            "kv": shape["n_kv_heads"],
            "group": shape["n_heads"] // shape["n_kv_heads"],
            "bytes": counted(1 if dtype == "fp8" else 2, "byte"),
            "right": f"{rates['right']:,g}",
        },
        answers={key: Answer(f"{value:,.1f} FLOP/B") for key, value in rates.items()},
        sign=f"{model} {dtype} {batch}",
        drawn=title(model),
        given=(
            f"query heads {shape['n_heads']}",
            f"KV heads {shape['n_kv_heads']}",
            f"KV cache in {FORMATS[dtype]}",
            f"batch {batch}",
        ),
        proof=Proof({"run": "batch_1_to_32", "step": 40}, page="prefill_decode"),
    )
