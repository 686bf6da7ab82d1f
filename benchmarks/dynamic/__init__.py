"""Benchmarks of models whose shapes or control flow only a run decides."""
