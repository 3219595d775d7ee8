"""`LLM` in use: streams side by side, interruptions, resets. With a tiny random model."""

from __future__ import annotations

import os
import signal
import weakref

import pytest

from core.engine import EngineFailedError
from core.errors import CacheInUseError, RequestError, ScenarioError, UnsupportedError
from core.llm import LLM
from core.outputs import SamplingParams
from core.simulate import verify
from core.trace.run import parse_run


@pytest.fixture
def llm(tiny_dir):
    return LLM(
        tiny_dir,
        dtype="float32",
        device="cpu",
        num_blocks=32,
        block_size=4,
        max_model_len=48,
        debug=True,
    )


def params(**fields):
    return SamplingParams(**{"temperature": 0, "max_tokens": 8, "ignore_eos": True, **fields})


def in_use(llm):
    return llm.engine.kv.usage()["in_use"]


def assert_verified(llm):
    verify(parse_run(llm.last_run.to_bytes()))


A, B = [5, 6, 7, 8, 9], [11, 12, 13]


def test_streams_side_by_side_keep_their_own_tokens(llm):
    alone = [out.outputs[0].token_ids for out in llm.generate([A, B], params())]
    first, second = llm.stream(A, params()), llm.stream(B, params())
    got = ([], [])
    for _ in range(3):
        got[0].append(next(first).token_id)
    for delta in second:
        assert delta.request_id == "3"
        got[1].append(delta.token_id)
    got[0].extend(delta.token_id for delta in first)
    assert list(got) == alone
    assert_verified(llm)


def test_generate_beside_a_stream_takes_nothing_from_it(llm):
    alone = llm.generate(A, params())[0].outputs[0].token_ids
    stream = llm.stream(A, params())
    got = [next(stream).token_id]
    llm.generate(B, params())
    got.extend(delta.token_id for delta in stream)
    assert got == alone


def test_a_closed_stream_gives_its_blocks_back_at_once(llm):
    stream = llm.stream(A, params())
    next(stream)
    assert in_use(llm) > 0
    stream.close()
    assert in_use(llm) == 0
    assert llm.engine.done
    llm.reset_prefix_cache()


