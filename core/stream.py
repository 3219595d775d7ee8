"""Reading one request's text while it is made."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from core.engine import EngineFailedError
from core.model.detokenizer import IncrementalDetokenizer
from core.outputs import SamplingParams, TextDelta, shown_logprobs
from core.request import Request, Sequence

if TYPE_CHECKING:
    from core.llm import LLM


class TextStream(Iterator[TextDelta]):
    """One delta per token; asking for one that is not there yet steps the engine.

    Closing it, or letting go of it unread, cancels the request. What was computed can still be read
    after the engine was reset; then EngineFailedError says that the rest is lost.
    """

    def __init__(self, llm: LLM, request: Request, params: SamplingParams) -> None:
        self._llm, self._engine = llm, llm.engine
        self._request, self._params = request, params
        self._deltas: deque[TextDelta] = deque()
        self._texts: dict[int, IncrementalDetokenizer] = {}
        self._closed = False

    def __iter__(self) -> TextStream:
        return self

    def __next__(self) -> TextDelta:
        try:
            while not self._deltas:
                if self._closed or self._request.ended:
                    raise StopIteration
                if self._llm.engine is not self._engine:
                    raise EngineFailedError("the engine was reset while this request ran")
                self._llm._step()
        except BaseException:
            self.close()
            raise
        return self._deltas.popleft()

    def close(self) -> None:
        """Cancel the request unless it has ended, and give its blocks back; more than once is fine.

        What has not been read is dropped.
        """
        if self._closed:
            return
        self._closed = True
        self._deltas.clear()
        if self._llm.engine is self._engine and not self._request.ended:
            self._llm._abandon([self._request])

    def __del__(self) -> None:
        # Nobody can read it any more. No step is made here, in the middle of whatever else runs:
        # the request ends in the next one.
        if not self._closed and not self._engine.failed:
            self._engine.cancel(self._request)

    def take(self, seq: Sequence) -> None:
        """A sequence of the request has a new token: what it adds to the text."""
        if self._closed:
            return
        text = self._texts.get(seq.index)
        if text is None:
            stops = self._request.stop_strings
            text = IncrementalDetokenizer(self._llm.runner.tokenizer, stop=stops)
            self._texts[seq.index] = text
        token, reason = seq.tokens[-1], seq.finish_reason
        piece = text.push([token])
        if reason is not None:
            piece += text.finish(cut=reason == "stop_string")
        asked = self._params.logprobs
        logprobs = None if asked is None else shown_logprobs(seq.logprobs[-1:], asked)[0]
        self._deltas.append(TextDelta(seq.request.id, seq.index, piece, token, reason, logprobs))
