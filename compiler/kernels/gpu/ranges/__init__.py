"""Ranges of results, which the kernel that computes a tensor finds with it.

A template whose results are stored by a store function folds them: each thread keeps the range of
what it stores in registers, and warps or blocks write theirs. That takes no second pass, no atomics
and no memory that is reset. Another kernel, or one of too many blocks, is followed by a launch that
reads the tensor again.
"""
