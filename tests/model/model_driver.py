"""A scheduler of the least kind, to drive a ModelRunner in tests: it does what the test says.

Blocks come from a shuffled pool, so no table is contiguous. Sequences are the engine's own.
"""

import random
from array import array
from dataclasses import dataclass, field

import pytest
import torch

from core.request import Request, Sequence
from core.runner import ScheduledSequence, StepBatch
from core.sampling import Draft
from core.sampling.staging import Download
from core.scenario import RequestSpec


@dataclass
class Driver:
    """runner: bound to a pool. logits[sequence id]: one row per sampled token."""

    runner: object
    seed: int = 0
    logits: dict = field(default_factory=dict)
    step_number: int = 0

    def __post_init__(self):
        store = self.runner.store
        self.block_size = store.block_size
        self.free = list(range(store.num_blocks))
        random.Random(self.seed).shuffle(self.free)
        self.pending_copies = []
        self.requests = 0

    def add(self, prompt, id=None, n=1, temperature=0.0, seed=None, order=None):
        """A new sequence (the unit, for n > 1) of a prompt given as token ids."""
        order = self.requests if order is None else order
        self.requests += 1
        spec = RequestSpec(
            id=id or f"R{order}",
            prompt_tokens=tuple(prompt),
            n=n,
            temperature=temperature,
            seed=seed,
        )
        return Sequence(Request(spec, array("q", prompt), order), 0, n)

    def reserve(self, seq, num_tokens):
        """Lengthen the block table to hold num_tokens."""
        while len(seq.block_table) * self.block_size < num_tokens:
            seq.block_table.append(self.free.pop())

    def share_prefix(self, seq, other, num_blocks):
        """A prefix hit: the first blocks of `other` serve `seq` too."""
        assert (
            seq.tokens[: num_blocks * self.block_size]
            == (other.tokens[: num_blocks * self.block_size])
        )
        seq.block_table = other.block_table[:num_blocks]
        seq.num_computed_tokens = num_blocks * self.block_size

    def preempt(self, seq):
        """Give every block back; keep the tokens; compute all of them again."""
        self.free = seq.block_table + self.free
        seq.block_table = []
        seq.num_computed_tokens = 0

    def fork(self, unit, n, tokens):
        """Twins of a unit that has sampled n first tokens: all its blocks shared."""
        twins = [unit] + [Sequence(unit.request, i, 1) for i in range(1, n)]
        for twin in twins:
            if twin is not unit:
                twin.tokens = array("q", unit.request.prompt_tokens)
                twin.num_computed_tokens = unit.num_computed_tokens
                twin.block_table = list(unit.block_table)
            twin.num_places = 1
        for twin, token in zip(twins, tokens, strict=True):
            twin.tokens.append(token)
        # Copy on write: all but the last get a block of their own if the next write is inside one.
        if unit.num_computed_tokens % self.block_size:
            for twin in twins[:-1]:
                own = self.free.pop()
                self.pending_copies.append((twin.block_table[-1], own))
                twin.block_table[-1] = own
        return twins

    def step(self, shares):
        """One forward. shares: [(sequence, tokens to compute)]. Appends what is sampled."""
        scheduled = []
        for seq, count in shares:
            end = seq.num_computed_tokens + count
            self.reserve(seq, end)
            samples = seq.num_places if end == seq.num_tokens else 0
            scheduled.append(ScheduledSequence(seq, count, samples))
        batch = StepBatch(self.step_number, scheduled, self.pending_copies)
        rows = self._watch()
        out = self.runner.execute(batch).token_ids
        self.pending_copies = []
        self.step_number += 1
        row = 0
        for item, tokens in zip(scheduled, out, strict=True):
            seq = item.seq
            seq.num_computed_tokens += item.num_scheduled_tokens
            assert len(tokens) == item.num_samples
            if item.num_samples:
                self.logits.setdefault(seq.id, []).append(rows[0][row])
                row += 1
            if item.num_samples == 1:
                seq.tokens.append(tokens[0])
        return out

    def run(self, sequences, num_outputs, chunk=None):
        """Step all sequences together until each has num_outputs tokens."""
        while True:
            shares = []
            for seq in sequences:
                if seq.num_output_tokens < num_outputs:
                    lacking = seq.num_tokens - seq.num_computed_tokens
                    shares.append((seq, min(lacking, chunk or lacking)))
            if not shares:
                return [seq.output_tokens for seq in sequences]
            self.step(shares)

    def _watch(self):
        """Keep the logits of the next execute."""
        kept = []
        compute = type(self.runner).compute_logits

        def watched(hidden_states):
            logits = compute(self.runner, hidden_states)
            kept.append(logits.float())
            return logits

        self.runner.compute_logits = watched
        return kept


def generate(runner, prompts, num_outputs, chunk=None, seed=0, block_size=4, num_blocks=256):
    """Greedy tokens of prompts run together in a fresh pool; and their logits."""
    runner.bind(num_blocks, block_size)
    driver = Driver(runner, seed)
    sequences = [driver.add(p) for p in prompts]
    outputs = driver.run(sequences, num_outputs, chunk)
    return outputs, [torch.stack(driver.logits[s.id]) for s in sequences]


def check_against_oracle(oracle, prompt, outputs, logits, tolerance=1e-4):
    """Tokens agree where the oracle's top-2 margin exceeds 1e-4; elsewhere the top-2 logits do.

    The oracle reads prompt and outputs at once, so every position is judged on the same text.
    tolerance: for all logits of the vocabulary, the very small ones too. A float32 forward pass of
    30 layers is itself 1e-4 away from a float64 one.
    """
    with torch.inference_mode():
        ids = torch.tensor([[*prompt, *outputs[:-1]]])
        expected = oracle(ids).logits[0, len(prompt) - 1 :].float()
    top = expected.topk(2, dim=-1)
    for i, token in enumerate(outputs):
        margin = (top.values[i, 0] - top.values[i, 1]).item()
        if margin > 1e-4:
            assert token == top.indices[i, 0].item(), f"output {i}, margin {margin}"
        else:
            assert token in top.indices[i].tolist()
            assert (logits[i, top.indices[i]] - top.values[i]).abs().max().item() <= 1e-4
    worst = (logits - expected).abs().max().item()
    assert worst <= tolerance, f"logits differ by {worst}"


def chosen(tokens):
    """What `core.sampling.draft` gives once these tokens are chosen."""
    ids = torch.tensor([*tokens, 1])
    return Draft(ids[:-1], Download(ids))


def oracle(directory):
    """The same checkpoint in `transformers`, float32."""
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager"
    )
    return model.eval()
