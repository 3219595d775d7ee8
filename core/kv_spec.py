"""What a KV cache stores: the engine's `kv_dtype`, read and checked. No torch, no model.

    "model"                  as the model computes, two or four bytes a number
    "fp8"                    fp8 e4m3 with one fixed scale for a layer's K and one for its V
    "fp8_per_token_head"     fp8 e4m3 with a scale for each token and head, K and V apart
    "int8_per_token_head"    int8, likewise
    {"format": "int4", "scale": "per_head_static", "layers": {"0-3": "int8"}}

Names and object are those of the sizing library (`core.sizing.kv_format`), so that a cache can be
sized and run with one notation; `sizing_dtype` gives the library's object for it. Scales are
float32. Those of `per_token_head` are taken from a token's own numbers when it is written, and lie
in its block; the static kinds are fixed once (`calibration`) and used for every token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.errors import ScenarioError

MODEL = "model"
"""The format of numbers that are stored as the model computes them."""

BITS = {"fp8_e4m3": 8, "int8": 8, "int4": 4}
"""Bits of one number in each quantised format."""

PER_TENSOR, PER_HEAD_STATIC, PER_TOKEN_HEAD = "per_tensor", "per_head_static", "per_token_head"
SCALE_BYTES = 4

KVDtype = str | Mapping[str, Any]
"""`kv_dtype` as a scenario gives it."""

_NAMES: dict[str, dict[str, str]] = {
    MODEL: {"format": MODEL},
    "fp8": {"format": "fp8_e4m3", "scale": PER_TENSOR},
    "fp8_per_token_head": {"format": "fp8_e4m3", "scale": PER_TOKEN_HEAD},
    "int8_per_token_head": {"format": "int8", "scale": PER_TOKEN_HEAD},
}
NAMES = tuple(_NAMES)


@dataclass(frozen=True, slots=True)
class KVSpec:
    """A checked `kv_dtype`.

    form: "model" or a key of BITS, of every layer but those in `layers`, (index, form) in order.
    scale: how scales are shared in quantised layers; None where there are none. calibration: where
    static scales come from, else None. "text": the largest magnitudes of a shipped text
    (`core/data/calibration.txt`). "first_step": those of the first tokens that the pool is given.
    "one": every scale is 1, as in an engine that was given none.
    """

    form: str = MODEL
    scale: str | None = None
    calibration: str | None = None
    layers: tuple[tuple[int, str], ...] = ()

    @classmethod
    def of(cls, given: KVDtype, path: str = "engine.kv_dtype") -> KVSpec:
        """Read a `kv_dtype` whose shape a schema has checked. Raises ScenarioError at `path`."""
        fields: Mapping[str, Any] = _NAMES[given] if isinstance(given, str) else given
        form = fields["format"]
        layers = _layers(fields.get("layers", {}), f"{path}.layers")
        quantised = any(one != MODEL for one in (form, *(one for _, one in layers)))
        if not quantised:
            for name in ("scale", "calibration"):
                if name in fields:
                    raise ScenarioError(
                        f"{path}.{name}", "no layer is quantised: there is nothing to scale"
                    )
            return cls(layers=layers)
        scale = fields.get("scale", PER_TOKEN_HEAD)
        calibration = fields.get("calibration")
        if scale == PER_TOKEN_HEAD and calibration is not None:
            raise ScenarioError(
                f"{path}.calibration",
                "per_token_head takes each scale from the token itself: leave it out",
            )
        if scale != PER_TOKEN_HEAD and calibration is None:
            calibration = "text"
        return cls(form, scale, calibration, layers)

    @property
    def quantised(self) -> bool:
        """Whether any layer may be."""
        return self.scale is not None

    @property
    def dynamic(self) -> bool:
        """Whether each token brings scales of its own."""
        return self.scale == PER_TOKEN_HEAD

    def of_layers(self, num_layers: int, path: str = "engine.kv_dtype") -> tuple[str, ...]:
        """The form of each layer of a model. Raises ScenarioError for a layer it has not."""
        forms = [self.form] * num_layers
        for index, form in self.layers:
            if index >= num_layers:
                raise ScenarioError(
                    f"{path}.layers", f"there is no layer {index}: the model has {num_layers}"
                )
            forms[index] = form
        return tuple(forms)

    def describes(self, kv_format: Mapping[str, Any]) -> bool:
        """Whether a run's header (`kv_format` there) tells of such a cache, whatever its model."""
        try:
            layers = list(self.of_layers(len(kv_format["layers"])))
        except ScenarioError:
            return False
        kinds = (kv_format["scale"], kv_format["calibration"])
        fixed = kv_format["scale_bytes"] if self.dynamic else 0
        return (layers, *kinds, fixed) == (kv_format["layers"], self.scale, self.calibration, 0)

    def token_bytes(self, form: str, n_kv: int, head_dim: int, model_bytes: int) -> int:
        """Bytes of one token's K and V in one layer, its own scales included.

        model_bytes: of a number as the model computes.
        """
        if form == MODEL:
            return 2 * n_kv * head_dim * model_bytes
        scales = SCALE_BYTES if self.dynamic else 0
        return 2 * n_kv * (head_dim * BITS[form] // 8 + scales)

    def fixed_bytes(self, forms: tuple[str, ...], n_kv: int) -> int:
        """Bytes of all static scales, whatever is cached."""
        if not self.quantised or self.dynamic:
            return 0
        each = 2 * (n_kv if self.scale == PER_HEAD_STATIC else 1) * SCALE_BYTES
        return each * sum(form != MODEL for form in forms)

    def sizing_dtype(self, model_dtype: str, num_layers: int) -> Any:
        """The same cache for the functions of `core.sizing`: a name or an object.

        model_dtype: "bfloat16" or "float32".
        """
        if not self.quantised:
            return model_dtype
        forms = [model_dtype if f == MODEL else f for f in self.of_layers(num_layers)]
        # The library's scales belong to the whole cache: its base must be a quantised format.
        base = next((form for form in forms if form in BITS), None)
        if base is None:  # every layer is an exception
            return model_dtype
        given: dict[str, Any] = {"format": base, "scale": self.scale, "scale_bytes": SCALE_BYTES}
        apart = {str(i): form for i, form in enumerate(forms) if form != base}
        return {**given, "layers": apart} if apart else given


def _layers(given: Mapping[str, str], path: str) -> tuple[tuple[int, str], ...]:
    """{"0": "model", "25-29": "int8"}, both ends included → (index, form), in order."""
    out: dict[int, str] = {}
    for span, form in given.items():
        first, _, last = span.partition("-")
        start, stop = int(first), int(last or first)
        if stop < start:
            raise ScenarioError(f"{path}.{span}", "ends before it begins")
        for index in range(start, stop + 1):
            if index in out:
                raise ScenarioError(f"{path}.{span}", f"layer {index} is named twice")
            out[index] = form
    return tuple(sorted(out.items()))
