"""Tuning of tiles in three steps: prepare without a GPU, measure without TVM, merge."""
