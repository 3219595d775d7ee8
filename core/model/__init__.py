"""The torch half of the engine: a Llama model whose keys and values live in paged blocks.

What reads configurations, fetches, converts and tokenizes needs no torch; the rest does.
"""

import os

# Read by torch's thread library (libgomp) when torch is first imported, so it stands here. Between
# two parallel loops a thread waits by spinning, by default for milliseconds; where the machine has
# other work, and this engine shares it with a browser, the spinning thread keeps the one it waits
# for off the core. Measured on 2 shared cores, batch of 1, bfloat16: 41 tokens/s quiet with either
# setting; busy, 1 to 5 by default and 13 to 36 with 5,000 turns. 0 is steadier still when busy, but
# 28 to 31 when quiet. It helps, it does not cure: long steps on a busy machine still suffer.
os.environ.setdefault("GOMP_SPINCOUNT", "5000")
