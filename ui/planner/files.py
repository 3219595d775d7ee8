"""What can be taken away: the plan as JSON, CSV and a one-page report, and as commands for two
servers."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict

from core.sizing import flags
from core.sizing.errors import SizingError
from core.sizing.result import Result
from core.sizing.rules import PASS
from core.sizing.units import both
from core.version import VERSION
from ui.kit import page
from ui.kit.page import Export
from ui.planner import bench, figures, others, steps
from ui.planner.figures import Planned
from ui.sizing.shown import legible

NAME = "capacity-plan"


def results(done: Planned) -> list[tuple[str, str, Result]]:
    """(scope of the group, name, result): the design's, then all of a replica's plan."""
    made = done.design
    named = [("gpus", made.gpus), ("step_at_load", made.step), ("price_per_hour", made.price)]
    out = [("design", name, one) for name, one in named if one is not None]
    return out + [("replica", name, one) for name, one in done.plan.results().items()]


def as_json(done: Planned) -> str:
    """Everything: inputs, the design, every result with its derivation, advice, alternatives."""
    made = done.design
    out = {
        "schema": "capacity-plan/1",
        "inputs": asdict(done.place),
        "design": {
            **others.of(made),
            "users": made.users,
            "load": made.load,
            "binding": done.plan.binding,
            "bounds": done.plan.bounds,
            "meets": made.meets(*figures.limits(done.place)),
        },
        "results": [
            {
                "group": group,
                "name": name,
                "value": one.value,
                "unit": one.unit,
                "derivation": one.derivation(),
            }
            for group, name, one in results(done)
        ],
        "advice": [one.to_dict() for one in done.findings],
        "alternatives": others.table(done.place),
        "frontier": others.frontier(done.place),
        "warnings": list(done.plan.warnings),
    }
    return json.dumps(out, ensure_ascii=False, indent=1) + "\n"


def as_csv(done: Planned) -> str:
    """One figure a row: group, name, value, unit, scope, basis, formula, values put in."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["group", "name", "value", "unit", "scope", "basis", "formula", "substituted"])
    for group, name, one in results(done):
        last = one.steps[-1] if one.steps else None
        value = "" if one.value is None else one.value
        formula, put_in = (last.formula, last.substituted) if last else ("", "")
        writer.writerow([group, name, value, one.unit, one.scope, one.basis, formula, put_in])
    return out.getvalue()


def as_report(done: Planned) -> str:
    """One page of Markdown: what is asked, what answers it, the arithmetic, what to look at."""
    here, made, answer = done.place, done.design, others.of(done.design)
    model, gpu = figures.model_title(here), figures.gpu_title(here.gpu)
    limits = [f"first token within {here.ttft:,} ms"] if here.ttft else []
    limits += [f"{here.itl:,} ms between tokens"] if here.itl else []
    verdict = "keeps" if made.meets(*figures.limits(here)) else "does not keep"
    lines = [
        f"# Capacity plan: {model} for {here.users:,} users",
        "",
        f"Asked: {here.users:,} users at once, {here.ctx:,} tokens each, {here.sys:,} of them "
        f"shared{'; ' + ', '.join(limits) if limits else ''}.",
        "",
        f"**{made.num_gpus:,} × {gpu}**: {made.replicas:,} replicas of {here.tp}. Each runs "
        f"{made.plan.batch:,} sequences at once, bound by `{done.plan.binding}`. The plan "
        f"{verdict} what is asked. MODELLED, no GPU was measured: bytes are exact for the tensors, "
        "times are of an idle replica at half of the dense peak and the full bandwidth.",
        "",
        "| step | value | formula, values put in |",
        "|---|---:|---|",
    ]
    for row in steps.steps(done):
        one = row["figure"]
        lines.append(
            f"| {_cell(one['label'])} | {_amount(one['value'], one['unit'])} | "
            f"{_cell('; '.join(row['lines']))} |"
        )
    lines += ["", "## To look at", ""]
    open_ = [one for one in done.findings if one.status != PASS]
    lines += [f"- **{one.rule.title}** ({one.status}): {one.saw}" for one in open_] or [
        "- Nothing."
    ]
    lines += ["", "## Start it", ""]
    for engine in flags.ENGINES:
        lines += ["```sh", as_flags(done, engine).rstrip(), "```", ""]
    price = "" if answer["price"] is None else f" ${answer['price']:,.2f} an hour for all GPUs."
    lines.append(f"Price of a GPU hour: ${here.price:,.2f}, an input.{price} KV Scope {VERSION}.")
    return "\n".join(lines) + "\n"


def as_flags(done: Planned, engine: str) -> str:
    """The command of one replica group, or a comment that says why there is none."""
    try:
        text = flags.command(done.whole, engine, figures.repository(done.place)).text()
    except SizingError as exc:
        return f"# No command: {exc.message}.\n"
    if figures.is_published(done.place):
        return text
    return f"# {done.place.model} is published nowhere: put the path of yours for it\n{text}"


def _amount(value: float | int | None, unit: str) -> str:
    if value is None:
        return "none"
    if unit == "B":
        return f"{value:,} B ({both(value)})"
    if unit == "s" and value < 10:
        return f"{1000 * value:,.4g} ms"
    return f"{value:,} {unit}" if isinstance(value, int) else f"{value:,.4g} {unit}"


def _cell(text: str) -> str:
    return legible(text).replace("|", "\\|")


def menu() -> None:
    """The menu of files; each is made when it is asked for, of the place as it then is."""

    def now() -> Planned:
        return figures.planned(bench.now())

    page.exports(
        [
            Export(
                "One page, as Markdown", f"{NAME}.md", "text/markdown", lambda: as_report(now())
            ),
            Export(
                "Everything, as JSON", f"{NAME}.json", "application/json", lambda: as_json(now())
            ),
            Export("Every figure, as CSV", f"{NAME}.csv", "text/csv", lambda: as_csv(now())),
            Export(
                "vLLM, as a command",
                "vllm.sh",
                "text/x-shellscript",
                lambda: as_flags(now(), "vllm"),
            ),
            Export(
                "SGLang, as a command",
                "sglang.sh",
                "text/x-shellscript",
                lambda: as_flags(now(), "sglang"),
            ),
        ]
    )