def test_an_interrupted_generate_leaves_nothing_behind(llm, monkeypatch):
    step = llm.engine.step
    calls = []

    def interrupted():
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return step()

    monkeypatch.setattr(llm.engine, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        llm.generate([A, B], params())
    assert in_use(llm) == 0
    steps = llm.engine.num_steps
    llm.generate(B, params(max_tokens=1))
    assert llm.engine.num_steps == steps + 1, "the dead requests are not served any more"
    assert_verified(llm)


@pytest.fixture
def python_s_own_interrupts():
    """SIGINT as Python itself handles it, whoever started the tests: a shell that puts them into
    the background has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_in_a_step_waits_for_its_end(llm, monkeypatch, python_s_own_interrupts):
    """What the user has so far is kept: the run, and the prefixes in the cache."""
    llm.generate(A, params())
    execute = llm.runner.execute

    def interrupted(batch):
        if len(batch.scheduled) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return execute(batch)

    monkeypatch.setattr(llm.runner, "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        llm.generate([A, B], params())
    monkeypatch.undo()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert in_use(llm) == 0
    assert llm.generate(A, params())[0].num_cached_tokens == 4
    assert_verified(llm)


def test_a_reset_ends_the_streams_that_were_open(llm):
    stream = llm.stream(A, params())
    next(stream)
    llm.reset()
    with pytest.raises(EngineFailedError, match="reset"):
        next(stream)


def test_prompts_come_in_the_fields_forms(llm):
    ids = llm.generate(A, params())[0].outputs[0].token_ids
    for prompt in (A, [A], {"prompt_token_ids": A}, [{"prompt_token_ids": A}], tuple(A)):
        assert llm.generate(prompt, params())[0].outputs[0].token_ids == ids
    assert llm.generate([], params()) == []


@pytest.mark.parametrize(
    "bad",
    [None, 5, {}, {"text": "A"}, {"prompt": "A", "prompt_token_ids": [1]}, [None], [[A]], {1: 2}],
)
def test_other_forms_are_refused(llm, bad):
    with pytest.raises(RequestError, match="prompt"):
        llm.generate(bad, params())
    assert llm.engine.num_steps == 0


@pytest.mark.parametrize("bad", [{"temperature": 0}, 0, "greedy", [{}]])
def test_wrong_sampling_parameters_are_refused(llm, bad):
    with pytest.raises(RequestError, match="sampling"):
        llm.generate([A], bad)


def test_a_failed_step_starts_a_fresh_engine(llm, monkeypatch):
    execute = llm.runner.execute

    def fails(batch):
        if batch.step == 2:
            raise RuntimeError("the device is gone")
        return execute(batch)

    monkeypatch.setattr(llm.runner, "execute", fails)
    with pytest.raises(RuntimeError, match="the device is gone"):
        llm.generate([A, B], params())
    monkeypatch.undo()
    assert llm.engine.num_steps == 0
    assert llm.generate(A, params())[0].outputs[0].token_ids
    assert_verified(llm)


def test_the_old_pool_goes_before_the_new_one_is_made(llm, monkeypatch):
    """The two would not fit a GPU whose memory the pool fills."""
    old, new_store, held = weakref.ref(llm.runner.store), llm.runner._new_store, []

    def fails(hidden_states):
        raise RuntimeError("the device is gone")

    def noting(*shape):
        held.append(old() is not None)
        return new_store(*shape)

    monkeypatch.setattr(llm.runner, "compute_logits", fails)
    monkeypatch.setattr(llm.runner, "_new_store", noting)
    with pytest.raises(RuntimeError, match="the device is gone"):
        llm.generate([A, B], params())
    assert held == [False]


def test_a_second_call_finds_the_prefix(llm):
    assert llm.generate(A, params())[0].num_cached_tokens == 0
    assert llm.generate(A, params())[0].num_cached_tokens == 4
    llm.reset_prefix_cache()
    assert llm.generate(A, params())[0].num_cached_tokens == 0
    assert_verified(llm)


def test_the_cache_is_not_reset_under_a_running_request(llm):
    stream = llm.stream(A, params())
    next(stream)
    with pytest.raises(CacheInUseError):
        llm.reset_prefix_cache()
    stream.close()


def test_a_bad_prompt_harms_nobody(llm):
    for bad in ([5, 10**6], [2**70], [1.5], [None], [-1], "", []):
        with pytest.raises(RequestError):
            llm.generate([A, bad], params())
    assert llm.generate(A, params())[0].outputs[0].token_ids


def test_bad_settings_are_refused_before_the_weights_are_loaded(tiny_dir, monkeypatch):
    def loaded(*args):
        pytest.fail("the model was loaded")

    monkeypatch.setattr("core.llm.load_runner", loaded)
    for error, settings in (
        (ScenarioError, {"num_blocks": -1}),
        (ScenarioError, {"block_sise": 4}),
        (ScenarioError, {"kv_cache": False, "max_model_len": 600}),
    ):
        with pytest.raises(error):
            LLM(tiny_dir, **settings)


def test_one_set_of_sampling_parameters_for_each_prompt(llm):
    with pytest.raises(RequestError, match="2 prompts, but 1"):
        llm.generate([A, B], [params()])
    outs = llm.generate([A, B], [params(max_tokens=2), params(max_tokens=3, n=2)])
    assert [[len(o.token_ids) for o in out.outputs] for out in outs] == [[2], [3, 3]]
    assert [len(o.times) for o in outs[1].outputs] == [3, 3]


def test_without_a_trace_there_is_no_run(tiny_dir):
    llm = LLM(tiny_dir, dtype="float32", device="cpu", num_blocks=32, block_size=4, trace=False)
    assert llm.generate(A, params())[0].outputs[0].token_ids
    with pytest.raises(UnsupportedError, match="trace"):
        _ = llm.last_run
