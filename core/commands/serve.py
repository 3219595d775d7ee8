"""`serve`: the engine process."""

from __future__ import annotations

import argparse
import ipaddress
import os
import threading
from typing import Any

from core.commands.common import add_cache_options, add_gpu_options, positive, prepare_model
from core.errors import KVScopeError

TOKEN_VARIABLE = "KV_SCOPE_ENGINE_TOKEN"


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "serve",
        help="the engine process: one model over HTTP",
        description="Load a model and serve it. The first line on standard output is JSON and says "
        f"where it listens. The bearer token is taken from ${TOKEN_VARIABLE}; on this machine only "
        "(the default) it may be left out, and is then made up and printed.",
    )
    parser.add_argument(
        "--model", default="smollm2-135m-instruct", help="a name, a directory or a .gguf file"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=8601, help="0: any that is free")
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--weights", choices=["int8"], help="8 bits; default: of the dtype")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="default: the best at hand")
    parser.add_argument("--threads", type=positive, help="CPU threads; default: torch's choice")
    add_cache_options(parser)
    add_gpu_options(parser)
    parser.add_argument("--seed", type=int, default=0, help="of requests without one")
    for name, what in (
        ("num-blocks", "blocks of the live engine's pool"),
        ("block-size", "tokens of a block"),
        ("max-num-seqs", "sequences at once"),
        ("max-num-batched-tokens", "tokens of a step"),
        ("max-model-len", "tokens of a sequence"),
    ):
        parser.add_argument(f"--{name}", type=positive, help=what)
    parser.add_argument("--prefix-cache", choices=["radix", "hash", "off"])
    parser.add_argument(
        "--async-scheduling",
        action="store_true",
        help="decide a step while the device computes the one before; for a GPU",
    )
    parser.add_argument("--max-live", type=positive, default=64, help="live requests at once")
    parser.add_argument("--max-queued", type=positive, default=8, help="scenarios that may wait")
    parser.add_argument(
        "--max-behind", type=positive, default=1024, help="steps that a reader may be behind"
    )
    parser.add_argument(
        "--send-timeout", type=positive, default=20, help="seconds until a reader is given up"
    )
    parser.add_argument(
        "--step-timeout", type=positive, default=60, help="seconds after which a step hangs"
    )
    parser.add_argument(
        "--max-waiting", type=positive, default=512, help="requests of /v1 that may wait"
    )
    parser.add_argument(
        "--drain-timeout",
        type=positive,
        default=30,
        help="seconds that what runs may go on after SIGTERM",
    )
    parser.add_argument("--nice", type=int, default=0, help="give way to other processes (0 … 19)")
    parser.add_argument(
        "--until-stdin-closes", action="store_true", help="end when standard input does"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    token = os.environ.get(TOKEN_VARIABLE) or None
    if token is None and not _is_loopback(args.host):
        raise KVScopeError(
            f"{args.host} can be reached from other machines: put a token into ${TOKEN_VARIABLE}"
        )
    if args.nice and hasattr(os, "nice"):
        os.nice(min(19, max(0, args.nice)))
    for name in ("gpu_memory_utilization", "kv_cache_memory_bytes"):
        if getattr(args, name) is not None and args.num_blocks is not None:
            option = f"--{name.replace('_', '-')}"
            raise KVScopeError(f"{option} decides the number of blocks: give one of them")
    prepare_model(args.model)
    from core.model.load_runner import GpuSettings  # here, because it loads torch
    from core.server.limits import Limits
    from core.server.run import serve
    from core.server.settings import ServeSettings

    names = ("num_blocks", "block_size", "max_num_seqs", "max_num_batched_tokens", "max_model_len")
    engine = {
        name: value
        for name in (*names, "prefix_cache")
        if (value := getattr(args, name)) is not None
    }
    engine["kv_dtype"] = args.kv_dtype
    engine["async_scheduling"] = args.async_scheduling
    settings = ServeSettings.make(
        args.model,
        engine,
        seed=args.seed,
        dtype=args.dtype,
        weights=args.weights,
        device=args.device,
        threads=args.threads,
        gpu=GpuSettings(args.gpu_memory_utilization, args.enforce_eager),
        kv_cache_memory_bytes=args.kv_cache_memory_bytes,
    )
    limits = Limits(
        max_live=args.max_live,
        max_queued=args.max_queued,
        max_behind=args.max_behind,
        send_s=args.send_timeout,
        stall_s=args.step_timeout,
        max_waiting=args.max_waiting,
        drain_s=args.drain_timeout,
    )
    if args.until_stdin_closes:
        threading.Thread(target=_end_with_stdin, name="stdin", daemon=True).start()
    return serve(settings, limits, args.host, args.port, token)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _end_with_stdin() -> None:
    """Whoever started this process has gone, however it went: its end of the pipe is closed."""
    while os.read(0, 4096):
        pass
    os._exit(0)
