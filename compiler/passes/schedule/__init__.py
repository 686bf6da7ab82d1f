"""Passes that decide where, when and in which memory kernels run."""
