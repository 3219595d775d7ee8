"""`python -m bench perplexity`: what bfloat16 and int8 weights lose against float32.

Perplexity, e to the mean negative log-likelihood of each next token, of this project's own words
(README and lessons), read in pieces by the engine itself through prompt log-probabilities.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from core.llm import LLM
from core.outputs import SamplingParams

ROOT = Path(__file__).resolve().parent.parent
PIECE = 512
KINDS = {
    "float32": ("float32", None),
    "bfloat16": ("bfloat16", None),
    "int8 weights, bfloat16": ("bfloat16", "int8"),
}


def main(arguments: list[str]) -> int:
    """Print one line per kind of weights."""
    parser = argparse.ArgumentParser(prog="python -m bench perplexity")
    parser.add_argument("--model", default="smollm2-135m-instruct", help="a name or a directory")
    parser.add_argument("--tokens", type=int, help="stop after so many; default: all")
    args = parser.parse_args(arguments)
    text = "\n".join(p.read_text(encoding="utf-8") for p in text_files())
    reference: float | None = None
    for name, (dtype, weights) in KINDS.items():
        value, tokens = perplexity(args.model, text, dtype, weights, args.tokens)
        reference = reference or value
        print(
            f"{name:<24}{value:>9.3f}  ({value / reference - 1:+.2%})  {tokens:,} tokens judged",
            flush=True,
        )
    return 0


def text_files() -> list[Path]:
    """README and the lessons, in a fixed order."""
    return [ROOT / "README.md", *sorted((ROOT / "lessons").glob("*.md"))]


def perplexity(
    model: str, text: str, dtype: str, weights: str | None, limit: int | None = None
) -> tuple[float, int]:
    """Perplexity of a text, and how many tokens were judged. The first of a piece is not."""
    llm = LLM(model, dtype=dtype, weights=weights, device="cpu", trace=False)
    piece = min(PIECE, llm.config.max_model_len - 1)
    ids = llm.runner.tokenize(text)[:limit]
    logprobs: list[float] = []
    params = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=1)
    for start in range(0, len(ids) - 1, piece):
        [out] = llm.generate([ids[start : start + piece]], params)
        assert out.prompt_logprobs is not None
        logprobs += [judged.logprob for judged in out.prompt_logprobs if judged is not None]
    return math.exp(-math.fsum(logprobs) / len(logprobs)), len(logprobs)
