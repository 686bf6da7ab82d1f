"""Checks of each kernel of a module against the interpreter, on what the kernel reads."""
