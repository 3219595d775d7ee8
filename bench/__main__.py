"""`python -m bench NAME`: what blocks, engine, kernels and pages cost, what dtypes lose."""

from __future__ import annotations

import importlib
import sys

BENCHMARKS = ("blocks", "engine", "gpu", "perplexity", "ui", "load")


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] not in BENCHMARKS:
        print(f"usage: python -m bench {{{','.join(BENCHMARKS)}}} …", file=sys.stderr)
        return 2
    # Only the one that is asked for: `blocks` measures without torch in the process.
    benchmark = importlib.import_module(f"bench.{sys.argv[1]}")
    code: int = benchmark.main(sys.argv[2:])
    return code


if __name__ == "__main__":
    sys.exit(main())
