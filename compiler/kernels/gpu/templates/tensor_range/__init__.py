"""Elementwise operators on a tensor and its least and greatest element."""
