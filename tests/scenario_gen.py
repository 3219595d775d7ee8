"""Small random scenarios that stress every rule of the specification.

    random_scenario(rng) -> a valid `scenario/1` with model "none"

Pools are tiny, so that sequences fight for blocks; the vocabulary is tiny and prompts are copied,
cut and extended, so that prefixes collide; scripts use the same vocabulary, so that generated
blocks collide too. Some requests are too long or too big and are rejected on arrival: that is part
of what is tested. The same `rng` state gives the same scenario.
"""

import random

from tests.reference import simulate


def random_engine(rng: random.Random, pressure: bool) -> dict:
    block_size = rng.choice([1, 2, 2, 3, 3, 4, 4, 5])
    num_blocks = rng.choice([rng.randint(3, 8), rng.randint(5, 12), rng.randint(8, 24)])
    slots = num_blocks * block_size
    # Lengths around the size of the pool: below it most requests fit, above it some cannot.
    max_model_len = max(
        4, min(40, rng.choice([slots // 2, slots, slots + rng.randint(1, 6), rng.randint(6, 40)]))
    )
    if pressure:
        max_model_len = max(4, min(60, slots + rng.randint(-3, 3)))
    allocator = "contiguous" if not pressure and rng.random() < 0.25 else "paged"
    chunked = rng.random() < 0.75
    if chunked:
        budget = rng.choice(
            [rng.randint(1, 4), rng.randint(3, 10), rng.randint(8, 24), rng.randint(24, 80)]
        )
    else:
        budget = max_model_len + rng.choice([0, rng.randint(0, 6), rng.randint(0, 40)])
    engine = {
        "num_blocks": num_blocks,
        "block_size": block_size,
        "max_num_seqs": rng.choice([1, 2, 3, 3, 4, 4, 5, 6, 6]),
        "max_num_batched_tokens": budget,
        "max_model_len": max_model_len,
        "allocator": allocator,
        "prefix_cache": "off"
        if allocator == "contiguous"
        else rng.choice(["radix"] * 4 + ["hash"] * 4 + ["off"]),
        "eviction": rng.choice(["lru", "fifo", "lfu"]),
        "batching": "static" if rng.random() < 0.25 else "continuous",
        "policy": rng.choice(["fcfs", "priority"]),
        "chunked_prefill": chunked,
        "long_prefill_token_threshold": rng.choice([0, 0, 0, 1, 2, 3, 5, 8]),
        "watermark": rng.choice(
            [0.0, 0.0, 0.0, 0.01, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.5, 0.7, 1.0]
        ),
    }
    if pressure:
        # Many run at once, admitted as tightly as the rules allow, so that growth must preempt.
        engine["max_num_seqs"] = rng.choice([2, 3, 4, 5, 6, 6])
        engine["watermark"] = rng.choice([0.0, 0.0, 0.0, 0.0, 0.1, 0.2])
        if chunked and rng.random() < 0.5:
            engine["max_num_batched_tokens"] = rng.randint(4, 12)
            engine["long_prefill_token_threshold"] = rng.choice([0, 1, 1, 2])
    if allocator == "contiguous":
        engine["reserve"] = rng.choice(["max_model_len", "request", "request"])
        engine["max_num_seqs"] = rng.choice([2, 4, 6, 6])
        engine["num_blocks"] = num_blocks = max(num_blocks, rng.randint(6, 24))
        engine["block_size"] = block_size = min(block_size, 3)
        if engine["reserve"] == "max_model_len" and rng.random() < 0.7:
            # Room for two or three reservations.
            engine["max_model_len"] = max_model_len = max(
                4, min(max_model_len, slots // rng.choice([2, 3]))
            )
    # A missing field has its default: leave some out where that keeps the scenario valid.
    for field, default in (
        ("allocator", "paged"),
        ("prefix_cache", "radix"),
        ("eviction", "lru"),
        ("batching", "continuous"),
        ("policy", "fcfs"),
        ("chunked_prefill", True),
        ("long_prefill_token_threshold", 0),
        ("watermark", 0.0),
        ("reserve", "max_model_len"),
    ):
        if engine.get(field) == default and rng.random() < 0.3:
            del engine[field]
    return engine


def random_tokens(rng, vocabulary, length):
    return [rng.choice(vocabulary) for _ in range(length)]


def random_prompt(rng, vocabulary, longest, earlier):
    """New, or equal to an earlier sequence, or a piece of one, or one with a new tail."""
    fresh = random_tokens(rng, vocabulary, rng.randint(1, longest))
    kind = rng.random()
    if not earlier or kind < 0.25:
        return fresh
    base = rng.choice(earlier)
    if kind < 0.50:
        prompt = list(base)
    elif kind < 0.65:
        prompt = base[: rng.randint(1, len(base))]
    elif kind < 0.90:
        prompt = base + random_tokens(rng, vocabulary, rng.randint(1, 6))
    else:
        prompt = base[: rng.randint(1, len(base))] + fresh
    return prompt[:longest]


def random_requests(rng: random.Random, engine: dict, pressure: bool) -> list:
    block_size, num_blocks = engine["block_size"], engine["num_blocks"]
    max_model_len, max_num_seqs = engine["max_model_len"], engine["max_num_seqs"]
    vocabulary = list(range(1, rng.choice([1, 2, 2, 2, 3]) + 1))
    if rng.random() < 0.15:
        vocabulary = [97, 98][: len(vocabulary)]  # tokens that text prompts can share
    longest = max(
        1, min(max_model_len - 1, (num_blocks - 1) * block_size, rng.choice([4, 8, 12, 20, 30]))
    )
    salts = rng.choice([[None]] * 3 + [[None, "s"], ["s", "t"]])
    adapters = rng.choice([[None]] * 3 + [[None, "s"], ["x", "y"]])
    priorities = rng.choice([[0], [0, 1], [0, 1, 2, 3], [-1, 0, 5]])
    spread = rng.choice([0, 1, 3, 6, 12, 25])
    scripted = rng.choice([0.0, 0.7, 0.9, 1.0])
    forks = rng.choice([0.0, 0.2, 0.5, 0.8])
    cancels = rng.choice([0.0, 0.0, 0.15, 0.4])
    stops = rng.choice([0.0, 0.0, 0.1, 0.3])
    longest_output = rng.choice([3, 6, 12, 20])
    if pressure:
        slots = num_blocks * block_size
        longest = max(1, min(longest, rng.choice([slots // 4, slots // 3, slots // 2])))
        longest_output = max(2, min(40, rng.choice([slots // 2, slots])))
        spread = rng.choice([0, 1, 3, 6])
    if engine.get("batching") == "static":
        cancels = rng.choice([0.0, 0.3, 0.6])
    if engine.get("allocator") == "contiguous":
        # Different lengths, ending at different times, leave holes.
        slots = num_blocks * block_size
        longest = max(1, min(longest, rng.choice([2, slots // 6, slots // 3])))
        longest_output = max(3, rng.choice([slots // 5, slots // 4, slots // 2]))
        spread = rng.choice([0, 3, 6])
        cancels = rng.choice([0.0, 0.3])
    gap = rng.random() < 0.1
    burst = rng.random() < 0.2  # equal prompts in one step
    slow = pressure and engine.get("long_prefill_token_threshold") and rng.random() < 0.5
    late_urgent = rng.random() < 0.3  # the later it arrives, the more urgent and the longer
    requests, earlier = [], []
    for place in range(rng.choice([1, 2, 3, 4, 5, 6, 7, 8, 10, 12])):
        request = {"id": chr(ord("A") + place), "arrive_step": rng.randint(0, spread)}
        if gap and place % 3 == 2:
            request["arrive_step"] += 40  # steps in which nothing runs
        prompt = random_prompt(rng, vocabulary, longest, earlier)
        if late_urgent and request["arrive_step"] > spread // 2:
            prompt = (prompt + random_tokens(rng, vocabulary, longest))[
                : max(longest, max_model_len // 2)
            ]
        if slow and place % 2:
            # A long prompt in small chunks, preempted before its first token.
            prompt = (prompt + random_tokens(rng, vocabulary, max_model_len))[
                : max(longest, max_model_len // 3)
            ]
        if burst and requests:
            prompt = list(earlier[0]) if earlier else prompt
            if rng.random() < 0.8:
                request["arrive_step"] = requests[0]["arrive_step"]
        odd = rng.random()
        if odd < 0.01:
            prompt = []
        elif odd < 0.02:
            prompt = random_tokens(rng, vocabulary, max_model_len + rng.choice([-1, 0, 1]))
        if rng.random() < 0.1 and all(token in (97, 98) for token in prompt):
            request["prompt"] = bytes(prompt).decode("ascii")
        elif rng.random() < 0.01:
            request["prompt"] = "é" * rng.randint(1, 3)
            prompt = list(request["prompt"].encode("utf-8"))
        else:
            request["prompt_tokens"] = prompt
        max_tokens = rng.randint(longest_output // 2 if pressure else 1, longest_output)
        if rng.random() < 0.95:
            # Keep what can never fit rare: it ends at once and tests nothing else.
            max_tokens = max(1, min(max_tokens, num_blocks * block_size - len(prompt)))
        n = 1
        if engine.get("allocator") != "contiguous" and rng.random() < (
            0.8 if slow and place % 2 else forks
        ):
            n = rng.choice([2, 2, 3])
            if rng.random() < 0.95:
                n = min(n, max_num_seqs)
            if n > 1 and rng.random() < 0.9:
                whole = len(prompt) // block_size
                each = (num_blocks - whole) // n  # blocks for the rest of each sequence
                max_tokens = max(1, min(max_tokens, (whole + each) * block_size - len(prompt) + 1))
        request["max_tokens"] = max_tokens
        if n > 1 or rng.random() < 0.3:
            request["n"] = n
        if rng.random() < scripted:
            common = random_tokens(rng, vocabulary, longest_output)
            scripts = []
            for _ in range(n):
                script = (
                    list(common)
                    if rng.random() < 0.5
                    else random_tokens(rng, vocabulary, longest_output)
                )
                if rng.random() < 0.3:
                    script = script[: rng.randint(1, len(script))]
                scripts.append(script)
            request["output_tokens"] = scripts[0] if n == 1 else scripts
            if not burst:
                earlier += [prompt + script for script in scripts]
        if prompt:
            earlier.append(prompt)
        if rng.random() < stops:
            request["stop_token_ids"] = rng.choice([[vocabulary[-1]], [vocabulary[0], 99], [99]])
            if rng.random() < 0.2:
                request["ignore_eos"] = True
        priority = rng.choice(priorities)
        if late_urgent and rng.random() < 0.8:
            priority = max(0, spread - request["arrive_step"])
        if priority or rng.random() < 0.3:
            request["priority"] = priority
        salt, adapter = rng.choice(salts), rng.choice(adapters)
        if salt is not None:
            request["cache_salt"] = salt
        if adapter is not None:
            request["adapter"] = adapter
        if rng.random() < cancels:
            request["cancel_step"] = request["arrive_step"] + rng.randint(1, 15)
        requests.append(request)
    if rng.random() < 0.3:
        rng.shuffle(requests)
    return requests


def random_scenario(rng: random.Random) -> dict:
    pressure = rng.random() < 0.5
    engine = random_engine(rng, pressure)
    return {
        "schema": "scenario/1",
        "name": "random",
        "seed": 0,
        "engine": engine,
        "model": "none",
        "requests": random_requests(rng, engine, pressure),
    }


def with_forks(rng: random.Random, scenario: dict) -> dict:
    """The scenario with up to five requests more, each of which forks off one before it.

    Most name a sequence that runs when they arrive, some of them one that computes its tokens again
    after a preemption; a few come too early, too late, or with nothing left to sample, and are
    rejected.
    """
    engine = dict(scenario["engine"], batching="continuous")
    engine["max_num_seqs"] += rng.randint(0, 3)
    if engine.get("chunked_prefill", True) and rng.random() < 0.4:
        engine["long_prefill_token_threshold"] = rng.choice([1, 2])  # long ways back from victim
    if engine.get("allocator") == "contiguous":
        engine = dict(engine, allocator="paged", prefix_cache=rng.choice(["radix", "hash", "off"]))
    requests = list(scenario["requests"])
    vocabulary = [1, 2]
    for place in range(rng.randint(1, 5)):
        running, again, preempted = [], [], set()
        for record in simulate({**scenario, "engine": engine, "requests": requests}):
            running += [(record["step"], name) for name in record["state"]["running"]]
            again += [(record["step"], name) for name in record["scheduled"] if name in preempted]
            preempted |= {name for kind, name, _ in record["decisions"] if kind == "preempted"}
        if not running:
            break
        step, name = rng.choice(again if again and rng.random() < 0.5 else running)
        request = {
            "id": f"F{place}",
            "fork_of": name,
            "arrive_step": max(0, step + rng.choice([1, 1, 1, 1, 1, 1, 0, 2])),
            "max_tokens": rng.choice([4, 8, 12, 16]),
            "priority": rng.choice([0, 0, 1, 2]),
        }
        if rng.random() < 0.6:
            request["output_tokens"] = random_tokens(rng, vocabulary, rng.randint(4, 16))
        if rng.random() < 0.2:
            request["cancel_step"] = request["arrive_step"] + rng.randint(1, 9)
        requests.append(request)
    return {**scenario, "engine": engine, "requests": requests}
