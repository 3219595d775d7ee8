"""Renders one chat template, in a process of its own: run as a script by `chat_template`.

Standard input: JSON {"template", "variables", "max_chars", "cpu_seconds", "memory_bytes"}. Standard
output: JSON {"text"} or {"error"}. The limits are the system's, set before anything is read from
the template, so that no trick inside it can pass them.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace


class _Generation(Extension):
    """`{% generation %} … {% endgeneration %}` marks answers for training; its content stands."""

    tags = {"generation"}  # noqa: RUF012 (the base class declares it like that)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _PublicNamespace(Namespace):
    """`namespace()`, without names that begin with an underscore."""

    def __init__(self, *args: Any, **values: Any) -> None:
        super().__init__()
        for name, value in dict(*args, **values).items():
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        if str(name).startswith("_"):
            raise SecurityError(f"a namespace has no {name}")
        super().__setitem__(name, value)


def _refuse(message: Any) -> None:
    raise TemplateError(str(message))


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as models see it, nothing in it escaped for HTML."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def environment() -> ImmutableSandboxedEnvironment:
    """What chat templates may count on; the same as in transformers."""
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    made.filters["tojson"] = _to_json
    made.globals["raise_exception"] = _refuse
    made.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    made.globals["namespace"] = _PublicNamespace
    return made


def render(job: dict[str, Any]) -> dict[str, str]:
    """The text, or why there is none."""
    try:
        pieces, length = [], 0
        for piece in environment().from_string(job["template"]).generate(**job["variables"]):
            length += len(piece)
            if length > job["max_chars"]:
                return {"error": f"it writes more than {job['max_chars']:,} characters"}
            pieces.append(piece)
        return {"text": "".join(pieces)}
    except MemoryError:
        return {"error": "it takes too much memory"}
    except RecursionError:
        return {"error": "it is nested too deeply"}
    except Exception as error:  # a template can raise whatever its expressions can
        return {"error": f"{error!s:.300}" or type(error).__name__}


def _set_limits(cpu_seconds: int, memory_bytes: int) -> None:
    """By the system, where it has such limits."""
    try:
        import resource
    except ImportError:  # Windows: only the parent's clock remains
        return
    limits = (
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_FSIZE, 0),  # nothing is written to any file
        (resource.RLIMIT_CORE, 0),
    )
    for kind, value in limits:
        try:
            resource.setrlimit(kind, (value, value))
        except (ValueError, OSError):  # lower already, or not to be had (macOS has no RLIMIT_AS)
            continue


def main() -> None:
    job = json.loads(sys.stdin.buffer.read())
    _set_limits(job["cpu_seconds"], job["memory_bytes"])
    answer = json.dumps(render(job))
    sys.stdout.write(answer)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
