"""What `transformers` would say, token by token, with log-probabilities, for many prompts at once.

The oracle keeps no KV cache: it reads every text whole. Texts are padded on the right, which a
causal model cannot see. A draft (the tokens of any engine) only saves passes: each token that comes
out is the oracle's own choice after those before it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

import torch

from core.sampling import SampleSpec, request_key, sample

MARGIN = 1e-4
_ROWS_AT_ONCE = 6


@dataclass
class Chain:
    """A prompt and what follows. sampling: settings of a draw, {} for greedy; index: of n.

    tokens: the oracle's, up to the first one that is too close to call; logprobs: one for each.
    prompt_logprobs: of prompt[1:]. All float, natural logarithms.
    """

    prompt: list[int]
    num_tokens: int
    sampling: dict[str, float] = field(default_factory=dict)
    index: int = 0
    draft: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    prompt_logprobs: list[float] = field(default_factory=list)
    done: bool = False

    def read(self, logits: torch.Tensor) -> None:
        """logits: [prompt and draft, vocab_size] float32. Judge the draft up to its first fault."""
        prompt = self.prompt
        own = torch.log_softmax(logits[: len(prompt) - 1].double(), dim=-1)
        self.prompt_logprobs = [own[i, token].item() for i, token in enumerate(prompt[1:])]
        self.tokens, self.logprobs = [], []
        for i, row in enumerate(logits[len(prompt) - 1 :]):
            token = self._choose(row)
            self.done = token is None
            if token is None:
                return
            self.tokens.append(token)
            self.logprobs.append(torch.log_softmax(row.double(), dim=-1)[token].item())
            self.done = len(self.tokens) == self.num_tokens
            if self.done or self.draft[i : i + 1] != [token]:
                break
        self.draft = list(self.tokens)

    def _choose(self, row: torch.Tensor) -> int | None:
        """The next token, or None if errors of float32 might decide it."""
        if not self.sampling:
            top = row.topk(2)
            clear = (top.values[0] - top.values[1]).item() > MARGIN
            return int(top.indices[0]) if clear else None
        settings = dict(self.sampling)
        spec = SampleSpec(
            row=0,
            key=request_key(settings.pop("seed"), 0, 0),
            index=self.index,
            position=len(self.prompt) + len(self.tokens),
            **settings,
        )
        # The same draw from slightly different logits.
        noise = torch.randn((8, len(row)), generator=torch.Generator().manual_seed(1)) * MARGIN / 4
        noise[0] = 0
        specs = [dataclasses.replace(spec, row=i) for i in range(len(noise))]
        drawn = sample(row + noise, specs)
        return drawn[0] if len(set(drawn)) == 1 else None


def read_all(oracle: torch.nn.Module, chains: Seq[Chain]) -> None:
    """Let the oracle decide every chain."""
    while todo := sorted((c for c in chains if not c.done), key=lambda c: len(c.prompt)):
        for first in range(0, len(todo), _ROWS_AT_ONCE):
            some = todo[first : first + _ROWS_AT_ONCE]
            texts = [chain.prompt + chain.draft[: chain.num_tokens - 1] for chain in some]
            longest = max(map(len, texts))
            ids = torch.tensor([text + [0] * (longest - len(text)) for text in texts])
            with torch.inference_mode():
                logits = oracle(ids, use_cache=False).logits.float()
            for chain, text, rows in zip(some, texts, logits, strict=True):
                chain.read(rows[: len(text)])
