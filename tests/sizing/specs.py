"""Models made by hand, for tests that should not depend on how a config is read."""

from __future__ import annotations

from core.sizing.geometry import FixedState, KVHeads, Latent, Layer, LayerCache, ModelSpec


def model(
    *layers: Layer,
    name: str = "by-hand",
    hidden_size: int = 0,
    vocab_size: int = 0,
    tied: bool = False,
    params: int | None = None,
    active: int | None = None,
    matmul: int | None = None,
    nominal: float | None = None,
    max_position: int | None = None,
) -> ModelSpec:
    """A model of these layers."""
    return ModelSpec(
        name=name,
        architecture="by_hand",
        layers=layers,
        hidden_size=hidden_size,
        vocab_size=vocab_size,
        max_position=max_position,
        tied_embeddings=tied,
        params=params,
        active_params=params if active is None else active,
        matmul_params=params if matmul is None else matmul,
        nominal_params=nominal,
    )


def attention(
    heads: int, kv_heads: int, dim: int, window: int | None = None, value_dim: int | None = None
) -> Layer:
    """A layer of softmax attention: `heads` query heads over `kv_heads` KV heads."""
    value = dim if value_dim is None else value_dim
    return Layer(KVHeads(kv_heads, dim, value, window), heads, dim, value)


def uniform(layers: int, heads: int, kv_heads: int, dim: int, **known: object) -> ModelSpec:
    """Layers of attention that are all alike."""
    return model(*[attention(heads, kv_heads, dim)] * layers, **known)  # type: ignore[arg-type]


def latent(layers: int, heads: int, latent_dim: int, rope_dim: int, **known: object) -> ModelSpec:
    """MLA in every layer, 128 numbers of each head without rotation, 128 in its value."""
    layer = Layer(Latent(latent_dim, rope_dim), heads, 128 + rope_dim, 128)
    return model(*[layer] * layers, **known)  # type: ignore[arg-type]


def stateful(cache: LayerCache, *, state: FixedState | None = None) -> Layer:
    return Layer(cache, state=state)


LLAMA_70B = uniform(
    80,
    64,
    8,
    128,
    name="llama-3-70b",
    hidden_size=8192,
    vocab_size=128256,
    params=70_553_706_496,
    matmul=69_501_714_432,
    nominal=70e9,
    max_position=8192,
)
FALCON_7B = uniform(32, 71, 1, 64, name="falcon-7b")
CUSTOM_40B = uniform(56, 40, 8, 128, name="custom-40b", nominal=40e9)
DEEPSEEK_V3 = latent(61, 128, 512, 64, name="deepseek-v3", hidden_size=7168, nominal=671e9)
GEMMA_3_27B = model(
    *[attention(32, 16, 128, None if i % 6 == 5 else 1024) for i in range(62)], name="gemma-3-27b"
)
"""Five local layers of 1,024 tokens to one that sees everything: 52 and 10."""

GPT_OSS_20B = model(
    *[attention(64, 8, 64, 128 if i % 2 == 0 else None) for i in range(24)], name="gpt-oss-20b"
)
