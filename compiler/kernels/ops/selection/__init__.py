"""Lowerings of operators that choose elements: the first, those that are not zero, boxes."""
