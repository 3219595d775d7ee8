"""How many blocks a GPU's memory holds, with stand-ins for what CUDA says."""

from __future__ import annotations

import pytest
import torch
from model_driver import Driver
from paged_checks import paged_runner, tiny_model

from core.config import EngineConfig
from core.errors import KVScopeError, ScenarioError
from core.llm import LLM
from core.model.errors import MemoryBudgetError, ModelError
from core.model.gpu_memory import GRAPH_BYTES, MemoryPlan, measure
from core.model.load_runner import fit_pool
from core.model.made_up_steps import decode_step, prompt_step
from core.model.step_inputs import build_step_inputs

GB = 10**9


@pytest.fixture
def no_margin(monkeypatch):
    """For cards of a few kilobytes."""
    monkeypatch.setattr("core.model.gpu_memory.MARGIN", 0)


class Card:
    """A GPU of 80 GB: steps of this much, 1.5 GB of others, what the allocator holds and keeps."""

    def __init__(self, weights=16 * GB, prompts=3 * GB, decodes=1 * GB, others=1.5 * GB):
        self.weights, self.of_others = weights, int(others)
        self.steps = {"prompts": prompts, "decodes": decodes}
        self.highest = weights
        self.ran = []

    def run(self, name):
        def step():
            self.ran.append(name)
            if self.weights + self.steps[name] > self.total():
                raise torch.OutOfMemoryError("CUDA out of memory")
            self.highest = max(self.highest, self.weights + self.steps[name])

        return step

    def total(self):
        return 80 * GB

    def reserved(self):
        return self.highest + GB // 2  # fragments that the allocator has taken and does not use

    def free(self):
        return self.total() - self.of_others - self.reserved()

    def allocated(self):
        return self.weights

    def peak(self):
        return self.highest

    def reset_peak(self):
        self.highest = self.weights

    def plan(self, utilization, num_graphs=0):
        return measure(self, utilization, self.run("prompts"), self.run("decodes"), num_graphs)


def test_the_pool_is_what_the_share_leaves():
    plan = Card().plan(0.9, num_graphs=10)
    assert plan == MemoryPlan(
        total=80 * GB,
        utilization=0.9,
        others=int(1.5 * GB),
        weights=16 * GB,
        activations=3 * GB,
        graphs=1 * GB + 10 * GRAPH_BYTES,
    )
    assert plan.pool == int(0.9 * 80 * GB) - int(21.5 * GB) - 10 * GRAPH_BYTES


def test_without_graphs_nothing_is_kept_for_them():
    assert Card().plan(0.9).graphs == 0
    assert Card().plan(0.9).pool == int((0.9 * 80 - 1.5 - 16 - 3) * GB)


@pytest.mark.parametrize(("prompts", "decodes", "most"), [(3, 1, 3), (1, 2, 2)])
def test_the_more_demanding_step_counts(prompts, decodes, most):
    plan = Card(prompts=prompts * GB, decodes=decodes * GB).plan(0.5, num_graphs=1)
    assert (plan.activations, plan.graphs) == (most * GB, decodes * GB + GRAPH_BYTES)


def test_what_the_steps_have_left_unused_is_given_back_before_the_pool_is_made():
    card = Card()
    card.plan(0.9)
    assert card.peak() == card.allocated()


def test_a_step_before_it_counts_takes_what_stays():
    card = Card()
    card.plan(0.9)
    assert card.ran[0] == "decodes" and card.ran.count("decodes") == 2


@pytest.mark.parametrize("share", [0.0, -0.1, 1.01, 90.0, float("nan")])
def test_a_share_is_above_0_and_at_most_1(share):
    card = Card()
    with pytest.raises(ModelError, match="is no share: give a number"):
        card.plan(share)
    assert card.ran == []


