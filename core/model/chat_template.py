"""A model's chat template: where it stands, and rendering it without trusting it.

A template is a program that comes with the model. Jinja's sandbox keeps it from reaching what it
should not; it does not keep it from running for ever or taking all memory. So it is rendered in a
process of its own, under the system's limits on time and memory (about 0.1 s for the process).
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any

from core.model.errors import ModelError, ModelFileError

MAX_TEMPLATE_BYTES = 1 << 20
MAX_TEXT_CHARS = 4 << 20
MAX_INPUT_CHARS = 16 << 20
CPU_SECONDS = 2
CLOCK_SECONDS = 20.0  # for a busy machine: a runaway template meets the other limit first
MEMORY_BYTES = 512 << 20

_WORKER = Path(__file__).with_name("template_worker.py")


class ChatTemplate:
    """The templates of a model directory: one, or several with names.

    Read from `chat_template.jinja` and `additional_chat_templates/` (newer), or from
    `tokenizer_config.json`, there a text or a list of named ones.
    """

    def __init__(self, directory: Path, config: Mapping[str, Any]) -> None:
        self._named = _templates(directory, config)
        self._tokens = {
            key: value["content"] if isinstance(value, dict) else value
            for key, value in config.items()
            if key.endswith("_token")
            and isinstance(value.get("content") if isinstance(value, dict) else value, str)
        }

    def render(
        self,
        messages: Seq[Mapping[str, Any]],
        add_generation_prompt: bool = True,
        tools: Seq[Mapping[str, Any]] | None = None,
        **variables: Any,
    ) -> str:
        """A conversation as the text that the model was trained on.

        messages: {"role", "content"} each, with more keys if the template knows them. tools: JSON
        schemas of functions. variables: what else the template asks for (`enable_thinking` …).
        Raises ModelError if there is no template, if it refuses the messages, or if it exceeds a
        limit.
        """
        template = self._choose(tools)
        given = {
            **self._tokens,
            "messages": [dict(message) for message in messages],
            "tools": None if tools is None else [dict(tool) for tool in tools],
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
            **variables,
        }
        try:
            job = json.dumps(
                {
                    "template": template,
                    "variables": given,
                    "max_chars": MAX_TEXT_CHARS,
                    "cpu_seconds": CPU_SECONDS,
                    "memory_bytes": MEMORY_BYTES,
                }
            )
        except (TypeError, ValueError, RecursionError) as error:
            raise ModelError(f"the messages for the chat template are no JSON: {error}") from error
        if len(job) > MAX_INPUT_CHARS:
            raise ModelError(
                f"the messages for the chat template are longer than {MAX_INPUT_CHARS:,} characters"
            )
        answer = _run(job)
        if "text" not in answer:
            raise ModelError(f"the chat template failed: {answer.get('error')}")
        return str(answer["text"])

    def _choose(self, tools: Seq[Mapping[str, Any]] | None) -> str:
        if not self._named:
            raise ModelError("this model has no chat template")
        for name in ("tool_use", "default") if tools is not None else ("default",):
            if name in self._named:
                return self._named[name]
        names = ", ".join(sorted(self._named))
        raise ModelError(f"this model has chat templates {names:.200}, but none named default")


def _run(job: str) -> dict[str, Any]:
    """Let a process of its own render. Raises ModelError if it did not come to an end."""
    # Isolated from the environment and the working directory. Where jinja2 is installed for the
    # user alone, isolation hides it: its place is named.
    spec = importlib.util.find_spec("jinja2")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'jinja2'", name="jinja2")
    packages = str(Path(spec.origin).parents[1])
    start = (
        "import runpy, sys; sys.path.append(sys.argv[2]); "
        "runpy.run_path(sys.argv[1], run_name='__main__')"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", start, str(_WORKER), packages],
            input=job.encode("ascii"),
            capture_output=True,
            timeout=CLOCK_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise ModelError(
            f"the chat template failed: it ran for more than {CLOCK_SECONDS:.0f} s"
        ) from error
    if done.returncode == 0:
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            answer = None
        if isinstance(answer, dict):
            return answer
    # Killed by the system: the limit on processor time, or a stack that ran over.
    raise ModelError(
        f"the chat template failed: it took more than {CPU_SECONDS} s of processor time, or too "
        "much memory"
    )


def _templates(directory: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """Name → template; a single one is called default. Raises ModelFileError."""
    named = {
        path.stem: _read(path)
        for path in sorted((directory / "additional_chat_templates").glob("*.jinja"))
    }
    path = directory / "chat_template.jinja"
    if path.is_file():
        return {**named, "default": _read(path)}
    value = config.get("chat_template")
    if isinstance(value, str):
        return {**named, "default": value}
    entries = [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []
    for entry in entries:
        name, template = entry.get("name"), entry.get("template")
        if isinstance(name, str) and isinstance(template, str):
            named[name] = template
    return named


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_TEMPLATE_BYTES + 1)
        if len(data) > MAX_TEMPLATE_BYTES:
            raise ModelFileError(f"{path.name} is larger than {MAX_TEMPLATE_BYTES:,} bytes")
        return data.decode("utf-8")
    except OSError as error:
        raise ModelFileError(f"{path.name} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ModelFileError(f"{path.name} is not UTF-8 text") from error
