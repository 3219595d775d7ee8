"""What a quantised KV cache costs in quality, measured on this machine with the real engine.

For each format: the shipped text `core/data/reading.txt` is read with everything behind a token in
that format, and every next-token distribution is held against the one that the same model gives
with its own cache. Then a few prompts are continued greedily, and the first other token is noted.

    perplexity   e to the mean negative log-likelihood of the text's tokens
    nll_change   how much that mean rises, nats a token, with its standard error over the tokens
    kl           mean over positions of KL(p‖q) = Σ p·ln(p/q), nats: p with the model's own cache
    top1         share of positions whose likeliest token stays the same

A text may lose nothing in perplexity and still come out otherwise: the first token in which two
distributions of nearly equal height change places leads somewhere else.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from core.engine import Engine
from core.kv_spec import KVDtype
from core.model.model_runner import ModelRunner
from core.model.read_text import BLOCK_SIZE, hidden_states_of
from core.scenario import Scenario
from core.trace.divergence import first_difference
from core.trace.run import revision

SCHEMA = "kv-quality/1"
TEXT = Path(__file__).resolve().parent / "data" / "reading.txt"

FORMATS: dict[str, KVDtype] = {
    "the model's own": "model",
    "fp8, per tensor, calibrated": "fp8",
    "fp8, per tensor, scale 1": {
        "format": "fp8_e4m3", "scale": "per_tensor", "calibration": "one",
    },
    "fp8, per token and head": "fp8_per_token_head",
    "int8, per token and head": "int8_per_token_head",
    "int8, per head": {"format": "int8", "scale": "per_head_static"},
    "int8, per tensor": {"format": "int8", "scale": "per_tensor"},
    "int4, per token and head": {"format": "int4", "scale": "per_token_head"},
    "int4, per head": {"format": "int4", "scale": "per_head_static"},
    "int4, per tensor": {"format": "int4", "scale": "per_tensor"},
}  # fmt: skip
"""Names as shown, and what each stores. Layer mixes depend on the model (`layer_mixes`)."""

PROMPTS = [
    {
        "id": "prose",
        "text": "The lighthouse had been dark for eleven years when the letter came. It said",
    },
    {
        "id": "explanation",
        "text": "Question: Why does bread rise when it is baked?\nAnswer:",
    },
    {
        "id": "code",
        "text": "def is_prime(n):\n    \"\"\"Whether n is a prime number.\"\"\"\n",
    },
    {
        "id": "arithmetic",
        "text": "Question: A box holds 12 eggs. How many eggs are in 7 boxes?\n"
        "Answer: Let us count step by step.",
    },
]  # fmt: skip
MAX_TOKENS = 96


def layer_mixes(num_layers: int) -> dict[str, KVDtype]:
    """A third of the layers in int4, the others in int8: the outer ones, or the inner ones. None
    of a model of fewer than 6."""
    sixth = num_layers // 6
    if not sixth:
        return {}
    outer = {f"0-{sixth - 1}": "int4", f"{num_layers - sixth}-{num_layers - 1}": "int4"}
    first = (num_layers - 2 * sixth) // 2
    inner = {f"{first}-{first + 2 * sixth - 1}": "int4"}
    return {
        "int8, int4 in the outer layers": {"format": "int8", "layers": outer},
        "int8, int4 in the inner layers": {"format": "int8", "layers": inner},
    }


@dataclasses.dataclass(slots=True)
class Reading:
    """A text read with one format: log-probabilities of every position's next token."""

    nll: torch.Tensor
    """[n − 1] float64, nats, of the tokens that followed."""
    kl: torch.Tensor
    """[n − 1] float64, nats."""
    same: torch.Tensor
    """[n − 1] bool: whether the likeliest token is that of the model's own cache."""
    kv_bytes_per_token: int
    """Bytes of a token in the cache, its scales included."""