def test_a_pool_leaves_what_a_store_asks_for_beside_it():
    """Else a share near 1 would be planned, and refused when the pool is made."""
    card = Card(prompts=GB // 100, decodes=GB // 100, others=0)
    card.highest = card.weights
    plan = card.plan(1.0)
    assert plan.pool == plan.total - plan.others - plan.weights - (256 << 20)
    assert card.plan(0.9).pool == int(0.9 * 80 * GB) - 16 * GB - plan.others - GB // 100


@pytest.mark.usefixtures("no_margin")
def test_blocks_are_whole():
    plan = MemoryPlan(1000, 1.0, 100, 200, 100, 0)
    assert (plan.num_blocks(60), plan.num_blocks(601 - 1), plan.num_blocks(1)) == (10, 1, 600)


def test_what_does_not_fit_is_said_in_one_line_with_what_takes_the_memory():
    plan = Card(weights=70 * GB).plan(0.9)
    assert plan.pool < 0
    with pytest.raises(MemoryBudgetError) as caught:
        plan.num_blocks(2_000_000)
    assert str(caught.value) == (
        "no room for 1 KV block of 0.00 GB: 0.9 of 80.00 GB is 72.00 GB, less 1.50 GB of others, "
        "70.00 GB of weights, 3.00 GB of activations, 0.00 GB for graphs; raise "
        "gpu_memory_utilization, or lower max_num_batched_tokens or max_num_seqs"
    )
    with pytest.raises(MemoryBudgetError, match="no room for 40,000 KV blocks"):
        Card().plan(0.9).num_blocks(2_000_000, 40_000)


def test_a_step_that_does_not_fit():
    with pytest.raises(MemoryBudgetError, match="a step does not fit beside the weights"):
        Card(prompts=70 * GB).plan(0.9)


# ---- the steps that are measured -----------------------------------------------------------------


def test_prompts_fill_the_budget_of_a_step():
    config = EngineConfig(max_num_seqs=8, max_num_batched_tokens=67, block_size=4)
    batch = prompt_step(config, 512)
    counts = [item.num_scheduled_tokens for item in batch.scheduled]
    assert sum(counts) == 67 and len(counts) == 8 and max(counts) - min(counts) == 1
    assert all(item.num_samples == 1 for item in batch.scheduled)
    few = prompt_step(EngineConfig(max_num_seqs=2, max_num_batched_tokens=64), 20)
    assert [item.num_scheduled_tokens for item in few.scheduled] == [20, 20]


def test_decodes_have_the_longest_contexts():
    config = EngineConfig(max_num_seqs=5, max_num_batched_tokens=64, block_size=4)
    batch = decode_step(config, 90)
    assert len(batch.scheduled) == 5
    for item in batch.scheduled:
        assert (item.start, item.stop, len(item.seq.block_table)) == (89, 90, 23)


class Watched(Card):
    """A card on which the tiny model's steps need nothing."""

    def __init__(self, free_blocks, bytes_per_block):
        super().__init__(weights=0, others=0)
        self._total = free_blocks * bytes_per_block

    def total(self):
        return self._total

    def reserved(self):
        return 0

    def free(self):
        return self._total


@pytest.fixture(params=["mistral-window", "llama-mqa-tied"])
def runner(request, tmp_path):
    return paged_runner(tiny_model(request.param, tmp_path), max_num_seqs=4)


@pytest.mark.usefixtures("no_margin")
def test_a_runner_gets_the_pool_that_fits(runner):
    config = EngineConfig(
        num_blocks=3, block_size=8, max_num_seqs=4, max_num_batched_tokens=40, max_model_len=64
    )
    card = Watched(57, runner.kv_bytes_per_token * 8)
    fitted = fit_pool(runner, config, 1.0, seed=5, max_model_len=64, memory=card)
    assert fitted.num_blocks == 57 and runner.seed == 5
    assert (runner.store.num_blocks, runner.store.block_size) == (57, 8)
    assert not any(layer.any() for layer in runner.store.blocks)  # nothing of the steps is left
    driver = Driver(runner)
    assert driver.run([driver.add([5, 6, 7])], 3)[0]


@pytest.mark.usefixtures("no_margin")
def test_quantised_blocks_are_smaller_so_more_fit(runner):
    config = EngineConfig(block_size=8, max_num_seqs=4, kv_dtype="int8_per_token_head")
    card = Watched(57, runner.kv_bytes_per_token * 8)  # of float32
    fitted = fit_pool(runner, config, 1.0, memory=card)
    bytes_per_block = card.total() // 57
    assert fitted.num_blocks == card.total() // (runner.kv_bytes_per_token * 8) > 2 * 57
    assert runner.kv_cache_bytes <= card.total() < runner.kv_cache_bytes + bytes_per_block


@pytest.mark.usefixtures("no_margin")
def test_the_longest_context_must_fit_where_it_is_given(runner):
    config = EngineConfig(block_size=8, max_num_seqs=4)
    card = Watched(7, runner.kv_bytes_per_token * 8)
    with pytest.raises(MemoryBudgetError, match="no room for 8 KV blocks"):
        fit_pool(runner, config, 1.0, max_model_len=64, memory=card)
    assert fit_pool(runner, config, 1.0, memory=card).num_blocks == 7


def test_on_a_cpu_it_is_refused_in_words(runner, tmp_path):
    with pytest.raises(KVScopeError, match="is for a GPU, and the device is the CPU"):
        fit_pool(runner, EngineConfig(), 0.9)
    with pytest.raises(KVScopeError, match="kv_cache is false"):
        fit_pool(runner, EngineConfig(kv_cache=False), 0.9, memory=Watched(5, 100))
    with pytest.raises(KVScopeError, match="is for a GPU"):
        LLM(runner.directory, device="cpu", dtype="float32", gpu_memory_utilization=0.5)
    with pytest.raises(ScenarioError, match="decides it: give one of them"):
        LLM(runner.directory, device="cpu", num_blocks=5, gpu_memory_utilization=0.5)


def test_the_measured_steps_are_steps_of_torch_s_path_too(tiny):
    config = EngineConfig(block_size=4, max_num_seqs=3, max_num_batched_tokens=20)
    tiny.bind(1, 4)
    for batch in (prompt_step(config, 64), decode_step(config, 64)):
        inputs = build_step_inputs(batch.scheduled, tiny.store.layout, tiny.dtype, tiny.device)
        assert inputs.slot_mapping.unique().max() < 4
        assert [len(tokens) for tokens in tiny.execute(batch).token_ids] == [1, 1, 1]
    tiny.bind(64, 4)
