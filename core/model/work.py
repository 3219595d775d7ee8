"""What one step must compute and move: floating-point operations and bytes, counted from shapes.

Nothing is measured here. The counts are the least that any implementation of the same model has to
do in this step, whatever it does besides, so that time can be set against them: with a machine's
ceilings they give a roofline (Williams, Waterman & Patterson 2009: attainable FLOP/s = min(peak
FLOP/s, arithmetic intensity · memory bandwidth)).

With T tokens in the step, m of them in a sequence that has c computed before, L layers, h hidden
size, n_q and n_kv heads, d head_dim, f MLP width, V vocabulary and S sequences that sample::

    linear FLOPs     2 · T · L · (h·(n_q + 2·n_kv)·d + n_q·d·h + 3·h·f)     2·m·n·k a matrix product
    logits FLOPs     2 · S · h · V                          only the rows that are sampled from
    attention FLOPs  4 · L · n_q · d · keys                 q·k and p·v, 2·d each per query and key
                     keys = Σ over queries of the keys it may see = m·c + m·(m + 1)/2;
                     in a layer with window W the query at p sees min(p + 1, W)
    weight bytes     every matrix, bias and norm once, however many tokens use it; the matrix of
                     the logits only if S > 0; of the embedding the T rows that are looked up
    KV read          c tokens of each sequence, once; those of this step are at hand;
                     in a layer with window W at most W − 1
    KV write         the T tokens of the step
    logits bytes     S · V, written once

Causal attention needs half of a square of scores; an implementation that computes the masked half
as well does more work than is counted. Softmax, norms, rotary angles and activation functions are
O(T·h) beside O(T·h²) and are left out. So are the bytes of activations: T rows of a few thousand
numbers stay in a processor's caches (h·2 bytes is about 1 kB for the default model), and where they
do not, how often they travel depends on the implementation. Sequences that share blocks count
them once each: no kernel here reads a shared prefix once for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, fields

from core.model.config import DTYPE_BYTES, ModelConfig

SCALE_BYTES = 4
"""An int8 matrix has one float32 scale for each of its rows."""


@dataclass(frozen=True, slots=True)
class SequenceWork:
    """One sequence's part of a step, in tokens.

    num_scheduled_tokens: computed in this step. num_computed_tokens: with K and V before it.
    samples: whether logits of its last token are needed.
    """

    num_scheduled_tokens: int
    num_computed_tokens: int
    samples: bool = True


@dataclass(frozen=True, slots=True)
class StepWork:
    """Least work of a step. Whole model; FLOPs count a multiply and an add as two; bytes."""

    linear_flops: int = 0
    attention_flops: int = 0
    logits_flops: int = 0
    weight_bytes: int = 0
    kv_read_bytes: int = 0
    kv_write_bytes: int = 0
    logits_bytes: int = 0

    def __add__(self, other: StepWork) -> StepWork:
        """Of two steps, one after the other: each reads the weights anew."""
        return StepWork(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    @classmethod
    def from_dict(cls, counts: dict[str, int]) -> StepWork:
        """From what `as_dict` gives."""
        return cls(**{field.name: counts[field.name] for field in fields(cls)})

    @property
    def flops(self) -> int:
        """All floating-point operations."""
        return self.linear_flops + self.attention_flops + self.logits_flops

    @property
    def bytes(self) -> int:
        """All bytes that move between memory and processor at least once."""
        return self.weight_bytes + self.kv_read_bytes + self.kv_write_bytes + self.logits_bytes

    @property
    def arithmetic_intensity(self) -> float:
        """FLOPs per byte moved; 0 for an empty step."""
        return self.flops / self.bytes if self.bytes else 0.0

    def roofline_seconds(self, flops_per_s: float, bytes_per_s: float) -> float:
        """The shortest time a machine with these ceilings can need: compute and traffic overlap."""
        return max(self.flops / flops_per_s, self.bytes / bytes_per_s)

    def as_dict(self) -> dict[str, int]:
        """The counts by name, with their sums: what a run's step records as `work`."""
        return {**asdict(self), "flops": self.flops, "bytes": self.bytes}


