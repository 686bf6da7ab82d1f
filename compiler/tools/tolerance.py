"""How far an output may be from an exact one, by the precision of contractions."""

TOLERANCES = {"fp32": 1e-4, "tf32": 5e-3, "fp16": 5e-3, "bf16": 4e-2}
"""Allowed relative error of an output in the Euclidean norm, by precision.

An operand of tf32 and fp16 is off by up to u = 2^-11 of itself, of bf16 by 2^-8: the bounds are
10 u. Errors of layers are independent, so that they grow with the square root of the depth: a
hundred layers that each add u come to 10 u. Measured on the emulator, three convolutions: 0.9 u.
In fp32 u is 2^-24, but there the functions (exp, erf, tanh: a few 1e-7) and sums in another order
count more, and normalisations magnify them; measured on the CPU, GoogLeNet: 6.4e-7.
"""

LARGEST_ELEMENT_FACTOR = 4.0
"""How much more one element may be off, as a part of the output's largest value.

Of 10^6 errors drawn from a normal distribution the largest is five times the root mean square;
the values' own largest is at least as much above theirs, unless they saturate. A single wrong
element, which the norm of many hides, is about as large as the values are.
"""
