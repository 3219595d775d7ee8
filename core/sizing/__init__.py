"""Sizing: how many bytes, how many sequences, how much time; every number with its derivation.

Pure arithmetic on a model's `config.json`, a GPU's data sheet and a few stated assumptions. No
torch, no network, no guess: what is not known is refused or named in a warning.
"""
