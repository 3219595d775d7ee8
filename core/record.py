"""Runs of a real model: record one, and run a recorded one's model again."""

from __future__ import annotations

import dataclasses

from core.engine import Engine
from core.errors import MismatchError, UnsupportedError
from core.model.load_runner import NO_GPU_SETTINGS, GpuSettings, load_runner
from core.model.model_runner import ModelRunner
from core.model.stop_strings import completion_text
from core.scenario import RequestSpec, Scenario
from core.trace.results import compare_logprobs, requests_of_results
from core.trace.run import Run, output_tokens


def check_supported(scenario: Scenario) -> None:
    """Refuse settings that this version knows but does not carry out. Raises UnsupportedError."""
    for i, request in enumerate(scenario.requests):
        if request.output_tokens is not None:
            raise UnsupportedError(
                f"requests[{i}].output_tokens: a script is for runs without a model (simulate)"
            )


def add_texts(run: Run, runner: ModelRunner) -> None:
    """Put each sequence's text into a run's results; cut before the stop string that ended it."""
    tokens = output_tokens(run)
    requests = requests_of_results(run)
    for name, result in run.results.items():
        stops = [stop.encode("utf-8") for stop in requests[name].stop]
        result["text"] = completion_text(
            runner.tokenizer, tokens.get(name, []), stops, result["finish_reason"]
        )


def record(
    scenario: Scenario,
    *,
    dtype: str = "bfloat16",
    weights: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    debug: bool = False,
    gpu: GpuSettings = NO_GPU_SETTINGS,
) -> Run:
    """Run a scenario on its real model and give the run, labelled RECORDED.

    gpu: with a `gpu_memory_utilization` the run's scenario has the number of blocks that fitted.

    Raises UnsupportedError, ModelError.
    """
    if scenario.model == "none":
        raise UnsupportedError(
            'model: the scenario names none; give "model": "smollm2-135m-instruct", or use simulate'
        )
    check_supported(scenario)
    runner, engine_config = load_runner(
        scenario.model,
        scenario.engine,
        dtype=dtype,
        device=device,
        threads=threads,
        seed=scenario.seed,
        weights=weights,
        gpu=gpu,
        max_model_len=scenario.engine.max_model_len,
    )
    scenario = dataclasses.replace(scenario, engine=engine_config)
    _warm_up(runner, scenario)
    runner.capture_graphs()
    run = Engine(scenario, runner, label="RECORDED", debug=debug).run_to_end()
    add_texts(run, runner)
    return run


def _warm_up(runner: ModelRunner, scenario: Scenario) -> None:
    """Compute two steps for nothing: first-use costs must not stand in the first step's timing."""
    config = dataclasses.replace(
        scenario.engine, prefix_cache="off", max_model_len=8, max_num_batched_tokens=8
    )
    request = RequestSpec(id="warm-up", prompt_tokens=(0,), max_tokens=2, ignore_eos=True)
    Engine(Scenario(engine=config, requests=(request,)), runner, trace=False).finish()
    runner.bind(**scenario.engine.kv_pool, seed=scenario.seed)


def verify_tokens(run: Run) -> None:
    """Run the model again, on the recorded device, dtype and kernels; the tokens must be the same.

    Texts must be too, and log-probabilities within 1e-3: a rerun computes the same numbers, but
    another processor or number of threads may add float32 numbers up in another order. (In bf16
    nothing lies between equal and different: a logit's last digit is worth more than that.)

    Raises MismatchError for other tokens, UnsupportedError where this machine cannot do it.
    """
    source = run.header["source"]
    if source["model"] == "none":
        raise UnsupportedError("the run has no model: its tokens are scripted")
    kind = "cpu" if source["device"] == "CPU" else "cuda"
    weights = "int8" if source.get("weights") == "int8" else None
    # A graph computes a padded batch, whose products cuBLAS may add up in another order.
    gpu = GpuSettings(enforce_eager=not source.get("decode_graphs"))
    again = record(run.scenario, dtype=source["dtype"], weights=weights, device=kind, gpu=gpu)
    if again.header["source"]["model_sha256"] != source["model_sha256"]:
        raise MismatchError("the weights differ from those that were recorded")
    if again.header["sliding_window"] != run.header.get("sliding_window"):
        raise MismatchError("header.sliding_window is not the model's")
    for name in ("kv_bytes_per_token", "kv_cache_bytes", "kv_format"):
        old, new = run.header.get(name), again.header.get(name)
        if name in run.header and old != new:
            raise MismatchError(f"header.{name}: recorded {old}, the model has {new}")
    if again.header["source"]["device"] != source["device"]:
        raise UnsupportedError(
            f"recorded on {source['device']}, this is {again.header['source']['device']}"
        )
    # In float32 both give the same tokens; in bfloat16 each rounds in other places.
    used, used_again = (h["source"].get("kernels", "torch") for h in (run.header, again.header))
    if used != used_again and source["dtype"] != "float32":
        raise UnsupportedError(
            f"recorded with {used} kernels, run here with {used_again}: in {source['dtype']} they "
            "round in different places"
        )
    tokens, tokens_again = output_tokens(run), output_tokens(again)
    for name in sorted({*tokens, *tokens_again}):
        if tokens.get(name) != tokens_again.get(name):
            raise MismatchError(f"{name}: the model samples other tokens than were recorded")
        result, result_again = run.results.get(name, {}), again.results.get(name, {})
        for key in ("finish_reason", "text"):
            old, new = result.get(key), result_again.get(key)
            if old != new:
                raise MismatchError(
                    f"{name}: the recorded {key} is {str(old)[:80]!r}, the model gives "
                    f"{str(new)[:80]!r}"
                )
        compare_logprobs(name, result, result_again)
