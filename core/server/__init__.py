"""The engine process: one model, one live engine that all share, and scenario runs in a queue.

host.py    the one thread that owns the runner and decides who gets the device
live.py    the live engine and its readers
jobs.py    scenario runs, each with a pool and settings of its own on the same weights
view.py    what one reader may see of a step
tokens.py  what a reader gets that wants tokens and no steps
outbox.py  between the engine's thread and a reader that may be slow, or gone
fair.py    whose request is next, between clients of /v1
metrics.py what Prometheus is told
app.py     HTTP; openai/: the part of it that is OpenAI's
"""
