"""What a quantised KV cache must compute, said by `transformers`: its own cache, made to round.

Every key and value is rounded when it enters the cache, and attention reads what came out of that.
The rounding here is written anew, in float64, from the formats' definitions: nothing of the
engine's or the kernels' code is used.
"""

import torch
import transformers

LARGEST = {"int8": 127, "int4": 7, "fp8_e4m3": 448}


def rounded(x, form, scale):
    """x [..., d] float64 by scale [..., 1]: the nearest code (ties to even), and back."""
    codes = (x / scale).clamp(-LARGEST[form], LARGEST[form])
    return (to_e4m3(codes) if form == "fp8_e4m3" else codes.round()) * scale


def to_e4m3(x):
    """The nearest number of fp8 e4m3: 3 bits of mantissa from 2⁻⁶ on, steps of 2⁻⁹ below."""
    exponent = torch.floor(torch.log2(x.abs().clamp_min(2.0**-6)))
    step = 2.0 ** (exponent - 3)
    return (x / step).round() * step


def token_head_scale(x, form):
    """[..., 1]: the largest magnitude of each vector is the largest code."""
    largest = x.abs().amax(-1, keepdim=True)
    return torch.where(largest > 0, largest / LARGEST[form], torch.ones_like(largest))


class RoundingCache(transformers.DynamicCache):
    """form_of: layer → format or "model". scale_of: (layer, side, x) → scale, side 0 for K."""

    def __init__(self, config, form_of, scale_of=None):
        super().__init__(config=config)
        self.form_of, self.scale_of = form_of, scale_of

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):
        form = self.form_of(layer_idx)
        sides = [key_states, value_states]
        if form != "model":
            for side, states in enumerate(sides):
                x = states.double()
                scale = (
                    token_head_scale(x, form).float().double()
                    if self.scale_of is None
                    else self.scale_of(layer_idx, side, x)
                )
                sides[side] = rounded(x, form, scale).float()
        return super().update(*sides, layer_idx, *args, **kwargs)


def expected_logits(oracle, prompt, outputs, form_of, scale_of=None):
    """[len(outputs), vocab] float32: of each position that sampled, all read through the cache."""
    cache = RoundingCache(oracle.config, form_of, scale_of)
    with torch.inference_mode():
        ids = torch.tensor([[*prompt, *outputs[:-1]]])
        return oracle(ids, past_key_values=cache).logits[0, len(prompt) - 1 :].float()
