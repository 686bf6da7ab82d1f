"""The activation functions of recurrent cells as C expressions of `x`."""

from collections.abc import Callable, Sequence

FUNCTIONS: dict[str, Callable[[str, str], str]] = {
    "Affine": lambda alpha, beta: f"{alpha} * x + {beta}",
    "Elu": lambda alpha, beta: f"x < 0 ? {alpha} * flowloom_expm1(x) : x",
    "HardSigmoid": lambda alpha, beta: (
        f"flowloom_minimum(flowloom_maximum({alpha} * x + {beta}, 0.0f), 1.0f)"
    ),
    "LeakyRelu": lambda alpha, beta: f"x < 0 ? {alpha} * x : x",
    "Relu": lambda alpha, beta: "flowloom_maximum(x, 0.0f)",
    "ScaledTanh": lambda alpha, beta: f"{alpha} * flowloom_tanh({beta} * x)",
    "Sigmoid": lambda alpha, beta: "flowloom_sigmoid(x)",
    "Softplus": lambda alpha, beta: (
        "flowloom_maximum(x, 0.0f) + flowloom_log1p(flowloom_exp(-fabsf(x)))"
    ),
    "Softsign": lambda alpha, beta: "x / (1.0f + fabsf(x))",
    "Tanh": lambda alpha, beta: "flowloom_tanh(x)",
    "ThresholdedRelu": lambda alpha, beta: f"x > {alpha} ? x : 0.0f",
}
"""The C expression of each function, by its alpha and beta."""

CELLS = {
    "RNN": "h = f(x[0] + r[0]);",
    "GRU": (
        "const float update = f(x[0] + r[0]), reset = f(x[1] + r[1]);\n"
        "    h = (1.0f - update) * g(x[2] + reset * (r[2] + bias)) + update * h;"
    ),
    "GRU that resets first": "h = (1.0f - c) * g(x[2] + r[2]) + c * h;",
    "LSTM": (
        "const float write = f(x[0] + r[0]), keep = {keep};\n"
        "    c = write * g(x[3] + r[3]) + keep * c;\n"
        "    h = f(x[1] + r[1]) * k(c);"
    ),
}
"""The statements of a cell, by the gates of the inputs `x` and of the state `r`."""

RESET = "c = f(x[0] + r[0]);\n    return f(x[1] + r[1]) * h;"
"""The statements of the reset state of a GRU whose GEMM reads it; `c` keeps the update gate."""


def cell_struct(
    cell: str,
    gates: int,
    names: Sequence[str],
    alphas: Sequence[float],
    betas: Sequence[float],
    clip: float,
    coupled: bool,
    resets_first: bool,
) -> str:
    """The struct of a cell whose `step` computes its state from the gates.

    One that resets first has the function of the reset state, too.
    """
    head = "  static __device__ __forceinline__"
    lines = ["struct Cell {"]
    for own, name, alpha, beta in zip("fgk", names, alphas, betas, strict=False):
        body = FUNCTIONS[name](_literal(alpha), _literal(beta))
        bound = _literal(clip)
        clipped = f"x = flowloom_minimum(flowloom_maximum(x, -{bound}), {bound}); " if clip else ""
        lines.append(f"{head} float {own}(float x) {{ {clipped}return {body}; }}")
    inputs = f"const float (&x)[{gates}], const float (&r)[{gates}]"
    keep = "1.0f - write" if coupled else "f(x[2] + r[2])"
    step = CELLS["GRU that resets first" if resets_first else cell].format(keep=keep)
    lines += [
        f"{head} void step({inputs}, float bias, float& h, float& c) {{",
        f"    {step}",
        "  }",
    ]
    if resets_first:
        lines += [f"{head} float reset({inputs}, float h, float& c) {{", f"    {RESET}", "  }"]
    return "\n".join([*lines, "};", ""])


def _literal(number: float) -> str:
    return f"{float(number)!r}f"
