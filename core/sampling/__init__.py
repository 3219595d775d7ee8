"""From logits to tokens, and how likely they were.

sampler   logits → one token for each sequence: greedy, or drawn
filters   what a draw leaves out: top-k, top-p, min-p; and the repetition penalty
random    the numbers that decide a draw
logprobs  log-probabilities and ranks under the model's own distribution
staging   numbers on their way to a GPU and back, which nothing waits for
"""

from core.sampling.logprobs import rows_at_once, token_logprobs, top_candidates
from core.sampling.random import request_key
from core.sampling.sampler import Draft, SampleSpec, draft, sample

__all__ = [
    "Draft",
    "SampleSpec",
    "draft",
    "request_key",
    "rows_at_once",
    "sample",
    "token_logprobs",
    "top_candidates",
]
