"""What the command says: rows, checks and remarks, on the terminal and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.timing import Timing

SCHEMA = "gpu-bench/1"


@dataclass(frozen=True, slots=True)
class Row:
    """One measured line.

    part: of the command. name: what was done, with its shapes. who: whose code did it. seconds: of
    one run. rate: in `unit`, larger is better. share: of what the device can do at most, measured
    in turn with it, as `of` says. against: how many times as long the one that `beside` names took
    as this. note: what else must be known.
    """

    part: str
    name: str
    who: str
    seconds: Timing
    rate: Timing | None = None
    unit: str = ""
    share: Timing | None = None
    of: str = ""
    against: Timing | None = None
    beside: str = ""
    note: str = ""

    def show(self) -> str:
        scale, unit = _TIMES[sum(self.seconds.median < limit for limit in (1e-3, 1))]
        line = f"{self.name:<50}{self.who:<18}{self.seconds.show(scale, unit, 1):>30}"
        rate = ""
        if self.rate is not None:
            factor, prefix = next(
                (f, p) for f, p in _PREFIXES if self.rate.median >= 1 / f or f == 1
            )
            rate = f"{self.rate.median * factor:,.2f} {prefix}{self.unit}"
        line += f"{rate:>20}"
        parts = [
            self.share
            and f"{self.share.median:.0%} of {self.of} "
            f"({self.share.low:.0%}–{self.share.high:.0%})",
            self.against and f"{self.beside}: {self.against.show(1, '×', 2)} as long",
            self.note,
        ]
        return f"{line}   {'; '.join(part for part in parts if part)}".rstrip()


_TIMES = ((1, "s"), (1e3, "ms"), (1e6, "µs"))
_PREFIXES = ((1e-12, "T"), (1e-9, "G"), (1e-6, "M"), (1e-3, "k"), (1, ""))


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison of results. name: begins with the kernel's. worst: what `measure` says, of the
    worst number; passed while it is at most `limit`."""

    name: str
    reference: str
    worst: float
    limit: float
    measure: str

    @property
    def passed(self) -> bool:
        """NaN is never within a limit."""
        return self.worst <= self.limit

    def show(self) -> str:
        line = f"{self.name} beside {self.reference}"
        mark = "ok   " if self.passed else "WRONG"
        return f"{mark} {line}; {self.measure}: {self.worst:.3g}, allowed {self.limit:g}"


@dataclass(slots=True)
class Report:
    """Everything said so far, printed as it comes. failed: the parts that broke, each with why."""

    settings: dict[str, Any] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def head(self, text: str) -> None:
        print(f"\n{text}", flush=True)

    def say(self, text: str) -> None:
        self.remarks.append(text)
        print(text, flush=True)

    def add(self, row: Row) -> None:
        self.rows.append(row)
        print(row.show(), flush=True)

    def check(self, check: Check) -> None:
        """Printed if it did not pass; there are hundreds."""
        self.checks.append(check)
        if not check.passed:
            print(check.show(), flush=True)

    def summarise_checks(self) -> None:
        """A line for each kernel and reference: how many passed, and the one nearest to failing."""
        groups: dict[tuple[str, str, str], list[Check]] = {}
        for check in self.checks:
            kernel = check.name.split()[0].rstrip(",")
            groups.setdefault((kernel, check.reference, check.measure), []).append(check)
        for (kernel, reference, measure), checks in groups.items():
            worst = max(checks, key=lambda check: check.worst / (check.limit or 1))
            passed = sum(check.passed for check in checks)
            line = f"{kernel} beside {reference}: {passed} of {len(checks)} right"
            print(f"{line}; {measure}: at most {worst.worst:.3g} ({worst.name})", flush=True)

    @property
    def correct(self) -> bool:
        """Whether every check passed, and none is missing because its part broke."""
        return "correctness" not in self.failed and all(check.passed for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "settings": self.settings,
            "correct": self.correct,
            "checks": [{**asdict(check), "passed": check.passed} for check in self.checks],
            "rows": [asdict(row) for row in self.rows],
            "remarks": self.remarks,
            "failed": self.failed,
        }

    def write(self, path: str) -> None:
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n"
        Path(path).write_text(text, encoding="utf-8")

    def take(self, content: dict[str, Any]) -> None:
        """What another process found, after its `to_dict`; it has printed it already."""
        for raw in content["rows"]:
            timings = {
                key: raw[key] and Timing(**raw[key])
                for key in ("seconds", "rate", "share", "against")
            }
            self.rows.append(Row(**{**raw, **timings}))
        for raw in content["checks"]:
            self.checks.append(Check(**{key: raw[key] for key in raw if key != "passed"}))
        self.remarks += content["remarks"]
        self.failed |= content["failed"]
