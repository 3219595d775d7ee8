# ruff: noqa: E501 (a mutant is one line, however long)
"""Break the block accounting on purpose: the tests must notice each time.

Each mutant is a copy of the code with one line changed. A change that no test notices is a hole in
the tests, and a changed line that is no longer there means that this list needs care.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# fmt: off
MUTANTS = [
    # reference counts and the free list
    ("kv/block_pool.py", "                ref_counts[block] = refs + 1\n                num_held", "                ref_counts[block] = refs\n                num_held"),
    ("kv/block_pool.py", "                num_held += 1", "                num_held += 0"),
    ("kv/block_pool.py", "                num_added -= 1\n            else", "                num_added -= 0\n            else"),
    ("kv/block_pool.py", "blocks = stack[: -n - 1 : -1]", "blocks = stack[-n:]"),
    ("kv/block_pool.py", "                ref_counts[block] -= 1\n", "                ref_counts[block] -= 0\n"),
    ("kv/block_pool.py", "                if matchable[block]:\n                    following", "                if not matchable[block]:\n                    following"),
    ("kv/block_pool.py", "        previous[end] = last\n", "        previous[end] = end\n"),
    ("kv/block_pool.py", "            blocks = stack[::-1]", "            blocks = stack[:]"),
    # tables, copies
    ("kv/manager.py", "self.pool.ref_counts[table[entry]] > 1", "self.pool.ref_counts[table[entry]] > 2"),
    ("kv/manager.py", "        seq.block_table[entry] = dst\n", ""),
    ("kv/manager.py", "        self.pool.free_one(src)\n", ""),
    ("kv/manager.py", "        self.copies.append((src, dst))\n", ""),
    ("kv/manager.py", "            self.pool.touch(held_blocks(seq.block_table))\n", ""),
    ("kv/manager.py", "for block in reversed(blocks):", "for block in blocks:"),
    ("kv/manager.py", "(len(seq.tokens) - 1) // self.block_size", "len(seq.tokens) // self.block_size"),
    ("kv/manager.py", "return sum(not refs[block] for block in held_blocks(blocks))", "return 0"),
    ("kv/contiguous.py", "            self._merge(place - 1)\n", "            pass\n"),
    # caches
    ("kv/hashing.py", "parent = keys[-1] if keys else root_key(seq.request.namespace)", "parent = root_key(seq.request.namespace)"),
    ("kv/hashing.py", "return sha256(b\"root;\" + parts).digest()", "return sha256(b\"root;\").digest()"),
    ("prefix/hash_cache.py", "found.append(blocks[0])\n            parent", "found.append(blocks[-1])\n            parent"),
    ("prefix/hash_cache.py", "        blocks.remove(block)\n", "        blocks.pop()\n"),
    ("prefix/base.py", "            hits[block] += 1", "            hits[block] += 0"),
    ("prefix/base.py", "        self._num_cachings += 1\n", ""),
    ("prefix/radix_cache.py", "        duplicates.reverse()\n", ""),
    ("prefix/radix_cache.py", "        self.pool.touch(canonical)\n", ""),
    ("prefix/radix_cache.py", "                self._split(node, length)\n", "                pass\n"),
    ("prefix/radix_cache.py", "== refs[blocks[0]] == 1", "== refs[blocks[0]]"),
    ("prefix/eviction.py", "self._released, block)", "-self._released, block)"),
    ("prefix/eviction.py", "            self._leaves.add((self._tree.rank(parent), parent))", "            pass"),
    # sliding windows
    ("kv/manager.py", "self.sliding_window + 1) // self.block_size", "self.sliding_window) // self.block_size"),
    ("kv/manager.py", "self.sliding_window + 1) // self.block_size", "self.sliding_window + 2) // self.block_size"),
    ("kv/manager.py", "table[start:stop] = [GIVEN_BACK] * (stop - start)", "pass"),
    ("kv/manager.py", "while start > 0 and table[start - 1] != GIVEN_BACK:", "while start > 0 and start == stop:"),
    ("kv/manager.py", "index = len(hit) - len(blocks)", "index = 0"),
    ("kv/manager.py", "elif table:  # all of it", "elif False:  # all of it"),
    ("prefix/hash_cache.py", "                found = []\n                continue", "                continue"),
    ("prefix/hash_cache.py", "needed = max(1, -(-(window - 1) // self.block_size))", "needed = max(1, (window - 1) // self.block_size)"),
    ("prefix/hash_cache.py", "needed = max(1, -(-(window - 1) // self.block_size))", "needed = max(1, -(-window // self.block_size))"),
    ("prefix/hash_cache.py", "return found[::-1]  # nothing", "return found  # nothing"),
    ("prefix/radix_cache.py", "    keeps_whole_paths = True\n", ""),
    ("sched/outcome.py", "                advanced += holders", "                advanced += holders[:1]"),
    # scheduling
    ("sched/scheduler.py", "                    self.owed -= kv.allocate_slots(member, n)", "                    kv.allocate_slots(member, n)"),
    ("sched/admission.py", "- kv.num_idle(hit) - owed", "- kv.num_idle(hit)"),
    ("sched/scheduler.py", "        return refund\n", "        return 0\n"),
    ("sched/scheduler.py", "            seq.num_computed_tokens = 0\n", ""),
    ("sched/scheduler.py", "                    wanted = self._blocks_wanted(members, n)\n", ""),
    ("sched/outcome.py", "if stop // block_size > start // block_size:", "if stop // block_size > start // block_size + 1:"),
    ("sched/scheduler.py", "            if self._victims:\n", "            if False:\n"),
    ("sched/admission.py", "max_tokens) - 1)", "max_tokens))"),
    ("sched/admission.py", "shared + request.num_places * (total - shared)", "total"),
    # forks off running sequences
    ("sched/scheduler.py", "        self.kv.fork(origin, [seq])\n", ""),
    ("sched/scheduler.py", "        self.running.append(seq)\n        self.num_running_seqs += 1\n        self.owed += self.owed_by(seq)\n        if self.emit is not None:\n            names, blocks", "        self.running.append(seq)\n        self.num_running_seqs += 1\n        if self.emit is not None:\n            names, blocks"),
    ("sched/scheduler.py", "        position = len(self.running)\n", "        position = 0\n"),
    ("sched/admission.py", "0 < origin.num_output_tokens < most", "0 <= origin.num_output_tokens < most"),
    ("sched/admission.py", "0 < origin.num_output_tokens < most", "0 < origin.num_output_tokens <= most"),
    ("sched/admission.py", "    if num_places_left < 1:\n", "    if num_places_left < 0:\n"),
    ("request.py", "            self.namespace = parent.namespace\n", "            pass\n"),
    # steps in flight
    ("sched/outcome.py", "                if not seq.num_in_flight_tokens:\n                    self._kv.release(seq, \"finished\")", "                self._kv.release(seq, \"finished\")"),
    ("sched/scheduler.py", "            if not seq.num_in_flight_tokens:\n                self.kv.release(seq, \"cancelled\")", "            self.kv.release(seq, \"cancelled\")"),
    ("sched/outcome.py", "        if seq.status is Status.RUNNING:\n            return True\n", "        return True\n"),
    ("sched/ahead.py", "        out |= kv.cache.rewrites(filled)\n", "        pass\n"),
    ("sched/scheduler.py", "                if in_flight is not None and wanted > kv.num_free:\n", "                if False:\n"),
    ("sched/scheduler.py", "            self.owed += self._paged and item.stop % self.config.block_size == 0\n", ""),
    ("sched/preemption.py", "order = running[::-1]", "order = running[:]"),
    ("config.py", "return ceil(", "return int("),
]
# fmt: on


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what `mutant_check` needs."""
    root = tmp_path_factory.mktemp("mutants")
    ignore = shutil.ignore_patterns("__pycache__", "model", "*.png")
    shutil.copytree(ROOT / "core", root / "core", ignore=ignore)
    (root / "tests" / "core").mkdir(parents=True)
    for name in ("__init__.py", "reference.py", "scenario_gen.py"):
        shutil.copy(ROOT / "tests" / name, root / "tests" / name)
    for name in ("__init__", "compare", "memory_runner", "ahead_runner", "mutant_check"):
        shutil.copy(ROOT / "tests" / "core" / f"{name}.py", root / "tests" / "core")
    for name in ("test_differential", "test_hand_fixtures"):
        shutil.copy(ROOT / "tests" / "core" / f"{name}.py", root / "tests" / "core")
    shutil.copytree(ROOT / "tests" / "fixtures" / "hand", root / "tests" / "fixtures" / "hand")
    return root


def check(root: Path) -> subprocess.CompletedProcess[str]:
    # -B: a mutant written within the same second must not be hidden by cached bytecode.
    return subprocess.run(
        [sys.executable, "-B", "-m", "tests.core.mutant_check"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_unbroken_copy_passes(copy: Path) -> None:
    done = check(copy)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("index", range(len(MUTANTS)))
def test_mutant_is_noticed(copy: Path, index: int) -> None:
    name, old, new = MUTANTS[index]
    path = copy / "core" / name
    text = path.read_text("utf-8")
    assert text.count(old) == 1, f"{name} has the line {text.count(old)} times: {old!r}"
    try:
        path.write_text(text.replace(old, new), "utf-8")
        done = check(copy)
    finally:
        path.write_text(text, "utf-8")
    assert done.returncode == 1, f"nobody noticed {old!r} → {new!r} in {name}\n{done.stderr}"
