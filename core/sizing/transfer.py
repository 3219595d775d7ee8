"""Moving a KV cache: between GPU and host, or from a prefill pool to a decode pool.

The link's rate is always an input: bytes per second one way, or the name of one in `links`. Those
are raw ones that follow from a standard, and what others report to have reached; a result that uses
the latter is marked as literature.
"""

from __future__ import annotations

import math

from core.sizing import checks, kv_format, kv_layers
from core.sizing.compute import prefill_work
from core.sizing.geometry import ModelSpec
from core.sizing.kv_format import KVDtype
from core.sizing.links import rate as rate_of
from core.sizing.result import Result, Step, Symbol, symbols
from core.sizing.text import num

PCIE_KINDS = ("theoretical_one_way", "theoretical_both_ways")
_TRANSFERS = {
    1: (2.5e9, 8, 10),
    2: (5e9, 8, 10),
    3: (8e9, 128, 130),
    4: (16e9, 128, 130),
    5: (32e9, 128, 130),
    6: (64e9, 236, 256),
}
"""Transfers per second and lane, and the line code's useful and sent parts: PCI-SIG base specs.
Generation 6 sends FLITs of 256 bytes: 236 of packets, 6 of link control, 14 of CRC and FEC."""


def pcie_bandwidth(gen: int, lanes: int = 16, kind: str = "theoretical_one_way") -> Result:
    """Bytes per second of a PCIe link after its line code. Packet headers and flow control take
    another 10 to 20 % in practice."""
    gen = checks.whole(gen, "gen", 1, max(_TRANSFERS))
    lanes = checks.whole(lanes, "lanes", 1, 32)
    checks.choice(kind, "kind", PCIE_KINDS)
    rate, useful, sent = _TRANSFERS[gen]
    ways = 1 if kind == "theoretical_one_way" else 2
    value = rate * lanes * useful / sent / 8 * ways
    return Result(
        value,
        "B/s",
        symbols(
            ("r", f"transfers per lane, generation {gen}", rate, "1/s"),
            ("n", "lanes", lanes),
            ("c", "line code", f"{useful}/{sent}"),
        ),
        (
            Step(
                "r · n · c / 8" + (" · 2" if ways == 2 else ""),
                f"{num(rate)} · {lanes} · {useful}/{sent} / 8" + (" · 2" if ways == 2 else ""),
                value,
                "B/s",
            ),
        ),
        source="PCI Express Base Specification",
    )


def kv_transfer_time(
    model: ModelSpec,
    tokens: int,
    dtype: KVDtype,
    bandwidth: float | str,
    links: int = 1,
    latency_s: float = 0.0,
) -> Result:
    """Seconds to move a sequence's KV one way over `links` equal links in parallel.

    bandwidth: of one link, or a link's name. links: as a rule one per tensor-parallel rank, each
    with its own heads.
    latency_s: before the first byte.
    """
    links = checks.whole(links, "links", 1)
    link = rate_of(bandwidth)
    latency = checks.number(latency_s, "latency_s")
    size = sequence_bytes(model, tokens, dtype)
    moving = size / (link.bytes_per_s * links)
    value = latency + moving
    step = Step("K / (n · r)", f"{num(size)} / ({links} · {num(link.bytes_per_s)})", moving, "s")
    steps: tuple[Step, ...] = (step,)
    if latency:
        steps += (Step("latency + moving", f"{num(latency)} + {num(moving)}", value, "s"),)
    return Result(
        value,
        "s",
        symbols(
            ("K", "KV of the sequence", size, "B"),
            ("r", "rate of one link, one way", link.bytes_per_s, "B/s"),
            ("n", "links", links),
        ),
        steps,
        notes=("one way; a swap out and in again takes it twice", *link.notes),
        basis=link.basis,
        source=link.source,
    )


def disagg_bandwidth(model: ModelSpec, tokens: int, dtype: KVDtype, rps: float) -> Result:
    """Bytes per second from prefill to decode pool when `rps` prompts of `tokens` arrive each s."""
    rps = checks.amount(rps, "rps")
    size = sequence_bytes(model, tokens, dtype)
    value = size * rps
    return Result(
        value,
        "B/s",
        symbols(("K", "KV of one prompt", size, "B"), ("λ", "requests", rps, "1/s")),
        (Step("K · λ", f"{num(size)} · {num(rps)}", value, "B/s"),),
    )


def disagg_rps_per_link(
    model: ModelSpec, tokens: int, dtype: KVDtype, link_bytes_per_s: float | str
) -> Result:
    """Prompts per second that one link carries when it is never idle."""
    link = rate_of(link_bytes_per_s, "link_bytes_per_s")
    rate = link.bytes_per_s
    size = sequence_bytes(model, tokens, dtype)
    if size == 0:
        return Result(None, "RPS", notes=("there is nothing to send",))
    value = rate / size
    return Result(
        value,
        "RPS",
        symbols(("K", "KV of one prompt", size, "B"), ("r", "link", rate, "B/s")),
        (Step("r / K", f"{num(rate)} / {num(size)}", value, "RPS"),),
        notes=("with the link never idle: plan with a margin", *link.notes),
        basis=link.basis,
        source=link.source,
    )


