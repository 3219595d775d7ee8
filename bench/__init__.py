"""Benchmarks: `python -m bench NAME`. Each prints its settings, medians of five, and the range."""
