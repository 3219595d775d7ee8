"""A process that times vLLM: questions and answers are JSON, a line each.

    {"settings": {…}}                       → {"version": "0.33.0"}
    {"prompts": [[ids …] …], "max_tokens"}  → {"seconds": 1.23}
    anything that fails                     → {"error": "one line"}

It runs under the interpreter that has vLLM, and imports nothing of this project.
"""

from __future__ import annotations

import json
import os
import sys
from time import perf_counter
from typing import Any, TextIO


def main() -> None:
    # vLLM and its engine process print to standard output: answers go through a copy of it that
    # only this process has, and everything else to standard error.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    engine: Any = None
    for line in sys.stdin:
        question = json.loads(line)
        try:
            if "settings" in question:
                engine, version = _start(question["settings"])
                _answer(answers, {"version": version})
            else:
                seconds = _generate(engine, question["prompts"], question["max_tokens"])
                _answer(answers, {"seconds": seconds})
        except Exception as error:  # whatever it is, the other side is to know
            _answer(answers, {"error": f"{type(error).__name__}: {error}"})


def _start(settings: dict[str, Any]) -> tuple[Any, str]:
    import vllm

    return vllm.LLM(**settings), vllm.__version__


def _generate(engine: Any, prompts: list[list[int]], max_tokens: int) -> float:
    """Greedy, to the last token; texts are not made."""
    from vllm import SamplingParams

    params = SamplingParams(
        temperature=0.0, max_tokens=max_tokens, ignore_eos=True, detokenize=False
    )
    wanted = [{"prompt_token_ids": ids} for ids in prompts]
    started = perf_counter()
    outputs = engine.generate(wanted, params, use_tqdm=False)
    seconds = perf_counter() - started
    counts = {len(output.outputs[0].token_ids) for output in outputs}
    if counts != {max_tokens}:
        raise RuntimeError(f"{max_tokens} tokens were asked for, but {sorted(counts)} came")
    return seconds


def _answer(answers: TextIO, content: dict[str, Any]) -> None:
    answers.write(json.dumps(content) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
