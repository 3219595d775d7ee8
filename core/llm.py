"""`LLM`: the engine with a real model, in the field's calling convention.

    llm = LLM(model="smollm2-135m-instruct", block_size=16, num_blocks=512, prefix_cache="radix")
    outs = llm.generate(["Once upon"], SamplingParams(temperature=0, max_tokens=64, n=2))
    outs[0].outputs[0].text, outs[0].num_cached_tokens, llm.last_run

One engine lives as long as its `LLM`: a later call finds the prefixes that an earlier one cached,
and `last_run` is the run of the engine's whole life so far.
"""

from __future__ import annotations

from collections.abc import Sequence as Listing
from pathlib import Path
from time import perf_counter
from traceback import clear_frames
from typing import Any
from weakref import WeakValueDictionary

from core.config import EngineConfig
from core.engine import Engine
from core.errors import (
    CacheInUseError,
    RequestError,
    ScenarioError,
    UnsupportedError,
)
from core.interrupts import interrupts_deferred
from core.model.load_runner import GpuSettings, load_runner
from core.model.stop_strings import completion_text
from core.outputs import (
    CompletionOutput,
    RequestOutput,
    SamplingParams,
    shown_logprobs,
)
from core.record import add_texts, check_supported
from core.request import Request, Sequence
from core.scenario import RequestSpec, Scenario
from core.stream import TextStream
from core.trace.run import Run

Prompt = str | Listing[int] | dict[str, Any]

_DEFAULTS: dict[str, Any] = {
    "num_blocks": 512,
    "block_size": 16,
    "max_num_seqs": 64,
    "max_num_batched_tokens": 512,
}


