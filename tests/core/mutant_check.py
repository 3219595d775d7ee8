"""Is this copy of the engine right? Exit 0 if no check finds anything, 1 at the first finding.

Run by `test_mutations.py` as `python -m tests.core.mutant_check` in a copy of the code in which one
line was broken on purpose.
"""

from __future__ import annotations

import json
import random
import sys

from core.engine import Engine
from core.scenario import Scenario
from tests.core.ahead_runner import ahead_for
from tests.core.memory_runner import memory_for
from tests.core.test_differential import assert_agreement
from tests.core.test_hand_fixtures import HAND, assert_hand
from tests.scenario_gen import random_scenario, with_forks

SEEDS = 150


def main() -> int:
    try:
        for path in HAND:
            assert_hand(path)
        for seed in range(SEEDS):
            assert_agreement(seed)
            assert_memory(seed)
            if seed % 3 == 1:
                assert_agreement(seed, (seed % 10) or None, forks=True)
                assert_memory(seed, forks=True)
            if seed % 3 == 0:
                window = 1 + seed % 10
                assert_agreement(seed, window)
                assert_memory(seed, window)
            if seed % 3 == 2:
                assert_ahead(seed)
    except Exception as exc:  # whatever a broken engine does is a finding
        print(f"{type(exc).__name__}: {str(exc)[:200]}")
        return 1
    return 0


def assert_memory(seed: int, window: int | None = None, forks: bool = False) -> None:
    """Every sequence reads what it needs, and the events lead to the engine's state."""
    rng = random.Random(seed)
    scenario = random_scenario(rng)
    if forks:
        scenario = with_forks(rng, scenario)
    scenario = json.loads(json.dumps(scenario))
    for request in scenario["requests"]:
        request["output_tokens"] = None
    runner = memory_for(scenario, window)
    Engine(Scenario.from_dict(scenario), runner, debug=True).run_to_end()


def assert_ahead(seed: int) -> None:
    """The same answers with asynchronous scheduling, and no step is hurt while it is in flight."""
    scenario = random_scenario(random.Random(seed))
    answers = []
    for ahead in (False, True):
        scenario["engine"]["async_scheduling"] = ahead
        for request in scenario["requests"]:
            request["output_tokens"], request["stop_token_ids"] = None, [2]
        runner = ahead_for(scenario) if ahead else memory_for(scenario)
        engine = Engine(Scenario.from_dict(scenario), runner, debug=True)
        engine.finish()
        answers.append(
            {
                name: (seq.output_tokens, seq.finish_reason)
                for name, seq in engine.sequences().items()
                if seq.request.spec.cancel_step is None
            }
        )
    assert answers[0] == answers[1]
    assert engine.kv.usage()["in_use"] == 0


if __name__ == "__main__":
    sys.exit(main())