def disagg_links(
    model: ModelSpec,
    tokens: int,
    dtype: KVDtype,
    rps: float,
    link_bytes_per_s: float | str,
    margin: float = 1.0,
) -> Result:
    """Links needed for a load. margin: a factor for bursts; 2 keeps links half busy."""
    link = rate_of(link_bytes_per_s, "link_bytes_per_s")
    rate = link.bytes_per_s
    margin = checks.amount(margin, "margin", 1.0)
    rps = checks.amount(rps, "rps")
    size = sequence_bytes(model, tokens, dtype)
    need = size * rps * margin
    value = math.ceil(need / rate)
    busy = need / margin / (value * rate) if value else 0.0
    return Result(
        value,
        "links",
        symbols(
            ("K", "KV of one prompt", size, "B"),
            ("λ", "requests", rps, "1/s"),
            ("m", "margin", margin, "x"),
            ("r", "link", rate, "B/s"),
        ),
        (
            Step("K · λ · m", f"{num(size)} · {num(rps)} · {num(margin)}", need, "B/s"),
            Step("⌈K · λ · m / r⌉", f"⌈{num(need)} / {num(rate)}⌉", value, "links"),
        ),
        notes=(f"busy {busy:.0%} of the time without the margin; none to spare if one fails",),
        basis=link.basis,
        source=link.source,
    )


def disagg_observable_latency(
    model: ModelSpec,
    tokens: int,
    dtype: KVDtype,
    bandwidth: float | str,
    hidden_fraction: float = 0.0,
    links: int = 1,
) -> Result:
    """Seconds of a transfer that a request sees when a share of it is hidden behind computing.

    hidden_fraction: an input; pipelined_transfer_time derives it from the layers instead.
    """
    hidden = checks.share(hidden_fraction, "hidden_fraction")
    raw = kv_transfer_time(model, tokens, dtype, bandwidth, links)
    assert raw.value is not None
    value = raw.value * (1 - hidden)
    return Result(
        value,
        "s",
        (*raw.symbols, Symbol("h", "share hidden", hidden, "fraction")),
        (
            *raw.steps,
            Step("transfer · (1 − h)", f"{num(raw.value)} · (1 − {num(hidden)})", value, "s"),
        ),
        notes=raw.notes,
        basis=raw.basis,
        source=raw.source,
    )


def pipelined_transfer_time(transfer_s: float, prefill_s: float, n_layers: int) -> Result:
    """Seconds of transfer left after the prefill when each layer is sent as soon as it is done.

    Layer i travels while layer i + 1 is computed. Where a layer travels faster than it is computed
    only the last one's journey shows. Where it is slower the link never pauses once the first layer
    is done, and hides behind the other L − 1:  max(T_x / L, T_x − (L − 1) · T_c / L).
    """
    transfer = checks.number(transfer_s, "transfer_s")
    prefill = checks.number(prefill_s, "prefill_s")
    layers = checks.whole(n_layers, "n_layers", 1)
    one, each = transfer / layers, prefill / layers
    behind = transfer - (layers - 1) * each
    value = max(one, behind)
    hidden = 1 - value / transfer if transfer else 0.0
    return Result(
        value,
        "s",
        symbols(
            ("T_x", "whole transfer", transfer, "s"),
            ("T_c", "whole prefill", prefill, "s"),
            ("L", "layers", layers),
        ),
        (
            Step("last = T_x / L", f"{num(transfer)} / {layers}", one, "s"),
            Step(
                "behind = T_x − (L − 1) · T_c / L",
                f"{num(transfer)} − {layers - 1} · {num(each)}",
                behind,
                "s",
            ),
            Step("exposed = the longer of the two", f"max({num(one)}, {num(behind)})", value, "s"),
        ),
        notes=(
            f"{hidden:.1%} of the transfer is hidden",
            "layers are taken to be equal, and the link free when the first one is done",
        ),
    )


def transfer_share_of_prefill(
    model: ModelSpec,
    tokens: int,
    dtype: KVDtype,
    bandwidth: float | str,
    flops: float,
    links: int = 1,
) -> Result:
    """Transfer over prefill: what disaggregating adds to the time to the first token, at worst.

    Nearly the same at any length, as both grow with the tokens. flops: reached by the prefill pool.
    """
    tokens = checks.whole(tokens, "tokens", 1)
    flops = checks.positive(flops, "flops")
    raw = kv_transfer_time(model, tokens, dtype, bandwidth, links)
    assert raw.value is not None
    work = prefill_work(model, tokens)
    prefill = work.total / flops
    value = raw.value / prefill
    return Result(
        value,
        "fraction",
        (
            *raw.symbols,
            Symbol("F", "FLOPs of the prefill", work.total, "FLOP"),
            Symbol("C", "reached", flops, "FLOP/s"),
        ),
        (
            *raw.steps,
            Step("prefill = F / C", f"{num(work.total)} / {num(flops)}", prefill, "s"),
            Step("transfer / prefill", f"{num(raw.value)} / {num(prefill)}", value, "fraction"),
        ),
        notes=(*raw.notes, *work.notes),
        basis=raw.basis,
        source=raw.source,
    )


def sequence_bytes(model: ModelSpec, tokens: int, dtype: KVDtype) -> int:
    """Bytes of a sequence as it is moved: keys and values, and fixed state if the model has any."""
    tokens = checks.whole(tokens, "tokens")
    rows = kv_layers.of_model(model, kv_format.of(dtype))
    return kv_layers.per_sequence(rows, tokens) + kv_layers.state(rows)
