"""The torch half of the engine: a Llama model whose keys and values live in paged blocks.

`config`, `cache`, `fetch`, `convert`, `gguf_reader` and `tokenizer` need no torch; the rest does.
"""

import os

# Read by torch's thread library (libgomp) when torch is first imported, so it stands here. Between
# two parallel loops a thread waits by spinning, by default for milliseconds. On a machine that has
# other work to do, and this engine shares it with a browser, the spinning thread keeps the one it
# waits for off the core: decode fell from 41 to between 1 and 5 tokens/s. 5,000 turns cost nothing
# on a quiet machine and kept at least 13 tokens/s on a busy one (2 cores, batch of 1, bfloat16).
os.environ.setdefault("GOMP_SPINCOUNT", "5000")
