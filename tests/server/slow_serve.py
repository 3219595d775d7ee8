"""`python -m core serve` with a device that can be slowed down, hung and broken from outside.

KV_TEST_STEP_S: how much longer each step takes. KV_TEST_FOLDER: while it holds a file `hang`, steps
do not end; `break` makes one fail (and is gone then).
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from core.__main__ import main
from core.model.model_runner import ModelRunner

STEP_S = float(os.environ.get("KV_TEST_STEP_S", "0"))
FOLDER = Path(os.environ["KV_TEST_FOLDER"])
_execute = ModelRunner.execute


def execute(self: ModelRunner, batch: Any) -> Any:
    time.sleep(STEP_S)
    while (FOLDER / "hang").exists():
        time.sleep(0.02)
    if (FOLDER / "break").exists():
        (FOLDER / "break").unlink()
        raise RuntimeError("the device is gone")
    return _execute(self, batch)


ModelRunner.execute = execute  # type: ignore[method-assign]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
