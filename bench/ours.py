"""The workloads on this engine: scheduler, step inputs, forward, sampling; all of each step."""

from __future__ import annotations

from time import perf_counter

from bench.workload import Workload, prompts
from core.config import EngineConfig
from core.engine import Engine
from core.model.model_runner import ModelRunner
from core.model.work import StepWork
from core.scenario import RequestSpec, Scenario

BLOCK_SIZE = 16


class Ours:
    """Methods return wall seconds; `work` is then what the measured steps had to do.

    runner: bound to a new pool for each run.
    """

    def __init__(self, runner: ModelRunner, workload: Workload) -> None:
        self.runner = runner
        self.workload = workload
        self.work = StepWork()

    def prefill(self) -> float:
        """One step: a whole prompt, and its first token."""
        engine = self._engine(prompts(1, self.workload.prefill, self.runner.vocab_size), 1)
        return self._measure(engine, 1)

    def decode(self, batch: int) -> float:
        """`decode_steps` steps of `batch` sequences."""
        load = self.workload
        ids = prompts(batch, load.decode_prompt, self.runner.vocab_size)
        engine = self._engine(ids, load.decode_steps + 2)
        engine.step()
        engine.step()
        return self._measure(engine, load.decode_steps)

    def serve(self) -> float:
        """All requests from arrival to their last token."""
        load = self.workload
        ids = prompts(load.serve_requests, load.serve_prompt, self.runner.vocab_size)
        return self._measure(self._engine(ids, load.serve_outputs), load.serve_outputs)

    def first_token(self, *, warm: bool) -> float:
        """A prompt's time to its first token; warm: an earlier request had most of it."""
        load = self.workload
        [prompt] = prompts(1, load.first_token, self.runner.vocab_size)
        [other] = prompts(1, load.first_token - load.shared, self.runner.vocab_size, seed=1)
        earlier = prompt[: load.shared] + other if warm else list(reversed(prompt))
        engine = self._engine([earlier], 1, prefix_cache="radix")
        engine.finish()
        request = _request("measured", prompt, 1, engine.num_steps)
        started = perf_counter()
        [measured] = engine.add([request])
        added = perf_counter() - started
        seconds = added + self._measure(engine, 1)
        assert measured.num_cached_tokens == (load.shared if warm else 0)
        return seconds

    def _measure(self, engine: Engine, steps: int) -> float:
        """Seconds of that many steps, which must be all that was left to do."""
        first = engine.num_steps
        started = perf_counter()
        for _ in range(steps):
            engine.step()
        seconds = perf_counter() - started
        assert engine.done and engine.recorder is not None
        self.work = StepWork()
        for index in range(first, first + steps):
            self.work += StepWork.from_dict(engine.recorder.step(index)["work"])
        return seconds

    def _engine(self, ids: list[list[int]], outputs: int, prefix_cache: str = "off") -> Engine:
        """An engine on an empty pool that is large enough for nobody to wait or be preempted."""
        longest = max(map(len, ids)) + outputs
        num_blocks = (len(ids) + 1) * -(-longest // BLOCK_SIZE)
        config = EngineConfig(
            num_blocks=num_blocks,
            block_size=BLOCK_SIZE,
            max_num_seqs=len(ids),
            max_num_batched_tokens=sum(map(len, ids)),
            max_model_len=longest,
            prefix_cache=prefix_cache,
        )
        self.runner.bind(num_blocks, BLOCK_SIZE)
        requests = tuple(_request(str(i), one, outputs) for i, one in enumerate(ids))
        return Engine(Scenario(engine=config, requests=requests), self.runner)


def _request(name: str, ids: list[int], outputs: int, step: int = 0) -> RequestSpec:
    return RequestSpec(
        id=name, prompt_tokens=tuple(ids), max_tokens=outputs, ignore_eos=True, arrive_step=step
    )
