"""Depthwise convolutions of images whose channels are next to each other."""
