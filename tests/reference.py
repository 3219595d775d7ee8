"""A reference simulator: a deliberately naive, slow, literal reading of the specification.

The differential tests run it beside the production scheduler and block manager and demand that
every step agrees. Clarity comes before speed: everything is recomputed from first principles each
time. Reference counts are counted from the block tables, the tree is a dict of cached paths,
`free_order` takes block after block from a copy of the pool, *owed* is summed anew for every try.
It imports nothing but the standard library and shares no code with what it checks.

    simulate(scenario) -> [record of step 0, record of step 1, ...]

The scenario is a valid `scenario/1` with model "none". `count`, if given, is a Counter that
receives how often each rule of the specification was met, to see what a set of scenarios covers.
`window`, if given: every layer of the model sees only that many last tokens.
"""

import copy
import math
from collections import Counter
from decimal import Decimal

ENGINE_DEFAULTS = {
    "num_blocks": 16,
    "block_size": 4,
    "max_num_seqs": 8,
    "max_num_batched_tokens": 64,
    "max_model_len": 64,
    "allocator": "paged",
    "reserve": "max_model_len",
    "prefix_cache": "radix",
    "eviction": "lru",
    "batching": "continuous",
    "policy": "fcfs",
    "chunked_prefill": True,
    "long_prefill_token_threshold": 0,
    "preemption": "recompute",
    "watermark": 0.0,
    "kv_cache": True,
    "kv_dtype": "model",
}

REQUEST_DEFAULTS = {
    "arrive_step": 0,
    "prompt": None,
    "prompt_tokens": None,
    "fork_of": None,
    "max_tokens": 8,
    "n": 1,
    "stop_token_ids": [],
    "priority": 0,
    "cache_salt": None,
    "adapter": None,
    "cancel_step": None,
    "output_tokens": None,
}


