"""Keeps an engine process busy: live requests, each followed by another."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from time import perf_counter, sleep
from typing import Any

from bench.processes import Served

REQUESTS = 4
BODY = {
    "prompt": "The best way to learn how a server works is to",
    "max_tokens": 400,
    "temperature": 0,
    "ignore_eos": True,
}


class LiveLoad:
    """While it is entered, the engine decodes a batch of `REQUESTS` without a pause."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._stopped = threading.Event()

    def __enter__(self) -> LiveLoad:
        self._threads = [
            threading.Thread(target=self._request, name=f"live-{i}") for i in range(REQUESTS)
        ]
        for thread in self._threads:
            thread.start()
        while self._steps() == 0:
            sleep(0.1)
        self._began, self._first = perf_counter(), self._steps()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def steps_per_second(self) -> float:
        """Since it was entered: proof that the engine was at work."""
        return round((self._steps() - self._first) / (perf_counter() - self._began), 1)

    def _request(self) -> None:
        while not self._stopped.is_set():
            try:
                with self._open("/live", BODY) as answer:
                    while answer.read1(1 << 16) and not self._stopped.is_set():
                        pass
            except (OSError, urllib.error.HTTPError):
                sleep(0.5)

    def _steps(self) -> int:
        with self._open("/health") as answer:
            return int(json.loads(answer.read())["steps"])

    def _open(self, path: str, body: dict[str, Any] | None = None) -> Any:
        headers = {"Authorization": f"Bearer {self._served.token}"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._served.url + path, data, headers)
        return urllib.request.urlopen(request, timeout=60)
