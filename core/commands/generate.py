"""`generate`: stream text from the real model."""

from __future__ import annotations

import argparse
import sys
from itertools import pairwise
from time import perf_counter
from typing import Any

from core.commands.common import (
    add_cache_options,
    add_gpu_options,
    positive,
    prepare_model,
    print_json,
)
from core.errors import KVScopeError


def add(commands: Any) -> None:
    parser = commands.add_parser("generate", help="stream text from the real model")
    parser.add_argument("prompt", help="the text to go on from; - reads standard input")
    parser.add_argument(
        "--model", default="smollm2-135m-instruct", help="a name, a directory or a .gguf file"
    )
    parser.add_argument("--max-tokens", type=positive, default=64)
    parser.add_argument("--temperature", type=float, default=0.0, help="0 (the default) is greedy")
    parser.add_argument(
        "--top-k", type=int, default=0, metavar="K", help="draw from the K likeliest"
    )
    parser.add_argument(
        "--top-p", type=float, default=1.0, metavar="P", help="draw from the likeliest that weigh P"
    )
    parser.add_argument(
        "--min-p", type=float, default=0.0, metavar="P", help="leave out what is less than P × best"
    )
    parser.add_argument(
        "--repetition-penalty", type=float, default=1.0, metavar="R", help="above 1: repeat less"
    )
    parser.add_argument("--seed", type=int, help="of the random numbers")
    parser.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="end before it; repeatable"
    )
    parser.add_argument(
        "--logprobs", type=int, metavar="N", help="with --json: name the N likeliest at each token"
    )
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--weights", choices=["int8"], help="8 bits; default: of the dtype")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="default: the best at hand")
    parser.add_argument("--threads", type=positive, help="CPU threads; default: torch's choice")
    add_cache_options(parser)
    add_gpu_options(parser)
    parser.add_argument("--prefix-cache", choices=["radix", "hash", "off"], default="radix")
    parser.add_argument(
        "--chat", action="store_true", help="put the prompt into the model's chat template"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.logprobs is not None and not args.json:
        raise KVScopeError("--logprobs goes with --json")
    text = _prompt(args.prompt)
    from core.llm import LLM
    from core.outputs import SamplingParams  # here, because it loads torch

    prepare_model(args.model)
    llm = LLM(
        args.model,
        dtype=args.dtype,
        weights=args.weights,
        device=args.device,
        threads=args.threads,
        gpu_memory_utilization=args.gpu_memory_utilization,
        enforce_eager=args.enforce_eager,
        kv_cache_memory_bytes=args.kv_cache_memory_bytes,
        kv_dtype=args.kv_dtype,
        prefix_cache=args.prefix_cache,
    )
    prompt: str | list[int] = text
    if args.chat:
        tokenizer = llm.runner.tokenizer
        text = tokenizer.apply_chat_template([{"role": "user", "content": text}])
        # The template writes the control tokens itself, the one at the beginning among them.
        prompt = tokenizer.encode(text, add_special_tokens=False)
    params = SamplingParams(
        temperature=args.temperature,
        max_tokens=args.max_tokens,
        seed=args.seed,
        top_k=args.top_k,
        top_p=args.top_p,
        min_p=args.min_p,
        repetition_penalty=args.repetition_penalty,
        stop=args.stop,
        logprobs=args.logprobs,
    )
    started = perf_counter()
    times: list[float] = []
    pieces: list[str] = []
    token_ids: list[int] = []
    logprobs: list[Any] = []
    finish_reason = None
    for delta in llm.stream(prompt, params):
        times.append(perf_counter() - started)
        pieces.append(delta.text)
        token_ids.append(delta.token_id)
        if delta.logprobs is not None:
            logprobs.append(delta.logprobs.to_dict())
        finish_reason = delta.finish_reason
        if not args.json:
            print(delta.text, end="", flush=True)
    if not args.json:
        print()
        return 0
    request = llm.engine.requests[-1]
    answer: dict[str, Any] = {
        "text": "".join(pieces),
        "token_ids": token_ids,
        "num_prompt_tokens": len(request.prompt_tokens),
        "num_cached_tokens": request.num_cached_tokens or 0,
        "ttft_s": round(times[0], 6),
        "itl_s": [round(b - a, 6) for a, b in pairwise(times)],
        "finish_reason": finish_reason,
        "source": llm.runner.source,
    }
    if args.logprobs is not None:
        answer["logprobs"] = logprobs
    print_json(answer)
    return 0


def _prompt(argument: str) -> str:
    if argument != "-":
        return argument
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as exc:
        raise KVScopeError(f"standard input is not UTF-8 text: byte {exc.start}") from None
