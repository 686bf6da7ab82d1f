"""Every substitution, one file a family."""

from compiler.rewrite.rule import Rule
from compiler.rewrite.rules.attention import ATTENTION
from compiler.rewrite.rules.concats import CONCATS
from compiler.rewrite.rules.convolutions import CONVOLUTIONS
from compiler.rewrite.rules.elementwise import ELEMENTWISE
from compiler.rewrite.rules.folding import FOLDING
from compiler.rewrite.rules.gemms import GEMMS
from compiler.rewrite.rules.kernels import KERNELS
from compiler.rewrite.rules.linear_layers import LINEAR_LAYERS
from compiler.rewrite.rules.normalisations import NORMALISATIONS
from compiler.rewrite.rules.pooling import POOLING
from compiler.rewrite.rules.reshapes import RESHAPES
from compiler.rewrite.rules.resizing import RESIZING
from compiler.rewrite.rules.transposes import TRANSPOSES

FAMILIES: dict[str, tuple[Rule, ...]] = {
    "convolutions": CONVOLUTIONS,
    "kernels": KERNELS,
    "folding": FOLDING,
    "gemms": GEMMS,
    "linear_layers": LINEAR_LAYERS,
    "elementwise": ELEMENTWISE,
    "concats": CONCATS,
    "transposes": TRANSPOSES,
    "reshapes": RESHAPES,
    "pooling": POOLING,
    "resizing": RESIZING,
    "normalisations": NORMALISATIONS,
    "attention": ATTENTION,
}
"""The rules of each module of this package."""

RULES = tuple(rule for family in FAMILIES.values() for rule in family)
"""Every rule."""

SEARCHED = tuple(rule for rule in RULES if rule.searched)
"""The rules that are worth trying on networks."""
