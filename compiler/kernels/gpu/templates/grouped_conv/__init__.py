"""Convolutions with few channels in each group."""
