"""What of a model its memory and time depend on: a list of layers, each with what it caches.

Geometry comes from fields of `config.json`, never from a model's name. All counts are numbers of
elements, not bytes: bytes need a format (`formats`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True, slots=True)
class KVHeads:
    """Keys and values of n_kv heads, per token: MHA, GQA (Ainslie 2023), MQA (Shazeer 2019).

    window: None if the layer keeps every token; otherwise at most so many are ever read (sliding
    or chunked attention), so at most so many are kept.
    """

    num_kv_heads: int
    key_dim: int
    value_dim: int
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Latent:
    """MLA (DeepSeek-V2, 2024): one latent and one rotary key per token for all heads; no V."""

    latent_dim: int
    rope_dim: int
    window: int | None = None


@dataclass(frozen=True, slots=True)
class FixedState:
    """What a layer keeps per sequence, whatever its length: linear attention, state space, conv.

    parts: (name, elements, bytes per element or None for the KV cache's own format).
    """

    kind: str  # "linear_attention", "state_space", "convolution"
    parts: tuple[tuple[str, int, int | None], ...]

    @property
    def elements(self) -> int:
        return sum(count for _, count, _ in self.parts)


@dataclass(frozen=True, slots=True)
class SharedKV:
    """Attention over another layer's keys and values (cross-layer): keeps nothing itself."""

    layer: int


LayerCache = KVHeads | Latent | FixedState | SharedKV | None
"""None: a layer without a mixer of its own (an MLP-only layer)."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder layer.

    cache: the main cache. state: fixed state beside it (a hybrid layer with both). indexer_dim:
    elements per token that a sparse-attention indexer keeps in addition (DeepSeek-V3.2), 0 if none.
    num_query_heads, query_dim (of the scores), output_dim (of the values): for FLOPs; 0 heads
    if the layer has no softmax attention. indexer_heads: of the indexer, whose scores meet every
    key. top_k: of all tokens kept so many are attended to, chosen by this layer's indexer or by
    one below; None if all are.
    """

    cache: LayerCache
    num_query_heads: int = 0
    query_dim: int = 0
    output_dim: int = 0
    state: FixedState | None = None
    indexer_dim: int = 0
    indexer_heads: int = 0
    top_k: int | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """Parameters where they are: so many in each of the named layers.

    vectors: those of them that are in no matrix (norms, biases, tables that are looked up).
    Embeddings are with the first layer, the final norm and the head with the last. once: the layers
    use the same ones, which a pipeline stage holds once if it has any of these layers: a tied
    table, a block that several layers share.
    """

    params: int
    layers: tuple[int, ...]
    vectors: int = 0
    once: bool = False

    def within(self, start: int, stop: int) -> int:
        """How many times they are in the layers from start to stop."""
        number = sum(start <= layer < stop for layer in self.layers)
        return min(number, 1) if self.once else number


LOOKED_UP = ("position embedding", "per-layer embedding")
"""Parts of which a token takes a row, beside that of the embedding itself."""


@dataclass(frozen=True, slots=True)
class ParameterPart:
    """One line of a parameter count: "attention", "experts", "norms" …, all layers together.

    params, active, matmul: as in `ModelSpec`, of this part. vectors, placed: as in `Placed`; empty
    if it is not known where they are.
    """

    name: str
    params: int
    active: int
    matmul: int
    vectors: int = 0
    placed: tuple[Placed, ...] = ()

    def within(self, start: int, stop: int) -> tuple[int, int]:
        """(in matrices, in none) of the layers from start to stop."""
        times = [(placed, placed.within(start, stop)) for placed in self.placed]
        vectors = sum(placed.vectors * n for placed, n in times)
        return sum(placed.params * n for placed, n in times) - vectors, vectors


@dataclass(frozen=True, slots=True)
class Quantised:
    """How the config says that the published weights are quantised.

    method: the config's word. dtype: the format, None if that is not understood. parts: names of
    those whose matrices are in it; all else is in 16 bits. group_size: numbers to one scale of
    scale_bytes and one zero point of zero_bytes; None if scales are too few to count. notes: what
    is not taken into account.
    """

    method: str
    dtype: str | None
    parts: tuple[str, ...] = ()
    group_size: int | None = None
    scale_bytes: float = 2
    zero_bytes: float = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModelSpec:
    """A model as the sizing functions see it.

    params: exact number of parameters of the language model by the config; None if the config's
    architecture is one whose tensors are not known here (`params_note` then says so).
    active_params: those that one token's forward pass multiplies by: total less the experts that
    the token does not visit (embedding table counted as the sources count it: included).
    matmul_params: those in matrices that each token is multiplied by, for exact FLOPs: active less
    the embedding lookup, norms and biases; the tied head counts.
    nominal_params: the number in the model's published name or card, if it has one (70e9).
    warnings: fields that are not known and could matter. notes: what was set aside, and why.
    source: where the config is from.
    """

    name: str
    architecture: str  # model_type
    layers: tuple[Layer, ...]
    hidden_size: int
    vocab_size: int
    max_position: int | None
    tied_embeddings: bool
    params: int | None
    active_params: int | None
    matmul_params: int | None
    params_note: str = ""
    parts: tuple[ParameterPart, ...] = ()
    """Where the parameters are; empty if `params` is None. Their sums are the three counts."""
    nominal_params: float | None = None
    checkpoint_dtype: str | None = None  # "bf16", as the config states it
    quantised: Quantised | None = None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    source: str = ""
    fields: dict[str, object] = field(default_factory=dict, compare=False)
    """Geometry by its short names, for agreement checks and display: n_layers, n_heads, n_kv_heads,
    d_head, d_model, d_ff, d_latent, d_rope, window … Only what is the same in all layers."""

    @cached_property
    def layer_groups(self) -> tuple[tuple[Layer, int], ...]:
        """Each kind of layer once, with how many there are, in order of first appearance."""
        return tuple(Counter(self.layers).items())

    @cached_property
    def amounts(self) -> tuple[tuple[str, int, int], ...]:
        """(part, parameters in matrices, parameters in none) of each part; empty if not known."""
        parts = self.parts
        return tuple((part.name, part.params - part.vectors, part.vectors) for part in parts)

    @cached_property
    def met(self) -> tuple[tuple[str, int, int], ...]:
        """The same of those that one token meets; of tables, that of the embedding alone."""
        parts = [part for part in self.parts if part.name not in LOOKED_UP]
        bare = [max(0, part.active - part.matmul) for part in parts]
        return tuple(
            (part.name, part.active - vectors, vectors)
            for part, vectors in zip(parts, bare, strict=True)
        )

    @cached_property
    def looked_up(self) -> int:
        """Parameters in further tables of which a token takes a row: no work, and hardly read."""
        return sum(part.params for part in self.parts if part.name in LOOKED_UP)

    @property
    def num_layers(self) -> int:
        return len(self.layers)
