"""Writes core/sizing/data/architectures.json from the `transformers` that is installed.

What a published config.json leaves out is what its configuration class takes by default. Run it
after an update of transformers, or after a new architecture in core/sizing/architectures:

    python scripts/architecture_defaults.py
"""

from __future__ import annotations

import dataclasses
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

RATIOS = ("mlp_ratio", "expansion_ratio", "mamba_expand", "block_ffn_dim_multiplier")
"""Fractions that multiply into a size; other fractions are settings of training or arithmetic."""


def shapes(value: object, name: str) -> bool:
    """Whether a default could matter to a size: not None, and no fraction but the ratios."""
    if isinstance(value, list | tuple):
        return all(isinstance(item, int | str) for item in value)
    return isinstance(value, bool | int | str) or (isinstance(value, float) and name in RATIOS)


def defaults_of(config_class: Any, harmless: frozenset[str]) -> dict[str, Any]:
    """The class's defaults, without the fields that are known to be harmless."""
    rows = {field.name: field.default for field in dataclasses.fields(config_class)}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in rows.items()
        if name not in harmless and shapes(value, name)
    }


def main() -> None:
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    from core.sizing.architectures import supported
    from core.sizing.architectures.fields import harmless
    from core.sizing.architectures.locate import SAME_KIND

    path = ROOT / "core" / "sizing" / "data" / "architectures.json"
    known = [kind for kind in supported() if kind in CONFIG_MAPPING]
    nested = {}
    for outer in sorted(CONFIG_MAPPING):
        parts = getattr(CONFIG_MAPPING[outer], "sub_configs_defaults", None) or {}
        inner = getattr(parts.get("text_config"), "model_type", None)
        if inner in supported() or inner in SAME_KIND:
            nested[outer] = inner
    old = json.loads(path.read_text("utf-8"))
    table = {
        "about": old["about"],
        "source": f"configuration classes of transformers {transformers.__version__}; a test "
        "compares them with the installed ones",
        "date": f"{datetime.now(UTC):%Y-%m}",
        "nested": nested,
        "defaults": {kind: defaults_of(CONFIG_MAPPING[kind], harmless()) for kind in known},
    }
    path.write_text(json.dumps(table, indent=1) + "\n", "utf-8")
    print(f"{path.relative_to(ROOT)}: {len(known)} architectures, {len(nested)} that hold one")


if __name__ == "__main__":
    main()