class LLM:
    """A model, a block pool and a scheduler. Not for use from several threads.

    model: a catalogue name, a checkpoint directory or a GGUF file. dtype: "bfloat16" or "float32".
    weights: "int8" for matrices in 8 bits, on the CPU. device: "cpu", "cuda" or None for the best
    at hand. seed: of the engine. trace: keep what `last_run` needs (it grows with every token).
    debug: check every step.
    gpu_memory_utilization: the share of a GPU's memory that weights, a step and the pool may take
    together; it decides `num_blocks`. enforce_eager: no CUDA graphs (slower; a step's parts are
    timed). kv_cache_memory_bytes: of the pool, on any device, instead of `num_blocks`.
    **engine: fields of `EngineConfig`; `max_model_len` defaults to what model and pool allow.

    Raises ScenarioError, UnsupportedError, ModelNotFound and the others of `core.model.errors`.
    """

    def __init__(
        self,
        model: str | Path = "smollm2-135m-instruct",
        *,
        dtype: str = "bfloat16",
        weights: str | None = None,
        device: str | None = None,
        threads: int | None = None,
        seed: int = 0,
        trace: bool = True,
        debug: bool = False,
        gpu_memory_utilization: float | None = None,
        enforce_eager: bool = False,
        kv_cache_memory_bytes: int | None = None,
        **engine: Any,
    ) -> None:
        if threads is not None and threads < 1:
            raise ScenarioError("threads", f"{threads} is less than 1")
        for name, size in (
            ("gpu_memory_utilization", gpu_memory_utilization),
            ("kv_cache_memory_bytes", kv_cache_memory_bytes),
        ):
            if size is not None and "num_blocks" in engine:
                raise ScenarioError("num_blocks", f"{name} decides it: give one of them")
        self._trace, self._debug = trace, debug
        settings = {**_DEFAULTS, **engine}
        self._empty = _first_settings(model, seed, settings)  # before the weights are loaded
        config = self._empty.engine
        self.runner, config = load_runner(
            model,
            config,
            dtype=dtype,
            device=device,
            threads=threads,
            seed=seed,
            weights=weights,
            gpu=GpuSettings(gpu_memory_utilization, enforce_eager),
            max_model_len=engine.get("max_model_len"),
            kv_cache_memory_bytes=kv_cache_memory_bytes,
        )
        settings["num_blocks"] = config.num_blocks
        if "max_model_len" not in engine:
            most = config.num_blocks * config.block_size
            if not (config.kv_cache and config.chunked_prefill):  # a step computes prompts whole
                limit = config.max_num_batched_tokens
                most = min(most, limit) if config.kv_cache else limit
            settings["max_model_len"] = min(self.runner.max_model_len, most)
        self._empty = _settings(model, seed, settings)
        self.runner.capture_graphs()
        self.engine = self._new_engine()
        # A stream that nobody holds any more is nobody's: it must not be kept alive here.
        self._streams: WeakValueDictionary[Request, TextStream] = WeakValueDictionary()

    @property
    def config(self) -> EngineConfig:
        return self.engine.config

    @property
    def last_run(self) -> Run:
        """All steps since the engine was made or reset, as a run with its texts.

        Raises UnsupportedError with `trace=False`.
        """
        if not self._trace:
            raise UnsupportedError("last_run needs trace=True")
        run = self.engine.run()
        add_texts(run, self.runner)
        return run

    def reset(self) -> None:
        """A fresh engine: empty pool, empty prefix cache, step 0. What still ran is forgotten."""
        self.runner.bind(**self.config.kv_pool, seed=self._empty.seed)
        self.engine = self._new_engine()
        self._streams.clear()

    def reset_prefix_cache(self) -> None:
        """Forget every cached prefix: a fresh engine, with a run of its own.

        Raises CacheInUseError while requests are running.
        """
        if not self.engine.done:
            raise CacheInUseError(f"{self.engine.kv.usage()['in_use']} blocks are in use")
        self.reset()

    def generate(
        self,
        prompts: Prompt | Listing[Prompt],
        sampling_params: SamplingParams | Listing[SamplingParams] | None = None,
    ) -> list[RequestOutput]:
        """Serve prompts together; answers in their order.

        A prompt is a text, a list of token ids, or a dict with `prompt` or `prompt_token_ids`; one
        alone need not be put into a list.

        Raises RequestError (a ValueError) at once, before anything runs, for a prompt that can
        never be served: empty, too long, or larger than the pool. If it is interrupted, its
        requests are cancelled; if a step fails, the engine is reset.
        """
        started = perf_counter()
        submitted = self._submit(prompts, sampling_params)
        requests = [request for request, _ in submitted]
        times: dict[str, list[float]] = {}
        try:
            while not all(request.ended for request in requests):
                grown, now = self._step(), perf_counter() - started
                # All beams of a request get a token in the same steps, whatever becomes of them.
                for name in {seq.request.id if seq.request.beams else seq.id for seq in grown}:
                    times.setdefault(name, []).append(now)
        except BaseException:
            self._abandon(requests)
            raise
        return [self._output(request, params, times) for request, params in submitted]

    def stream(self, prompt: Prompt, sampling_params: SamplingParams | None = None) -> TextStream:
        """Serve one prompt, one delta per token. Closing the stream cancels the request.

        The request is submitted at once (RequestError as in `generate`); the engine steps when a
        delta is asked for. Several streams may be read in turn: they share its steps.
        """
        if sampling_params is not None and sampling_params.beam_width:
            raise RequestError("a beam search cannot be streamed: its text is known at the end")
        ((request, params),) = self._submit([prompt], sampling_params)
        stream = TextStream(self, request, params)
        self._streams[request] = stream
        return stream

    def _step(self) -> list[Sequence]:
        """One engine step; tokens of streamed requests go to their queues, whoever asked for it."""
        with interrupts_deferred():  # a step cut in half would cost the whole engine
            try:
                grown = self.engine.step()
            except BaseException as exc:
                # The pool goes with the engine, and a new one must fit: no frame may hold the old.
                clear_frames(exc.__traceback__)
                raise
        for seq in grown:
            stream = self._streams.get(seq.request)
            if stream is not None:
                stream.take(seq)
        return grown

    def _abandon(self, requests: list[Request]) -> None:
        """End requests that nobody waits for any more, and give their blocks back."""
        if self.engine.failed:
            self.reset()
            return
        for request in requests:
            self.engine.cancel(request)
        while not all(request.ended for request in requests):
            self._step()

    def _new_engine(self) -> Engine:
        return Engine(self._empty, self.runner, label="LIVE", trace=self._trace, debug=self._debug)

    def _submit(
        self,
        prompts: Prompt | Listing[Prompt],
        sampling_params: SamplingParams | Listing[SamplingParams] | None,
    ) -> list[tuple[Request, SamplingParams]]:
        texts = _as_list(prompts)
        if sampling_params is None or isinstance(sampling_params, SamplingParams):
            params = [sampling_params or SamplingParams()] * len(texts)
        elif isinstance(sampling_params, Listing):
            params = list(sampling_params)
        else:
            raise RequestError("sampling_params: give SamplingParams, or a list of them")
        if len(params) != len(texts):
            raise RequestError(f"{len(texts)} prompts, but {len(params)} sampling parameters")
        first = len(self.engine.requests)
        try:
            requests = self.engine.add(
                [
                    _spec(str(first + i), text, param, self.engine.num_steps)
                    for i, (text, param) in enumerate(zip(texts, params, strict=True))
                ]
            )
        except ScenarioError as exc:
            raise RequestError(str(exc)) from None
        return list(zip(requests, params, strict=True))

    def _output(
        self, request: Request, params: SamplingParams, times: dict[str, list[float]]
    ) -> RequestOutput:
        asked = params.prompt_logprobs
        return RequestOutput(
            request_id=request.id,
            prompt=request.spec.prompt,
            prompt_token_ids=request.prompt_tokens.tolist(),
            outputs=[
                self._completion(index, seq, params, times)
                for index, seq in enumerate(_answers(request))
            ],
            num_cached_tokens=request.num_cached_tokens or 0,
            prompt_logprobs=(
                None if asked is None else [None, *shown_logprobs(request.prompt_logprobs, asked)]
            ),
        )

    def _completion(
        self, index: int, seq: Sequence, params: SamplingParams, times: dict[str, list[float]]
    ) -> CompletionOutput:
        is_beam = seq.request.beams is not None
        of_tokens = times.get(seq.request.id if is_beam else seq.id, [])
        out = CompletionOutput(
            index=index,
            text=completion_text(
                self.runner.tokenizer,
                seq.output_tokens,
                seq.request.stop_strings,
                seq.finish_reason,
            ),
            token_ids=seq.output_tokens,
            finish_reason=seq.finish_reason,
            times=of_tokens[: seq.num_output_tokens],
            score=seq.beam_score,
        )
        if params.logprobs is not None:
            out.logprobs = shown_logprobs(seq.logprobs, params.logprobs)
            out.cumulative_logprob = sum(entry.logprob for entry in seq.logprobs)
        if is_beam:
            out.cumulative_logprob = seq.cumulative_logprob
        return out


