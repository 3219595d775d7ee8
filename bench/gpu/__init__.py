"""`python -m bench gpu`: everything that only a GPU can show of kernels and engine, in one command.

No GPU has run it yet. `--device cpu --tiny` rehearses the whole of it without one: the same parts
on tiny shapes, with plain torch or Triton's interpreter in the kernels' place. A rehearsal shows
that the command works, and measures nothing.
"""

from bench.gpu.command import main

__all__ = ["main"]
