"""Prefix cache as a radix tree: one node per run of blocks, tokens compared directly.

The page of the tree is a block: nodes hold whole blocks and split only between them. Every holder's
path ends where a node ends, so all blocks of a node always have the same reference count (the
node's `lock_ref`). Where two sequences computed the same prefix, the second one's table is
rewritten to the blocks of the first (the canonical ones), and its duplicates are freed.

    root ── [system prompt: blocks 0 1 2] ──┬── [question A: 3]
                                            └── [question B: 4 5]

Tokens are kept as bytes (int64, native order), so comparing a prefix is one `startswith`.

A path is always whole, also for a model with a sliding window: a block can only be evicted after
its cached children, so one given back while the blocks behind it are held could not be taken by
anybody, and would only seem to be free. With the tree such a model's blocks are therefore kept
until the sequence ends, and a hit is the whole path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from core.kv.hashing import block_keys, chain_key, root_key, short
from core.prefix.base import PrefixCache
from core.prefix.eviction import EvictionOrder, LeafFirstFIFO
from core.request import Namespace, Sequence

TOKEN_BYTES = 8


class Node:
    """A run of cached blocks. depth: blocks above it. children: by their first block's tokens.

    newest: the greatest rank in its subtree (kept under `fifo` only). namespace: of a root.
    """

    __slots__ = ("blocks", "children", "depth", "id", "namespace", "newest", "parent", "tokens")

    def __init__(
        self, node_id: int, parent: Node | None, depth: int, namespace: Namespace = (None, None)
    ) -> None:
        self.id = node_id
        self.parent = parent
        self.depth = depth
        self.namespace = namespace
        self.newest = 0
        self.tokens = bytearray()
        self.blocks: list[int] = []
        self.children: dict[bytes, Node] = {}


class RadixPrefixCache(PrefixCache):
    """See the module's docstring. Adapters and salts have roots of their own and share no node."""

    keeps_whole_paths = True
    _leaf_first: LeafFirstFIFO | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._page = self.block_size * TOKEN_BYTES
        self._roots: dict[Namespace, Node] = {}
        self._node_of: dict[int, Node] = {}
        self._depth_of: dict[int, int] = {}
        self._num_nodes = 0
        self._key_of: dict[int, bytes] = {}  # filled when a trace asks

    def _fifo_order(self) -> EvictionOrder:
        self._leaf_first = LeafFirstFIFO(self)
        return self._leaf_first

    def match(self, seq: Sequence, max_blocks: int) -> list[int]:
        found: list[int] = []
        node = self._roots.get(seq.request.namespace)
        if node is None:
            return found
        page = self._page
        data = seq.tokens[: max_blocks * self.block_size].tobytes()
        while True:
            position = len(found) * page
            child = node.children.get(data[position : position + page])
            if child is None:
                return found
            if data.startswith(child.tokens, position):
                found += child.blocks
                node = child
            else:
                found += child.blocks[: self._common_blocks(child, data, position)]
                return found

    def lock(self, seq: Sequence, blocks: list[int]) -> None:
        super().lock(seq, blocks)
        if blocks:
            node = self._node_of[blocks[-1]]
            length = self._depth_of[blocks[-1]] - node.depth + 1
            if length < len(node.blocks):
                self._split(node, length)

    def insert(self, seq: Sequence, start: int, stop: int) -> None:
        table = seq.block_table
        page = self._page
        data = seq.tokens[start * self.block_size : stop * self.block_size].tobytes()
        node = self._node_of[table[start - 1]] if start else self._root(seq.request.namespace)
        duplicates: list[int] = []
        position = 0
        while position < len(data):
            child = node.children.get(data[position : position + page])
            if child is None:
                break
            length = self._common_blocks(child, data, position)
            if length < len(child.blocks):
                child = self._split(child, length)
            duplicates += self._use_canonical(seq, start + position // page, child.blocks)
            position += length * page
            node = child
        if duplicates:
            self._free_duplicates(seq, duplicates)
        if position < len(data):
            self._append(seq, node, start + position // page, data[position:])
        seq.num_cached_blocks = stop

    def rewrites(self, filled: Iterable[tuple[Sequence, int, int]]) -> set[str]:
        found: set[str] = set()
        earlier: set[bytes] = set()  # keys of what those before would have cached by then
        for seq, start, stop in filled:
            first = seq.tokens[start * self.block_size : (start + 1) * self.block_size].tobytes()
            if start:
                above = self._node_of.get(seq.block_table[start - 1])
            else:
                above = self._roots.get(seq.request.namespace)
            keys = block_keys(seq, stop, self.block_size)[start:stop]
            if (above is not None and first in above.children) or not earlier.isdisjoint(keys):
                found.add(seq.id)
            earlier.update(keys)
        return found

    def forget(self, block: int) -> None:
        node = self._node_of[block]
        assert node.blocks[-1] == block and not node.children, "only a leaf's last block can go"
        parent_block = self.parent_block(block) if self._leaf_first is not None else None
        first = bytes(node.tokens[: self._page])
        del node.tokens[-self._page :]
        node.blocks.pop()
        del self._node_of[block]
        self._key_of.pop(block, None)
        if not node.blocks:
            above = node.parent
            assert above is not None
            del above.children[first]
            if above.parent is None and not above.children:
                # Salts come and go: a root for each that ever came would be kept for ever.
                del self._roots[above.namespace]
        self._unmark(block)
        if self._leaf_first is not None:
            self._lower_newest(node, self.rank(block))
            if parent_block is not None:
                self._leaf_first.child_gone(parent_block)

    def uncache(self, seq: Sequence, block: int) -> None:
        """Also whatever was cached behind the block: no prefix leads there any more."""
        for child in tuple(self.children(block)):
            self.uncache(seq, child)
        super().uncache(seq, block)

    def children(self, block: int) -> Iterable[int]:
        """The cached blocks that directly follow this one."""
        node = self._node_of[block]
        place = self._depth_of[block] - node.depth + 1
        if place < len(node.blocks):
            return (node.blocks[place],)
        return [child.blocks[0] for child in node.children.values()]

    def is_leaf(self, block: int) -> bool:
        """No cached block follows this one."""
        node = self._node_of[block]
        return node.blocks[-1] == block and not node.children

    def newest_rank(self, block: int) -> int:
        """The greatest rank among the block and those that follow it (under `fifo` only)."""
        return self._node_of[block].newest

    def describe(self, block: int) -> dict[str, Any]:
        node = self._node_of[block]
        place = self._depth_of[block] - node.depth
        tokens = bytes(node.tokens[place * self._page : (place + 1) * self._page])
        parent = self.parent_block(block)
        return {
            "tokens": memoryview(tokens).cast("q").tolist(),
            "key": short(self._key(block)),
            "parent_key": None if parent is None else short(self._key(parent)),
        }

    def tree(self) -> list[dict[str, Any]]:
        return [
            {
                "id": node.id,
                "parent": None if node.depth == 0 else parent.id,
                "tokens": memoryview(bytes(node.tokens)).cast("q").tolist(),
                "blocks": list(node.blocks),
                "lock_ref": self.pool.ref_counts[node.blocks[0]],
            }
            for parent, node in sorted(self._nodes(), key=lambda pair: pair[1].id)
        ]

    def check(self) -> None:
        super().check()
        refs = self.pool.ref_counts
        seen: list[int] = []
        for parent, node in self._nodes():
            seen += node.blocks
            assert node.blocks and len(node.tokens) == len(node.blocks) * self._page
            assert len({refs[b] for b in node.blocks}) == 1, "one lock_ref per node"
            assert node.parent is parent
            assert parent.children[bytes(node.tokens[: self._page])] is node
            assert node.depth == parent.depth + len(parent.blocks)
            assert all(refs[c.blocks[0]] <= refs[node.blocks[0]] for c in node.children.values())
            for i, block in enumerate(node.blocks):
                assert self._node_of[block] is node and self._depth_of[block] == node.depth + i
        assert sorted(seen) == sorted(self._node_of)
        assert self._node_of.keys() == {b for b, m in enumerate(self.pool.matchable) if m}

    def _nodes(self) -> Iterator[tuple[Node, Node]]:
        """(parent, node) of every node but the roots."""
        stack = list(self._roots.values())
        while stack:
            parent = stack.pop()
            stack.extend(parent.children.values())
            for node in parent.children.values():
                yield parent, node

    def parent_block(self, block: int) -> int | None:
        """The block before this one in its prefix; None for a first block."""
        node = self._node_of[block]
        place = self._depth_of[block] - node.depth
        if place:
            return node.blocks[place - 1]
        assert node.parent is not None
        return node.parent.blocks[-1] if node.parent.blocks else None

    def _key(self, block: int) -> bytes:
        """The chained key that the hash cache would use; the tree itself needs none."""
        path: list[int] = []
        above: int | None = block
        while above is not None and above not in self._key_of:
            path.append(above)
            above = self.parent_block(above)
        for one in reversed(path):
            node = self._node_of[one]
            start = (self._depth_of[one] - node.depth) * self._page
            parent = self.parent_block(one)
            self._key_of[one] = chain_key(
                root_key(self._namespace(node)) if parent is None else self._key_of[parent],
                bytes(node.tokens[start : start + self._page]),
            )
        return self._key_of[block]

    def _namespace(self, node: Node) -> Namespace:
        top = node
        while top.parent is not None:
            top = top.parent
        return top.namespace

    def _root(self, namespace: Namespace) -> Node:
        if namespace not in self._roots:
            self._roots[namespace] = Node(-1, None, 0, namespace)
        return self._roots[namespace]

    def _new_node(self, parent: Node, depth: int) -> Node:
        node = Node(self._num_nodes, parent, depth)
        self._num_nodes += 1
        return node

    def _common_blocks(self, node: Node, data: bytes, position: int) -> int:
        """Leading blocks of `node` whose tokens stand in `data` at `position`; at least 1."""
        page = self._page
        if data.startswith(node.tokens, position):
            return len(node.blocks)
        low, high = 1, min(len(node.blocks), (len(data) - position) // page)
        while low < high:  # the first block is known to match; halve the rest
            middle = (low + high + 1) // 2
            if data.startswith(node.tokens[: middle * page], position):
                low = middle
            else:
                high = middle - 1
        return low

    def _split(self, node: Node, length: int) -> Node:
        """Move the first `length` blocks of `node` to a new parent of it, and return that."""
        assert node.parent is not None and 0 < length < len(node.blocks)
        cut = length * self._page
        upper = self._new_node(node.parent, node.depth)
        upper.tokens, upper.blocks = node.tokens[:cut], node.blocks[:length]
        node.parent.children[bytes(upper.tokens[: self._page])] = upper
        node.tokens, node.blocks = node.tokens[cut:], node.blocks[length:]
        node.parent, node.depth = upper, node.depth + length
        upper.children[bytes(node.tokens[: self._page])] = node
        upper.newest = node.newest
        for block in upper.blocks:
            self._node_of[block] = upper
        if self.emit is not None:
            self.emit(("node_split", node.id, upper.id, length))
        return upper

    def _use_canonical(self, seq: Sequence, start: int, canonical: list[int]) -> list[int]:
        """Rewrite table entries from `start` on to the canonical blocks; the duplicates."""
        table = seq.block_table
        own = table[start : start + len(canonical)]
        if own == canonical:
            return []
        assert not set(own) & set(canonical)
        self.pool.touch(canonical)
        table[start : start + len(canonical)] = canonical
        if self.emit is not None:
            self.emit(("block_shared", seq.request.id, seq.id, "canonical", list(canonical), start))
        return own

    def _free_duplicates(self, seq: Sequence, duplicates: list[int]) -> None:
        duplicates.reverse()
        self.pool.free(duplicates)
        if self.emit is not None:
            refs = self.pool.ref_counts
            for to, blocks in (
                ("held", [b for b in duplicates if refs[b]]),
                ("front", [b for b in duplicates if not refs[b]]),
            ):
                if blocks:
                    self.emit(
                        ("blocks_freed", seq.request.id, seq.id, "duplicate", blocks, to, None)
                    )

    def _append(self, seq: Sequence, node: Node, start: int, data: bytes) -> None:
        """Cache table entries from `start` on behind `node`, in place if it is ours alone."""
        blocks = seq.block_table[start : start + len(data) // self._page]
        refs = self.pool.ref_counts
        alone = (
            node.parent is not None
            and not node.children
            and refs[node.blocks[-1]] == refs[blocks[0]] == 1
        )
        target = node if alone else self._new_node(node, node.depth + len(node.blocks))
        if not alone:
            node.children[data[: self._page]] = target
        target.tokens += data
        target.blocks += blocks
        for i, block in enumerate(blocks, start):
            self._node_of[block] = target
            self._depth_of[block] = i
            self._mark(block)
        if self._leaf_first is not None:
            self._raise_newest(target)
        if self.emit is not None:
            parent = None if alone else node.id
            self._emit_cached(seq, blocks, start, target.id, parent)

    def _raise_newest(self, node: Node) -> None:
        """The last block of `node` has just been cached: it is the newest of all above it too."""
        newest = self.rank(node.blocks[-1])
        above: Node | None = node
        while above is not None:
            above.newest = newest
            above = above.parent

    def _lower_newest(self, node: Node, gone: int) -> None:
        """The leaf of rank `gone` has left `node`: correct those that had it as their newest."""
        above: Node | None = node
        while above is not None and above.newest == gone:
            if above.children:
                above.newest = max(child.newest for child in above.children.values())
            elif above.blocks:
                above.newest = self.rank(above.blocks[-1])
            above = above.parent
