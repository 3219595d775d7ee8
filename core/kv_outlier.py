"""One head with large keys, in a model that computes the same: what a shared scale then costs.

Multiply the rows of W_k that make a KV head's keys by f, and divide the rows of W_q that make the
queries of its group by f. Every score q·k stays what it was, and with f a power of two every number
stays exact in floating point: the model is the same function, bit for bit, with its own cache. So
whatever a quantised cache loses more than before, it loses by its scales.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from core.errors import UnsupportedError
from core.kv_quality import KVQuality
from core.kv_spec import KVDtype
from core.model.checkpoint_files import weight_files
from core.model.config import ModelConfig
from core.model.model_runner import ModelRunner

FACTORS = (1, 4, 16, 64)
FORMATS: tuple[tuple[str, str], ...] = (
    ("int8", "per_tensor"),
    ("int8", "per_head_static"),
    ("int8", "per_token_head"),
    ("fp8_e4m3", "per_tensor"),
)


@contextmanager
def with_outlier_head(directory: Path, layer: int, head: int, factor: int) -> Iterator[Path]:
    """A checkpoint directory of the same model, there for a while. head: of the KV heads.

    Raises UnsupportedError where queries and keys are normalised, or have a bias, after W_q and
    W_k: a factor would not pass through.
    """
    config = ModelConfig.from_dir(directory)
    if config.qk_norm or config.qkv_bias:
        raise UnsupportedError("a head's keys can be made large only without norms and biases")
    d, group = config.head_dim, config.group_size
    rows = {
        f"model.layers.{layer}.self_attn.k_proj.weight": (head * d, (head + 1) * d, float(factor)),
        f"model.layers.{layer}.self_attn.q_proj.weight": (
            head * group * d,
            (head + 1) * group * d,
            1 / factor,
        ),
    }
    with TemporaryDirectory(prefix="kv-scope-") as made:
        target = Path(made) / directory.name
        target.mkdir()
        weights = weight_files(directory)
        for path in directory.iterdir():
            if path.is_file() and path not in weights and path.name != "manifest.json":
                shutil.copy(path, target / path.name)
        for path in weights:
            with safe_open(path, framework="pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            for name, (start, stop, by) in rows.items():
                if name in tensors:
                    tensors[name][start:stop] *= by
            save_file(tensors, target / path.name)
        yield target


def measure(runner: ModelRunner, threads: int | None = None) -> dict[str, Any]:
    """The `outlier` section of `kv-quality/1`: key errors of the head and of the others in its
    layer, and what the text loses. The head lies in the middle of the model.

    Raises UnsupportedError for a model with one KV head alone, and as `with_outlier_head` does.
    """
    layer = runner.config.num_hidden_layers // 2
    head = runner.config.num_key_value_heads - 1
    if head == 0:
        raise UnsupportedError("an outlier head needs others beside it, and there is one KV head")
    quality = KVQuality(runner)
    rows = []
    for factor in FACTORS:
        with with_outlier_head(runner.directory, layer, head, factor) as directory:
            other = ModelRunner(
                directory, runner.source["dtype"], runner.device.type, 1, 16, threads
            )
        own = quality.read("model", other)
        if own.kl.max() > 0:
            raise ArithmeticError("the model with an outlier head is not the same function")
        for form, scale in FORMATS:
            kv_dtype: KVDtype = {"format": form, "scale": scale}
            error = quality.errors(kv_dtype, other)["key"][layer]
            others = torch.cat((error[:head], error[head + 1 :]))
            reading = quality.read(kv_dtype, other)
            rows.append(
                {
                    "factor": factor,
                    "format": form,
                    "scale": scale,
                    "key_error_outlier": float(f"{error[head].item():.5g}"),
                    "key_error_others": float(f"{others.mean().item():.5g}"),
                    "perplexity": float(f"{reading.nll.mean().exp().item():.5g}"),
                    "kl": float(f"{reading.kl.mean().item():.5g}"),
                }
            )
    return {"layer": layer, "head": head, "rows": rows}
