"""The operators of TVM that terms have."""

from tvm import tirx

TERM_OPERATORS = {
    tirx.Add: "+",
    tirx.Sub: "-",
    tirx.Mul: "*",
    tirx.FloorDiv: "//",
    tirx.Div: "//",
    tirx.FloorMod: "%",
    tirx.Mod: "%",
    tirx.Min: "min",
    tirx.Max: "max",
    tirx.LT: "<",
    tirx.LE: "<=",
    tirx.EQ: "==",
    tirx.And: "and",
    tirx.Or: "or",
}
"""TVM's operators that are one of a term's, where no number is negative."""
