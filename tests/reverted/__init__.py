"""Fixes that are undone one by one: each must make a test fail.

    python -m tests.reverted                         # all of them: some minutes
    python -m tests.reverted gemm-without-c 'uni*'   # some, by the names of their patches

A patch in `patches/` undoes one fix in the present tree, in product code alone; the lines before it
name the fix and the tests that must fail. The tests pass without the patches, which is checked
first. A patch that does not apply any longer, as the code has moved, is to be written anew: undo the
fix by hand, and put `git diff` in its place. Run this once an issue, not in CI.
"""
