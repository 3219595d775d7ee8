"""Triton kernels, for any GPU of compute capability 8.0 or above. README.md says what is proved.

Each file holds the kernels of one function of `kernels`, and how they are launched; the function
itself, its contract and its twin in plain torch are in `kernels/<same name>.py`. Nothing here is
imported unless a call is to run on a GPU, or in Triton's interpreter.
"""
