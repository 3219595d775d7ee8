"""OpenAI's interface to the live engine: /v1/models, /v1/completions, /v1/chat/completions.

params.py       what a body may say, and what is refused or ignored
completions.py  one interface's words: its request, its answer, its chunks
chat.py         the other's
generation.py   turns, submission and tokens of one HTTP request, with its choices
answer.py       the HTTP answer, whole or as server-sent events
errors.py       errors in OpenAI's shape
routes.py       the routes
"""