class WorkCounter:
    """Counts steps of one model; what does not change from step to step is computed once.

    dtype: of activations and norms. linear: of the layers' matrices, lm_head: of the logits'
    matrix; by default the same. "int8" counts one float32 scale a row beside the numbers.
    kv_layers: bytes of one token's K and V in each layer, by default of that dtype.

    Raises ModelConfigError for an unknown dtype.
    """

    def __init__(
        self,
        config: ModelConfig,
        dtype: str,
        linear: str | None = None,
        lm_head: str | None = None,
        kv_layers: Sequence[int] | None = None,
    ) -> None:
        self.config = config
        native_kv = config.kv_bytes_per_token(dtype)
        number = DTYPE_BYTES[dtype]
        h = config.hidden_size
        matrices = layer_matrices(config)
        layers = config.num_hidden_layers
        self._linear_flops = 2 * layers * sum(rows * columns for rows, columns in matrices)
        self._attention_flops = 4 * config.num_attention_heads * config.head_dim  # of a layer
        if kv_layers is None:
            kv_layers = [native_kv // layers] * layers
        self._kv_token = sum(kv_layers)
        self._windows = Counter(config.layer_windows)  # window → layers that have it
        self._kv_windows: Counter[int | None] = Counter()  # window → bytes of a token in these
        for window, size in zip(config.layer_windows, kv_layers, strict=True):
            self._kv_windows[window] += size
        self._logits_flops = 2 * h * config.vocab_size
        self._layer_bytes = layers * (
            sum(_matrix_bytes(rows, columns, linear or dtype) for rows, columns in matrices)
            + _vector_length(config) * number
        )
        # The final norm is only applied to rows that are sampled from.
        self._head_bytes = _matrix_bytes(config.vocab_size, h, lm_head or dtype) + h * number
        self._embedding_row = h * number
        self._logits_row = config.vocab_size * number

    def count(self, sequences: Iterable[SequenceWork]) -> StepWork:
        """The work of one step with these sequences in it."""
        tokens = rows = layer_keys = kv_read = 0  # the last two summed over layers
        for part in sequences:
            tokens += part.num_scheduled_tokens
            rows += part.samples
            for window, layers in self._windows.items():
                layer_keys += layers * _keys_seen(part, window)
                in_view = part.num_computed_tokens
                seen = in_view if window is None else min(in_view, window - 1)
                kv_read += self._kv_windows[window] * seen
        weights = self._layer_bytes + tokens * self._embedding_row if tokens else 0
        return StepWork(
            linear_flops=tokens * self._linear_flops,
            attention_flops=layer_keys * self._attention_flops,
            logits_flops=rows * self._logits_flops,
            weight_bytes=weights + (self._head_bytes if rows else 0),
            kv_read_bytes=kv_read,
            kv_write_bytes=tokens * self._kv_token,
            logits_bytes=rows * self._logits_row,
        )


def _keys_seen(part: SequenceWork, window: int | None) -> int:
    """Summed over the sequence's queries: the keys that each may see in one layer."""
    m, c = part.num_scheduled_tokens, part.num_computed_tokens
    if window is None:
        return m * c + m * (m + 1) // 2
    growing = max(0, min(m, window - c))  # queries that still see all before them
    return growing * c + growing * (growing + 1) // 2 + (m - growing) * window


def _vector_length(config: ModelConfig) -> int:
    """Numbers of a layer's norms and biases."""
    h, f, d = config.hidden_size, config.intermediate_size, config.head_dim
    qkv = (config.num_attention_heads + 2 * config.num_key_value_heads) * d
    biases = qkv * config.qkv_bias + h * config.o_bias + (2 * f + h) * config.mlp_bias
    return 2 * h + biases + 2 * d * config.qk_norm


def layer_matrices(config: ModelConfig) -> list[tuple[int, int]]:
    """(rows, columns) of a layer's matrices as they are multiplied: qkv, o, gate and up, down."""
    h, f, d = config.hidden_size, config.intermediate_size, config.head_dim
    n_q, n_kv = config.num_attention_heads, config.num_key_value_heads
    return [((n_q + 2 * n_kv) * d, h), (h, n_q * d), (2 * f, h), (h, f)]


def _matrix_bytes(rows: int, columns: int, dtype: str) -> int:
    return rows * columns * DTYPE_BYTES[dtype] + (rows * SCALE_BYTES if dtype == "int8" else 0)
