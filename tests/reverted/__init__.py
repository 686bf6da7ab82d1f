"""Fixes that are undone one by one: each must make a test fail.

    python -m tests.reverted                         # all of them: some minutes
    python -m tests.reverted gemm-without-c 'uni*'   # some, by the names of their patches

A patch in `patches/` undoes one fix in the present tree, in product code alone; the lines before it
name the fix and the tests of which one must fail, and pass without the patch.
Where the code has moved, so that a patch no longer applies, undo the fix by hand and put the output
of `git diff` in its place. Run this once for each issue, not in CI.
"""