def ceil_div(a, b):
    return -(-a // b)


class Sequence:
    """One sequence. Before an n > 1 request forks, its #0 is the unit that stands for all n."""

    def __init__(self, request, index, unit_of):
        self.request = request
        self.index = index
        self.id = request["ids"][index]
        self.places = unit_of  # places held: n before the fork, else 1
        self.outputs = []
        self.computed = 0  # num_computed_tokens
        self.table = []
        self.ended = False
        self.last_reason = None  # the last `waiting` reason told

    @property
    def tokens(self):
        return self.request["tokens"] + self.outputs

    @property
    def arrival(self):
        return (self.request["arrive_step"], self.request["place"], self.index)

    @property
    def urgency(self):
        return (self.request["priority"], self.arrival)


class Pool:
    """All blocks. A block's reference count is the number of table entries that name it."""

    def __init__(self, engine):
        self.engine = engine
        self.tables_of = list  # the live block tables, set by the simulation
        self.unmatchable = list(range(engine["num_blocks"]))  # ref 0, not cached; front first
        self.cached = {}  # block -> {"key", "tokens", "hits", "cached", "released", "step"}
        self.clock = 0  # numbers cachings and releases in their order

    def tick(self):
        self.clock += 1
        return self.clock

    def refs(self):
        return Counter(block for table in self.tables_of() for block in table if block != -1)

    def ref(self, block):
        return self.refs()[block]

    def idle_cached(self):
        refs = self.refs()
        return [block for block in self.cached if refs[block] == 0]

    def num_free(self):
        return len(self.unmatchable) + len(self.idle_cached())

    # -- which block goes next

    def has_cached_child(self, block):
        space, path = self.cached[block]["key"]
        bs = self.engine["block_size"]
        return any(
            s == space and len(p) == len(path) + bs and p[: len(path)] == path
            for s, p in (entry["key"] for entry in self.cached.values())
        )

    def rank(self, block):
        entry = self.cached[block]
        return {
            "lru": (entry["released"],),
            "fifo": (entry["cached"],),
            "lfu": (entry["hits"], entry["released"]),
        }[self.engine["eviction"]]

    def next_block(self, refs):
        if self.unmatchable:
            return self.unmatchable[0]
        candidates = [block for block in self.cached if refs[block] == 0]
        if self.engine["prefix_cache"] == "radix":
            candidates = [block for block in candidates if not self.has_cached_child(block)]
        return min(candidates, key=self.rank)

    def remove_next(self, refs):
        block = self.next_block(refs)
        if block in self.cached:
            del self.cached[block]  # its hits and its place in `fifo` are lost with it
        else:
            self.unmatchable.remove(block)
        return block

    def free_order(self):
        if self.engine["allocator"] == "contiguous":
            return sorted(self.unmatchable)
        trial = copy.copy(self)
        trial.unmatchable = list(self.unmatchable)
        trial.cached = dict(self.cached)
        refs = self.refs()
        return [trial.remove_next(refs) for _ in range(self.num_free())]

    # -- taking and giving back

    def take_into(self, table, count):
        """Take the next free block and put it at the end of the table."""
        refs = self.refs()
        if not self.unmatchable:
            count["evictions"] += 1
            if self.engine["prefix_cache"] == "hash" and self.has_cached_child(
                self.next_block(refs)
            ):
                count["hash: a parent goes before its child"] += 1
            count["evictions " + self.engine["prefix_cache"] + " " + self.engine["eviction"]] += 1
        table.append(self.remove_next(refs))

    def released(self, block, step):
        """The block has just lost an entry: if that was the last one, it is free now."""
        if self.ref(block) > 0:
            return
        if block in self.cached:
            self.cached[block]["released"] = self.tick()
            self.cached[block]["step"] = step
        else:
            self.unmatchable.insert(0, block)

    def release_table(self, table, step):
        while table:
            block = table.pop()
            if block != -1:
                self.released(block, step)

    # -- the prefix caches

    def lookup(self, key):
        """The cached block with this key; of several (hash cache) the one cached first."""
        same = [block for block in self.cached if self.cached[block]["key"] == key]
        return min(same, key=lambda block: self.cached[block]["cached"]) if same else None

    def insert(self, block, key, tokens):
        self.cached[block] = {
            "key": key,
            "tokens": tokens,
            "hits": 0,
            "cached": self.tick(),
            "released": None,
            "step": None,
        }

    def check(self):
        refs = self.refs()
        in_use = [block for block in refs if refs[block] > 0]
        everything = self.unmatchable + self.idle_cached() + in_use
        assert sorted(everything) == list(range(self.engine["num_blocks"])), (
            "a block is lost or doubled"
        )
        assert not set(self.unmatchable) & set(self.cached)
        if self.engine["prefix_cache"] == "radix":
            keys = [entry["key"] for entry in self.cached.values()]
            assert len(keys) == len(set(keys)), "two blocks of the tree with one path"
            for space, path in keys:
                parent = path[: -self.engine["block_size"]]
                assert not parent or (space, parent) in keys, (
                    "a block of the tree without its parent"
                )


class Simulation:
    def __init__(self, scenario, count, window):
        self.window = window
        self.engine = dict(ENGINE_DEFAULTS, **scenario.get("engine", {}))
        self.bs = self.engine["block_size"]
        # `watermark` is an exact decimal: what the file shows, not its binary neighbour.
        self.watermark = math.ceil(
            Decimal(str(self.engine["watermark"])) * self.engine["num_blocks"]
        )
        self.requests = []
        for place, raw in enumerate(scenario.get("requests", [])):
            self.requests.append(self.read_request(place, raw))
        self.to_arrive = list(self.requests)
        self.waiting = []  # in queue order, units and sequences
        self.running = []  # in order of admission, units and sequences
        self.accepted = []  # the requests that were accepted, in order of arrival
        self.pool = Pool(self.engine)
        self.pool.tables_of = lambda: [sequence.table for sequence in self.running]
        self.count = count
        self.step = 0
        self.decisions = []

    def read_request(self, place, raw):
        request = dict(REQUEST_DEFAULTS, **raw)
        request["place"] = place
        if request["fork_of"] is not None:
            for other in self.requests:
                if request["fork_of"] in other["ids"]:
                    request["tokens"] = list(other["tokens"])
                    request["cache_salt"] = other["cache_salt"]
                    request["adapter"] = other["adapter"]
        elif request["prompt_tokens"] is not None:
            request["tokens"] = list(request["prompt_tokens"])
        else:
            request["tokens"] = list((request["prompt"] or "").encode("utf-8"))
        n = request["n"]
        request["ids"] = [request["id"]] if n == 1 else [f"{request['id']}#{s}" for s in range(n)]
        scripts = request["output_tokens"]
        if not scripts:
            request["scripts"] = [None] * n
        else:
            request["scripts"] = [scripts] if n == 1 else list(scripts)
        request["sequences"] = []  # the unit alone, then all n from the fork on
        return request

    @property
    def static(self):
        return self.engine["batching"] == "static"

    @property
    def contiguous(self):
        return self.engine["allocator"] == "contiguous"

    # ------------------------------------------------------------------ the run

    def run(self):
        records = []
        # READING: "nothing is to come" means arrivals; a cancel due later changes nothing.
        while self.to_arrive or self.waiting or self.running:
            assert self.step < 20_000, "no end in sight"
            records.append(self.one_step())
            self.step += 1
        return records

    def one_step(self):
        self.decisions = []
        self.cancels()
        self.arrivals()
        self.schedule()
        self.pool.check()
        self.sample()
        self.cache_new_blocks()
        self.pool.check()
        self.give_back()
        self.pool.check()
        self.finish()
        self.pool.check()
        return self.record()

    # ------------------------------------------------------------------ 1: cancels, arrivals

    def cancels(self):
        for request in self.requests:
            if request["cancel_step"] != self.step:
                continue
            for sequence in [s for s in request["sequences"] if not s.ended]:
                self.count["cancelled"] += 1
                sequence.ended = True
                if sequence in self.waiting:
                    self.waiting.remove(sequence)
                    self.count["cancelled waiting"] += 1
                else:
                    # The tables that count are those of `running`: release first, then leave it.
                    self.pool.release_table(sequence.table, self.step)
                    self.running.remove(sequence)
                    self.count["cancelled running"] += 1
                if sequence.places > 1:
                    self.count["cancelled before the fork"] += 1
                    for id in request["ids"]:
                        self.decisions.append(["finished", id, "cancelled"])
                else:
                    self.decisions.append(["finished", sequence.id, "cancelled"])

    def arrivals(self):
        for request in self.requests:
            if request["arrive_step"] != self.step:
                continue
            self.to_arrive.remove(request)
            reason = self.rejection(request)
            if not reason and request["fork_of"] is not None:
                if self.fork_off(request):
                    self.accepted.append(request)
                    continue
                reason = "invalid"
            if reason:
                self.decisions.append(["request_rejected", request["id"], reason])
                self.count["rejected " + reason] += 1
                continue
            self.accepted.append(request)
            sequence = Sequence(request, 0, request["n"])
            request["sequences"].append(sequence)
            self.waiting.append(sequence)
        self.sort_waiting()

    def fork_off(self, request):
        """Start as a copy of the sequence it names; False if that cannot be."""
        for origin in self.running:
            if origin.id == request["fork_of"]:
                break
        else:
            self.count["fork_of: does not run"] += 1
            return False
        script = request["scripts"][0]
        inherited = len(origin.outputs)
        if origin.places > 1 or inherited == 0:
            self.count["fork_of: no token yet"] += 1
            return False
        if inherited >= request["max_tokens"] or (script and inherited >= len(script)):
            self.count["fork_of: no token left"] += 1
            return False
        if sum(s.places for s in self.running) + 1 > self.engine["max_num_seqs"]:
            self.count["fork_of: no place"] += 1
            return False
        copy = Sequence(request, 0, 1)
        copy.outputs = list(origin.outputs)
        copy.computed = origin.computed
        copy.table = list(origin.table)
        request["sequences"].append(copy)
        self.running.append(copy)
        self.count["fork_of"] += 1
        if origin.request["fork_of"] is not None:
            self.count["fork_of a fork"] += 1
        if len(origin.tokens) - origin.computed > 1:
            self.count["fork_of one that computes again"] += 1
        return True

    def sort_waiting(self):
        # Under `fcfs` arrivals come at the end, preempted ones to the front: the list is in order.
        if self.engine["policy"] == "priority":
            self.waiting.sort(key=lambda sequence: sequence.urgency)

    def reserve_blocks(self, request):
        tokens = self.engine["max_model_len"]
        if self.engine["reserve"] == "request":
            tokens = min(len(request["tokens"]) + request["max_tokens"], tokens)
        return ceil_div(tokens, self.bs)

    def rejection(self, request):
        prompt = len(request["tokens"])
        if prompt == 0:
            return "empty_prompt"
        if prompt >= self.engine["max_model_len"]:
            return "prompt_too_long"
        if self.contiguous:
            most = self.reserve_blocks(request)
        else:
            tokens = min(prompt + request["max_tokens"], self.engine["max_model_len"]) - 1
            most = ceil_div(tokens, self.bs)
            if request["n"] > 1:
                # READING: "the whole prompt blocks" are those that the prompt fills, ⌊P/bs⌋.
                whole = prompt // self.bs
                most = whole + request["n"] * (most - whole)
        if most > self.engine["num_blocks"]:
            return "exceeds_pool"
        if request["n"] > self.engine["max_num_seqs"]:
            return "invalid"
        return None

    # ------------------------------------------------------------------ 2: schedule

    def schedule(self):
        self.budget = self.engine["max_num_batched_tokens"]
        self.scheduled = []  # [sequence, n, computed before, tokens of the hit]
        self.preempted_in_step = False
        # READING: a batch forms "only in a step in which nothing runs": ended members "stay in
        # running", so while one is left something runs: no batch forms before the step after the
        # one in which they release in 6, also if cancels in 1 left only ended ones.
        self.batch_not_finished = self.static and bool(self.running)
        if self.static and self.running and all(s.ended for s in self.running):
            self.count["static: only ended members when 2 begins"] += 1
        for sequence in list(self.running):
            if sequence in self.running and not sequence.ended:
                self.schedule_running(sequence)
        self.admit()

    def chunk(self, lacking):
        n = min(lacking, self.budget)
        threshold = self.engine["long_prefill_token_threshold"]
        if threshold > 0 and self.engine["chunked_prefill"]:
            if threshold < n:
                self.count["threshold cuts"] += 1
            n = min(n, threshold)
        return n

    def writes_into_shared(self, sequence):
        index = sequence.computed // self.bs
        return index < len(sequence.table) and self.pool.ref(sequence.table[index]) > 1

    def schedule_running(self, sequence):
        n = self.chunk(len(sequence.tokens) - sequence.computed)
        if n == 0:
            self.count["running sequence skipped"] += 1
            return
        more = max(0, ceil_div(sequence.computed + n, self.bs) - len(sequence.table))
        copied_at_first, victims = self.writes_into_shared(sequence), 0
        while more + self.writes_into_shared(sequence) > self.pool.num_free():
            if not self.contiguous:
                victim = self.choose_victim()
                self.preempt(victim)
                victims += 1
                if victim is sequence:
                    self.count["preempted itself"] += 1
                    return
            else:
                raise AssertionError("contiguous allocation never preempts")
        if victims > 1:
            self.count["several victims for one"] += 1
        if copied_at_first and not self.writes_into_shared(sequence):
            self.count["a victim makes the copy needless"] += 1
        if self.writes_into_shared(sequence):
            # The copy: a free block takes the place of the shared one in this table.
            index = sequence.computed // self.bs
            self.pool.take_into(sequence.table, self.count)
            sequence.table[index] = sequence.table.pop()
            self.count["copies"] += 1
        for _ in range(more):
            self.pool.take_into(sequence.table, self.count)
        self.grant(sequence, n, 0)

    def grant(self, sequence, n, hit_tokens):
        self.scheduled.append([sequence, n, sequence.computed, hit_tokens])
        self.budget -= n
        if sequence.computed + hit_tokens + n < len(sequence.tokens):
            self.count["unfinished chunks"] += 1

    def choose_victim(self):
        candidates = [sequence for sequence in self.running if not sequence.ended]
        if self.engine["policy"] == "priority":
            return max(candidates, key=lambda sequence: sequence.urgency)
        return candidates[-1]

    def preempt(self, victim):
        self.preempted_in_step = True
        self.count["preemptions"] += 1
        self.count["preemptions " + self.engine["batching"]] += 1
        self.count["preemptions " + self.engine["policy"]] += 1
        if victim.places > 1:
            self.count["preempted before the fork"] += 1
        elif victim.request["n"] > 1:
            self.count["preempted twins"] += 1
        if any(self.pool.ref(block) > 1 for block in victim.table):
            self.count["victims that share blocks"] += 1
        for entry in list(self.scheduled):
            if entry[0] is victim:
                self.scheduled.remove(entry)
                self.budget += entry[1]
                self.count["victims already scheduled"] += 1
        self.pool.release_table(victim.table, self.step)
        self.running.remove(victim)
        victim.computed = 0
        self.waiting.insert(0, victim)
        self.sort_waiting()
        reason = "priority" if self.engine["policy"] == "priority" else "no_free_blocks"
        self.decisions.append(["preempted", victim.id, reason])

    # -- admission

    def keys(self, sequence):
        """The key of each full block of the sequence: name space and all tokens up to its end."""
        space = (("adapter", sequence.request["adapter"]), ("salt", sequence.request["cache_salt"]))
        tokens = sequence.tokens
        return [(space, tuple(tokens[:end])) for end in range(self.bs, len(tokens) + 1, self.bs)]

    def find_hit(self, sequence):
        if self.engine["prefix_cache"] == "off" or sequence.request.get("prompt_logprobs"):
            return []  # prompt log-probabilities come from computing every position
        hit = []
        keys = self.keys(sequence)[: (len(sequence.tokens) - 1) // self.bs]
        if self.window and self.engine["prefix_cache"] == "hash":
            # The longest prefix whose last blocks, as far as the window reaches, are all cached.
            reach = max(1, ceil_div(self.window - 1, self.bs))
            for length in range(len(keys), 0, -1):
                first = max(0, length - reach)
                blocks = [self.pool.lookup(key) for key in keys[first:length]]
                if None not in blocks:
                    if any(self.pool.lookup(key) is None for key in keys[:first]):
                        self.count["window: hits behind a hole"] += 1
                    return [-1] * first + blocks
            return []
        for key in keys:
            block = self.pool.lookup(key)
            if block is None:
                break
            hit.append(block)
            if len([1 for entry in self.pool.cached.values() if entry["key"] == key]) > 1:
                self.count["hash: lookups that choose among equal blocks"] += 1
        return hit

    def find_run(self, length):
        free = set(self.pool.unmatchable)
        for first in range(self.engine["num_blocks"]):
            if all(block in free for block in range(first, first + length)):
                return list(range(first, first + length))
        return None

    def owed(self):
        # READING: a unit not yet forked is one sequence with one table; its twins owe nothing yet.
        return sum(
            ceil_div(len(sequence.tokens), self.bs) - len(sequence.table)
            for sequence in self.running
            if not sequence.ended
        )

    def obstacle(self, sequence):
        """Why this head of the queue cannot be admitted now, or None."""
        if self.preempted_in_step:
            return "preemption_in_step"
        if self.batch_not_finished:
            return "batch_not_finished"
        # READING: "running sequences < max_num_seqs (n > 1 counts n)": all n must find a place.
        if sum(s.places for s in self.running) + sequence.places > self.engine["max_num_seqs"]:
            return "max_num_seqs"
        hit = self.find_hit(sequence)
        lacking = len(sequence.tokens) - len(hit) * self.bs
        if self.budget == 0:
            return "token_budget"
        if not self.engine["chunked_prefill"] and lacking > self.budget:
            self.count["unchunked prompt waits for budget"] += 1
            return "token_budget"
        if self.contiguous:
            if self.find_run(self.reserve_blocks(sequence.request)) is None:
                if self.pool.num_free() >= self.reserve_blocks(sequence.request):
                    self.count["fragmented: enough free, no run"] += 1
                return "no_contiguous_run"
            return None
        idle = self.pool.idle_cached()
        free = self.pool.num_free() - sum(block in idle for block in hit)
        owed = self.owed()
        need = ceil_div(len(sequence.tokens), self.bs) - len(hit) + owed
        if need > free:
            if need - owed <= free:
                self.count["waits only because of owed"] += 1
            if need <= free + sum(block in idle for block in hit):
                self.count["waits only because idle hits are not free"] += 1
            return "no_free_blocks"
        if self.running and need + self.watermark > free:
            return "watermark"
        return None

    def admit(self):
        while self.waiting:
            head = self.waiting[0]
            reason = self.obstacle(head)
            if reason:
                break
            self.waiting.pop(0)
            head.last_reason = None
            self.count["resumes" if head.outputs else "admissions"] += 1
            hit = self.find_hit(head)
            hit_tokens = len(hit) * self.bs
            n = self.chunk(len(head.tokens) - hit_tokens)
            self.running.append(head)
            if self.contiguous:
                head.table.extend(self.find_run(self.reserve_blocks(head.request)))
                for block in head.table:
                    self.pool.unmatchable.remove(block)
            else:
                if hit:
                    self.count["hits"] += 1
                    if any(self.pool.ref(block) == 0 for block in hit):
                        self.count["hits on idle blocks"] += 1
                    if any(self.pool.ref(block) > 0 for block in hit):
                        self.count["hits on blocks in use"] += 1
                    if len(head.tokens) == len(hit) * self.bs + self.bs:
                        self.count["hits capped or just below"] += 1
                    if head.outputs:
                        self.count["hits on resume"] += 1
                for block in hit:
                    if block != -1:
                        self.pool.cached[block]["hits"] += 1
                head.table.extend(hit)  # an idle block of the hit is in use from here on
                while len(head.table) < ceil_div(hit_tokens + n, self.bs):
                    self.pool.take_into(head.table, self.count)
            self.grant(head, n, hit_tokens)
        for place, sequence in enumerate(self.waiting):
            self.tell_waiting(sequence, reason if place == 0 else "behind_head")

    def tell_waiting(self, sequence, reason):
        if sequence.last_reason != reason:
            sequence.last_reason = reason
            self.decisions.append(["waiting", sequence.id, reason])
            self.count["waiting " + reason] += 1

    # ------------------------------------------------------------------ 4: sample

    def sample(self):
        self.turns = []  # [sequence, computed before, computed after], twins after #0
        self.sampled = []
        for sequence, n, before, hit_tokens in self.scheduled:
            start = before + hit_tokens
            sequence.computed = start + n
            self.turns.append([sequence, start, sequence.computed])
            if sequence.computed < len(sequence.tokens):
                continue  # an unfinished chunk samples nothing
            if sequence.places > 1:
                twins = self.fork(sequence)
                self.turns.extend([twin, start, sequence.computed] for twin in twins)
            else:
                twins = []
            for one in [sequence, *twins]:
                one.outputs.append(self.next_token(one))
                self.sampled.append(one)

    def fork(self, unit):
        request = unit.request
        unit.places = 1
        twins = [Sequence(request, index, 1) for index in range(1, request["n"])]
        for twin in twins:
            twin.computed = unit.computed
            twin.table = list(unit.table)
        request["sequences"].extend(twins)
        place = self.running.index(unit) + 1
        self.running[place:place] = twins
        self.count["forks"] += 1
        if unit.computed % self.bs == 0:
            self.count["forks with a full last block"] += 1
        return twins

    def next_token(self, sequence):
        j = len(sequence.outputs)
        script = sequence.request["scripts"][sequence.index]
        if script is not None:
            return script[j]
        return 10**6 * (sequence.request["place"] + 1) + 10**4 * sequence.index + j

    # ------------------------------------------------------------------ 5: cache

    def cache_new_blocks(self):
        if self.engine["prefix_cache"] == "off":
            return
        for sequence, start, end in self.turns:
            keys = self.keys(sequence)
            duplicates = []
            for index in range(len(sequence.table)):
                last_slot = (index + 1) * self.bs - 1
                if not start <= last_slot < end:
                    continue
                block = sequence.table[index]
                tokens = list(keys[index][1][-self.bs :])
                if self.engine["prefix_cache"] == "hash":
                    if block not in self.pool.cached:  # a twin finds it cached by #0
                        if self.pool.lookup(keys[index]) is not None:
                            self.count["hash: blocks side by side"] += 1
                        self.pool.insert(block, keys[index], tokens)
                        self.count["blocks cached"] += 1
                    continue
                canonical = self.pool.lookup(keys[index])
                if canonical is None:
                    self.pool.insert(block, keys[index], tokens)
                    self.count["blocks cached"] += 1
                elif canonical != block:
                    self.count["rewrites"] += 1
                    if self.pool.ref(canonical) == 0:
                        self.count["rewrites to an idle block"] += 1
                    if self.pool.ref(block) > 1:
                        self.count["rewrites of a shared duplicate"] += 1
                    if end > len(sequence.request["tokens"]):
                        self.count["rewrites of generated blocks"] += 1
                    sequence.table[index] = canonical
                    duplicates.append(block)
            if len(duplicates) > 1:
                self.count["several duplicates in one turn"] += 1
            for block in reversed(duplicates):
                self.pool.released(block, self.step)

    # ------------------------------------------------------------------ the sliding window

    def give_back(self):
        if not self.window or self.contiguous or self.engine["prefix_cache"] == "radix":
            return
        for sequence, _, _ in self.turns:
            for index in reversed(range(len(sequence.table))):
                block = sequence.table[index]
                behind = (index + 1) * self.bs <= sequence.computed - (self.window - 1)
                if block != -1 and behind:
                    sequence.table[index] = -1
                    self.pool.released(block, self.step)
                    self.count["window: given back"] += 1
                    if self.pool.ref(block):
                        self.count["window: given back, still shared"] += 1

    # ------------------------------------------------------------------ 6: finish

    def finish_reason(self, sequence):
        request = sequence.request
        script = request["scripts"][sequence.index]
        if sequence.outputs[-1] in request["stop_token_ids"]:
            return "stop_token"
        if len(sequence.outputs) >= request["max_tokens"]:
            return "max_tokens"
        if len(sequence.tokens) >= self.engine["max_model_len"]:
            return "max_model_len"
        if script is not None and len(sequence.outputs) == len(script):
            return "script_end"
        return None

    def finish(self):
        for sequence in self.sampled:
            reason = self.finish_reason(sequence)
            if reason is None:
                continue
            sequence.ended = True
            self.decisions.append(["finished", sequence.id, reason])
            self.count["finished " + reason] += 1
            if not self.static:
                self.leave(sequence)
        if self.static and all(sequence.ended for sequence in self.running):
            for sequence in list(self.running):
                self.leave(sequence)

    def leave(self, sequence):
        self.pool.release_table(sequence.table, self.step)
        self.running.remove(sequence)

    # ------------------------------------------------------------------ what is recorded

    def ids(self, sequences):
        """Sequence ids; a request not yet forked shows all n."""
        return [
            id
            for sequence in sequences
            for id in (sequence.request["ids"] if sequence.places > 1 else [sequence.id])
        ]

    def record(self):
        refs = self.pool.refs()
        refs = {block: refs[block] for block in sorted(refs)}
        idle = self.pool.idle_cached()
        outputs = {}
        for request in self.accepted:
            for index, id in enumerate(request["ids"]):
                made = request["sequences"][index : index + 1]
                outputs[id] = list(made[0].outputs) if made else []
        return {
            "step": self.step,
            "scheduled": {
                sequence.id: {
                    "num_scheduled_tokens": n,
                    "num_computed_tokens": before,
                    "num_cached_tokens": hit_tokens,
                }
                for sequence, n, before, hit_tokens in self.scheduled
            },
            "usage": {"free": len(self.pool.unmatchable), "cached": len(idle), "in_use": len(refs)},
            "state": {
                "block_tables": {s.id: list(s.table) for s in self.running if s.table},
                "ref_counts": refs,
                "free_order": self.pool.free_order(),
                "cached": {
                    block: {
                        "tokens": list(entry["tokens"]),
                        "last_used": entry["step"] if block in idle else self.step,
                        "hits": entry["hits"],
                    }
                    for block, entry in sorted(self.pool.cached.items())
                },
                "waiting": self.ids(self.waiting),
                "running": self.ids(self.running),
                "outputs": outputs,
            },
            "decisions": self.decisions,
        }


def simulate(scenario, count=None, window=None):
    """One record per step of a valid scenario with model "none"."""
    return Simulation(scenario, Counter() if count is None else count, window).run()
