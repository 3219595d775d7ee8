"""`python -m bench blocks`: what the block manager costs."""

from __future__ import annotations

import sys

from bench import blocks

BENCHMARKS = {"blocks": blocks.main}


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1] not in BENCHMARKS:
        print(f"usage: python -m bench {{{','.join(BENCHMARKS)}}}", file=sys.stderr)
        return 2
    BENCHMARKS[sys.argv[1]]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
