"""The peers and the table of `benchmarks/cpu_zoo.py`."""
