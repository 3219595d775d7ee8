"""Stop strings: found in a sequence's bytes, wherever its tokens begin and end.

A stop string ends a sequence with the token that completes it, and the text is cut before it. It
may lie across several tokens, and a token may hold half a character: so the search is in bytes.
UTF-8 synchronises itself (no character's bytes occur inside another's), so a match of bytes is a
match of characters. Only outputs are searched, as text shows them: without control tokens.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

from core.model.tokenizer import Tokenizer


def completes_stop_string(
    tokenizer: Tokenizer, tokens: Seq[int], num_prompt_tokens: int, stops: Seq[bytes]
) -> bool:
    """Whether the newest token completes a stop string. tokens: prompt and outputs.

    Looks back no further than a match could reach, and keeps nothing: the tokens say it all.
    """
    newest = tokenizer.token_bytes(tokens[-1], skip_special_tokens=True)
    pieces, reach = [newest], max(len(stop) for stop in stops) - 1
    for position in range(len(tokens) - 2, num_prompt_tokens - 1, -1):
        if reach <= 0:
            break
        pieces.append(tokenizer.token_bytes(tokens[position], skip_special_tokens=True))
        reach -= len(pieces[-1])
    return find_stop(b"".join(reversed(pieces)), stops, len(newest)) is not None


def find_stop(data: bytes, stops: Seq[bytes], num_new: int) -> int | None:
    """Where the earliest match begins that ends within the last `num_new` bytes; None without one.

    The earliest beginning wins, whatever the order of the stop strings.
    """
    old = len(data) - num_new
    found = [data.find(stop, max(0, old - len(stop) + 1)) for stop in stops]
    return min((start for start in found if start >= 0), default=None)


def safe_length(data: bytes, stops: Seq[bytes]) -> int:
    """How many leading bytes no later match can begin in: what may be shown already.

    The rest is the longest ending of `data` that a stop string begins with.
    """
    safe = len(data)
    for stop in stops:
        start = max(0, len(data) - len(stop) + 1)
        while (start := data.find(stop[:1], start, safe)) >= 0:
            if stop.startswith(data[start:]):
                safe = start
                break
            start += 1
    return safe


def completion_text(
    tokenizer: Tokenizer, outputs: Seq[int], stops: Seq[bytes], finish_reason: str | None
) -> str:
    """The text of a sequence's outputs; cut before the stop string if one has ended it."""
    pieces = [tokenizer.token_bytes(token, skip_special_tokens=True) for token in outputs]
    data = b"".join(pieces)
    if finish_reason == "stop_string":
        data = data[: find_stop(data, stops, len(pieces[-1]))]
    return data.decode("utf-8", "replace")