class KVQuality:
    """Measures formats on one runner. text: what is read; by default the shipped one, in so many
    tokens. The runner's pool is lent, and comes back as it was."""

    def __init__(self, runner: ModelRunner, text: str | None = None, limit: int = 2048) -> None:
        self.runner = runner
        shipped = TEXT.read_text(encoding="utf-8")
        self.text = shipped if text is None else text
        most = min(limit, runner.max_model_len)
        self.tokens = runner.tokenize(self.text)[:most]
        self._own: list[torch.Tensor] = []
        with self._pool("model"):
            self._own = [_log_probs(logits) for logits in self._logits()]

    def read(self, kv_dtype: KVDtype, runner: ModelRunner | None = None) -> Reading:
        """The text with another cache. runner: of other weights, by default the own ones."""
        runner = runner or self.runner
        following = torch.tensor(self.tokens[1:])
        nll: list[torch.Tensor] = []
        kl: list[torch.Tensor] = []
        same: list[torch.Tensor] = []
        at = 0
        with self._pool(kv_dtype, runner):
            per_token = runner.kv_bytes_per_token
            for own, logits in zip(self._own, self._logits(runner), strict=True):
                got = _log_probs(logits)
                kl.append((own.exp() * (own - got)).sum(-1, dtype=torch.float64))
                same.append(own.argmax(-1) == got.argmax(-1))
                next_ones = following[at : at + len(got)]  # the text's last token has none
                nll.append(-got[: len(next_ones)].gather(1, next_ones[:, None])[:, 0].double())
                at += len(got)
        count = len(following)
        return Reading(torch.cat(nll), torch.cat(kl)[:count], torch.cat(same)[:count], per_token)

    def row(self, name: str, kv_dtype: KVDtype, own: Reading) -> dict[str, Any]:
        """One format's figures. own: the reading with the model's own cache."""
        reading = self.read(kv_dtype)
        change = reading.nll - own.nll
        return {
            "name": name,
            "kv_dtype": kv_dtype,
            "kv_bytes_per_token": reading.kv_bytes_per_token,
            "perplexity": _digits(reading.nll.mean().exp()),
            "nll_change": _digits(change.mean()),
            "nll_change_se": _digits(change.std() / math.sqrt(len(change))),
            "kl": _digits(reading.kl.mean()),
            "kl_max": _digits(reading.kl.max()),
            "top1": _digits(reading.same.double().mean()),
        }

    def continuations(self, kv_dtype: KVDtype) -> dict[str, list[int]]:
        """Greedy tokens of each of PROMPTS, all in one batch."""
        requests = [
            {
                "id": prompt["id"],
                "prompt": prompt["text"],
                "max_tokens": MAX_TOKENS,
                "ignore_eos": True,
            }
            for prompt in PROMPTS
        ]
        engine = {
            "num_blocks": 128,
            "block_size": BLOCK_SIZE,
            "max_num_seqs": len(PROMPTS),
            "max_num_batched_tokens": 512,
            "max_model_len": 256,
            "kv_dtype": kv_dtype,
        }
        scenario = Scenario.from_dict(
            {"schema": "scenario/1", "model": "any", "engine": engine, "requests": requests}
        )
        with self.runner.lent(**scenario.engine.kv_pool):
            live = Engine(scenario, self.runner, trace=False)
            live.finish()
        return {name: seq.output_tokens for name, seq in live.sequences().items()}

    def _logits(self, runner: ModelRunner | None = None) -> Iterator[torch.Tensor]:
        runner = runner or self.runner
        for hidden in hidden_states_of(runner, self.tokens):
            yield runner.compute_logits(hidden)

    def _pool(self, kv_dtype: KVDtype, runner: ModelRunner | None = None, **more: Any) -> Any:
        num_blocks = -(-len(self.tokens) // BLOCK_SIZE)
        return (runner or self.runner).lent(num_blocks, BLOCK_SIZE, kv_dtype=kv_dtype, **more)

    def errors(self, kv_dtype: KVDtype, runner: ModelRunner) -> dict[str, torch.Tensor]:
        """Relative error of the text's keys and values: `key`, `value` [layers, n_kv_heads]."""
        with self._pool(kv_dtype, runner, measure_kv_error=True):
            for _ in hidden_states_of(runner, self.tokens):
                pass
            sums = runner.take_kv_error()
        assert sums is not None
        return {
            side: (torch.tensor(sums[side]) / torch.tensor(sums[f"{side}_squares"])).sqrt()
            for side in ("key", "value")
        }


def measure(runner: ModelRunner, progress: Any = None) -> dict[str, Any]:
    """All formats and mixes, and int4 in one layer at a time: `kv-quality/1`, without `outlier`."""
    quality = KVQuality(runner)
    num_layers = runner.config.num_hidden_layers
    own = quality.read("model")
    expected = quality.continuations("model")
    rows = []
    for name, kv_dtype in {**FORMATS, **layer_mixes(num_layers)}.items():
        row = quality.row(name, kv_dtype, own)
        texts = quality.continuations(kv_dtype)
        row["diverges"] = {key: first_difference(expected[key], texts[key]) for key in expected}
        rows.append(row)
        if progress is not None:
            progress(row)
    by_layer = []
    for layer in range(num_layers):
        kv_dtype = {"format": "model", "layers": {str(layer): "int4"}}
        reading = quality.read(kv_dtype)
        by_layer.append({"layer": layer, "kl": _digits(reading.kl.mean())})
    text = quality.text.encode()
    return {
        "schema": SCHEMA,
        "source": runner.source,
        "recorded_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "revision": revision(),
        "text": {
            "file": "core/data/reading.txt",
            "tokens": len(quality.tokens),
            "sha256": hashlib.sha256(text).hexdigest(),
        },
        "prompts": [{**prompt, "max_tokens": MAX_TOKENS} for prompt in PROMPTS],
        "rows": rows,
        "by_layer": by_layer,
    }


def write(path: str | Path, document: dict[str, Any]) -> None:
    """As JSON, one row a line."""
    text = json.dumps(document, ensure_ascii=False, indent=1)
    Path(path).write_text(text + "\n", encoding="utf-8")


def _log_probs(logits: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(logits.float(), -1).cpu()


def _digits(x: torch.Tensor) -> float:
    return float(f"{x.item():.5g}")
