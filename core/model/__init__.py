"""The torch half of the engine: a Llama model whose keys and values live in paged blocks.

What reads configurations, fetches, converts and tokenizes needs no torch; the rest does.
"""

import os

# Read by torch's thread library (libgomp) when torch is first imported, so it stands here. Between
# two parallel loops a thread waits by spinning, by default for milliseconds; where the machine has
# other work, and this engine shares it with a browser, the spinning thread keeps the one it waits
# for off the core. Tokens/s at batch 1 in bfloat16 on 2 shared cores, quiet and beside two busy
# processes: 30 and 28 with 0 turns, 35 and 22 with 1,000, 37 and 18 with 2,000, 42 and 12 with
# 5,000, 39 and 1 with 100,000. It helps, it does not cure: set GOMP_SPINCOUNT=0
# for an engine that always has company.
os.environ.setdefault("GOMP_SPINCOUNT", "5000")
