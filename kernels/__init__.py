"""Kernels: the innermost loops of the engine; plain torch says the same beside each of them."""
