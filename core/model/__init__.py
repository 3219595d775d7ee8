"""The torch half of the engine: a Llama model whose keys and values live in paged blocks.

`config`, `fetch`, `convert`, `gguf_reader` and `tokenizer` need no torch; the rest does.
"""
