"""Squeeze-and-excitation of images by one cluster each."""