def _answers(request: Request) -> list[Sequence]:
    """Its sequences by index; of a beam search the hypotheses, best first."""
    if request.beams is not None and request.beams.hypotheses:
        return request.beams.hypotheses
    return request.sequences


def _as_list(prompts: Prompt | Listing[Prompt]) -> list[Any]:
    """One prompt, or several, as a list. Raises RequestError."""
    if isinstance(prompts, str | dict):
        return [prompts]
    if not isinstance(prompts, Listing):
        raise RequestError("a prompt is a text, or a list of token ids")
    if len(prompts) > 0 and all(type(token) is int for token in prompts):
        return [prompts]
    return list(prompts)


def _first_settings(model: str | Path, seed: int, engine: dict[str, Any]) -> Scenario:
    """What can be checked before the model says how long a context it takes."""
    budget = engine.get("max_num_batched_tokens")
    shortest = {} if "max_model_len" in engine else {"max_model_len": 1}
    if isinstance(budget, int) and budget < 1:
        shortest = {}  # then the budget is what is wrong
    return _settings(model, seed, {**engine, **shortest})


def _settings(model: str | Path, seed: int, engine: dict[str, Any]) -> Scenario:
    """A scenario without requests. Raises ScenarioError, UnsupportedError."""
    scenario = Scenario.from_dict(
        {"schema": "scenario/1", "seed": seed, "model": str(model), "engine": engine}
    )
    check_supported(scenario)
    return scenario


def _spec(name: str, prompt: Any, params: SamplingParams, step: int) -> RequestSpec:
    if isinstance(prompt, dict):
        if len(prompt) != 1 or not prompt.keys() <= {"prompt", "prompt_token_ids"}:
            raise RequestError("a prompt's dict has one key: prompt, or prompt_token_ids")
        ((key, prompt),) = prompt.items()
        if (key == "prompt") != isinstance(prompt, str):
            raise RequestError("prompt is a text, prompt_token_ids a list of token ids")
    is_text = isinstance(prompt, str)
    if not is_text and not (
        isinstance(prompt, Listing) and all(type(token) is int for token in prompt)
    ):
        raise RequestError("a prompt is a text, or a list of token ids")
    if not isinstance(params, SamplingParams):
        raise RequestError("sampling_params: give SamplingParams, or a list of them")
    return RequestSpec(
        id=name,
        arrive_step=step,
        prompt=prompt if is_text else None,
        prompt_tokens=None if is_text else tuple(prompt),
        max_tokens=params.max_tokens,
        n=params.n,
        temperature=params.temperature,
        seed=params.seed,
        stop_token_ids=_tuple("stop_token_ids", params.stop_token_ids),
        ignore_eos=params.ignore_eos,
        beam_width=params.beam_width,
        length_penalty=params.length_penalty,
        early_stopping=params.early_stopping,
        top_k=params.top_k,
        top_p=params.top_p,
        min_p=params.min_p,
        repetition_penalty=params.repetition_penalty,
        stop=(params.stop,) if isinstance(params.stop, str) else _tuple("stop", params.stop or ()),
        logprobs=_num_tops(params.logprobs),
        prompt_logprobs=_num_tops(params.prompt_logprobs),
    )


def _tuple(name: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, str) or not isinstance(value, Listing):
        raise RequestError(f"{name}: give a list, not {value!r}")
    return tuple(value)


def _num_tops(logprobs: int | None) -> int:
    """A scenario's 0 means none at all, so 0 here (the token's own only) asks for one."""
    if logprobs is None:
        return 0
    return 1 if type(logprobs) is int and logprobs == 0 else logprobs
