"""Format 2 of databases and results: lists of values, turned into named fields."""

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from compiler.errors import ArtifactError
from compiler.kernels.database.fields import Config, Value, problem_key

FORMAT = 2

GATHER = (
    *("channels", "pixels", "image", "plane", "taps", "row", "tap_major"),
    *("source", "result", "window", "strides", "pads", "dilations", "transposed"),
)

WINDOW = ("kernel", "strides", "dilations", "before")

MATRIX_FIELDS = ("rows", "columns", "row_stride", "column_stride")

PROBLEMS: Mapping[str, tuple[str, ...]] = {
    "gemm": (
        *("precision", "dtype", "m", "n", "k", "count", "form", "a_row", "b_row"),
        *("a_packed", "b_packed", "block", *GATHER),
    ),
    "attention": (
        *("precision", "batch"),
        *(f"{operand}_{field}" for operand in ("query", "key", "value") for field in MATRIX_FIELDS),
    ),
    "grouped_conv": (
        *("image_dtype", "weight_dtype", "blocked"),
        *("source", "result", "channels", "rows", "block", *WINDOW),
    ),
    "stem_conv": (
        *("precision", "image_dtype", "weight_dtype"),
        *("source", "result", "block", "blocked", "element_bytes", *WINDOW),
    ),
    "row_norm": ("type", "rows", "columns"),
}
"""The fields of each template's problem, in the order of format 2."""

CONFIGS: Mapping[str, Mapping[str, Value | None]] = {
    "gemm": {
        **dict.fromkeys(("rows", "columns", "warp_rows", "warp_columns", "split_k")),
        **{"stages": 3, "lanes": 32},
        **dict.fromkeys(("wgmma", "prefetch", "release", "halo"), False),
    },
    "attention": {"tiles": None, "warps": None, "bands": 1, "staged": 0},
    "grouped_conv": dict.fromkeys(("pixels", "places", "split_k")),
    "stem_conv": dict.fromkeys(("rows", "columns", "pixels", "width", "turns")),
    "row_norm": {"threads": None, "rows": 1},
}
"""The fields of each template's config, in the order of format 2, and their defaults, if any."""

NAMES = {
    "attention": "attention",
    "grouped": "grouped_conv",
    "stem": "stem_conv",
    "rows": "row_norm",
}
"""The first value of each template's problems; those of GEMMs had no name."""


def template_of(key: str) -> str:
    """The template of a problem."""
    return NAMES.get(json.loads(key)[0], "gemm")


def named_problem(key: str) -> str:
    """The key of a problem that was a list in JSON; raises ArtifactError for a damaged one."""
    template, (first, *rest) = template_of(key), json.loads(key)
    values = [first, *rest] if template == "gemm" else rest
    if template == "gemm":
        values = [*values[:-1], *values[-1]]
    if template == "attention":
        values = [*values[:2], *chain.from_iterable(values[2:])]
    names = PROBLEMS[template]
    if len(names) != len(values):
        raise ArtifactError(
            f"the problem {key} does not have the {len(names)} values of a {template}"
        )
    return problem_key(template, dict(zip(names, values, strict=True)))


def named_config(template: str, values: Sequence[Any]) -> Config:
    """The fields of a config that was a list; values that were left out had their default."""
    defaults = CONFIGS[template]
    if len(values) > len(defaults):
        raise ArtifactError(f"the config {values} has more values than a {template} has fields")
    found = dict(defaults) | dict(zip(defaults, values, strict=False))
    return tuple(
        (name, value)
        for name, value in found.items()
        if value is not None and (defaults[name] is None or value != defaults[name])
    )
