"""What is planned: a model on GPUs with an engine's settings, and what is known of its traffic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.sizing import blocks, checks, kv_format, kv_layers, layout, stored, tiers
from core.sizing.errors import SizingError
from core.sizing.geometry import ModelSpec
from core.sizing.gpus import GpuSpec
from core.sizing.kv_format import KVDtype, KVFormat
from core.sizing.layout import Layout
from core.sizing.pool import DEFAULT_MAX_NUM_SEQS, DEFAULT_UTILIZATION
from core.sizing.stored import Stored, WeightDtype

ALLOCATORS, EVICTIONS = ("paged", "contiguous"), ("lru", "fifo", "lfu")

_MOST_TOKENS, _MOST_SEQS = 1 << 30, 1 << 20


@dataclass(frozen=True)
class Deployment:
    """Inputs of a plan; all but the model and the GPU have a default. Refused by field name.

    Hardware: tp GPUs of each of pp stages, dp replicas; attention_dp groups of one replica;
    stages, the layers of each stage where they do not divide evenly.
    context: tokens of each sequence. prompt: of them, how many are prefilled (all). prefix_tokens:
    of them, how many all sequences share. max_model_len: the longest allowed sequence, which a
    contiguous allocator reserves (the model's own limit, or the context if that is longer).
    Bytes: weight_dtype, by default what the config says of the published weights, else bf16; with
    embedding_dtype, part_dtypes, group_size, scale_bytes and zero_bytes where they are another
    (`stored`); params instead of the config's count; kv_dtype, a name or an object (`kv_format`).
    overhead_bytes: all that is neither weights nor cache; None: a bound on activations, and
    `plan_parts.FIXED_OVERHEAD` for context, graphs and buffers.
    mfu, mbu: shares of the dense peak and of the bandwidth that kernels reach.
    Traffic, None where it is not known: users, sequences wanted at once; hit_rate of the prefix
    cache; ttft_s and itl_s, limits on the first token and between tokens; fleet_gpus, of all
    replicas. evaluated: the quantised cache was, on one's own tasks. disaggregated: prefill and
    decode on GPUs of their own. offload: the tier that preempted sequences go to.
    """

    model: ModelSpec
    gpu: GpuSpec
    tp: int = 1
    pp: int = 1
    dp: int = 1
    attention_dp: int = 1
    stages: Sequence[int] | None = None
    context: int = 4096
    prompt: int | None = None
    prefix_tokens: int = 0
    max_model_len: int | None = None
    weight_dtype: WeightDtype = stored.CHECKPOINT
    embedding_dtype: str | None = None
    part_dtypes: Mapping[str, str] | None = None
    group_size: int | None = None
    scale_bytes: float | None = None
    zero_bytes: float | None = None
    params: float | None = None
    kv_dtype: KVDtype = "bf16"
    gpu_memory_utilization: float = DEFAULT_UTILIZATION
    overhead_bytes: float | None = None
    block_size: int = 16
    max_num_seqs: int = DEFAULT_MAX_NUM_SEQS
    max_num_batched_tokens: int = 8192
    allocator: str = "paged"
    prefix_cache: bool = True
    eviction: str = "lru"
    mfu: float = 0.5
    mbu: float = 1.0
    users: int | None = None
    hit_rate: float | None = None
    ttft_s: float | None = None
    itl_s: float | None = None
    fleet_gpus: int | None = None
    evaluated: bool = False
    disaggregated: bool = False
    offload: str | None = None
    price_per_gpu_hour: float | None = None

    def __post_init__(self) -> None:
        layout.check(self.model, self.layout)
        self.stored()
        self._check_cache()
        checks.whole(self.context, "context", 1, _MOST_TOKENS)
        checks.whole(self.block_size, "block_size", 1, blocks.MAX_BLOCK_SIZE)
        checks.whole(self.max_num_seqs, "max_num_seqs", 1, _MOST_SEQS)
        checks.whole(self.max_num_batched_tokens, "max_num_batched_tokens", 1, _MOST_TOKENS)
        checks.choice(self.allocator, "allocator", ALLOCATORS)
        checks.choice(self.eviction, "eviction", EVICTIONS)
        self._check_tokens()
        self._check_shares()

    def _check_cache(self) -> None:
        fmt = kv_format.of(self.kv_dtype, "kv_dtype")
        try:
            kv_layers.of_stages(self.model, fmt, self.layout)
        except SizingError as error:  # the layout is checked: what is wrong is the format
            path = error.path.replace("dtype", "kv_dtype", 1)
            raise SizingError(path, error.message) from None

    def _check_tokens(self) -> None:
        if self.prompt is not None:
            checks.whole(self.prompt, "prompt", 1, self.context)
        if self.max_model_len is not None:
            checks.whole(self.max_model_len, "max_model_len", self.context, _MOST_TOKENS)
        checks.whole(self.prefix_tokens, "prefix_tokens", 0, self.context)
        if self.allocator == "contiguous" and self.prefix_tokens:
            raise SizingError("prefix_tokens", "contiguous reservations share nothing")
        for name in ("users", "fleet_gpus"):
            value = getattr(self, name)
            if value is not None:
                checks.whole(value, name, 1)

    def _check_shares(self) -> None:
        for name in ("gpu_memory_utilization", "mfu", "mbu"):
            checks.number(getattr(self, name), name, 0.0, 1.0, above=True)
        if self.hit_rate is not None:
            checks.share(self.hit_rate, "hit_rate")
        for name in ("ttft_s", "itl_s", "price_per_gpu_hour"):
            value = getattr(self, name)
            if value is not None:
                checks.positive(value, name)
        if self.overhead_bytes is not None:
            checks.number(self.overhead_bytes, "overhead_bytes")
        if self.offload is not None:
            tiers.get(self.offload, "offload")

    @property
    def layout(self) -> Layout:
        return layout.of(self.tp, self.pp, self.dp, self.attention_dp, self.stages)

    @property
    def kv_format(self) -> KVFormat:
        return kv_format.of(self.kv_dtype, "kv_dtype")

    def stored(self) -> Stored:
        """The formats of the weights."""
        return stored.of(
            self.weight_dtype,
            self.model,
            "weight_dtype",
            embedding_dtype=self.embedding_dtype,
            part_dtypes=self.part_dtypes,
            group_size=self.group_size,
            scale_bytes=self.scale_bytes,
            zero_bytes=self.zero_bytes,
        )

    @property
    def prompt_tokens(self) -> int:
        return self.context if self.prompt is None else self.prompt

    @property
    def longest(self) -> int:
        """Tokens that a contiguous allocator reserves for a sequence: the most that it may have."""
        if self.max_model_len is not None:
            return self.max_model_len
        return max(self.context, self.model.max_position or 0)

    @property
    def schedulers(self) -> int:
        """Schedulers, each with max_num_seqs and a token budget of its own."""
        return self.dp * self.attention_dp

    @property
    def gpus(self) -> int:
        """GPUs of this plan."""
        return self.tp * self.pp * self.dp
