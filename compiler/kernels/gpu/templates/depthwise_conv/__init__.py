"""Depthwise convolutions with large windows on tensor cores."""
