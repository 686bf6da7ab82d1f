"""Every substitution, one file a family."""

from compiler.graph.rewriting.rule import Rule
from compiler.graph.substitutions.attention import ATTENTION
from compiler.graph.substitutions.concats import CONCATS
from compiler.graph.substitutions.convolutions import CONVOLUTIONS
from compiler.graph.substitutions.elementwise import ELEMENTWISE
from compiler.graph.substitutions.folding import FOLDING
from compiler.graph.substitutions.gemms import GEMMS
from compiler.graph.substitutions.kernels import KERNELS
from compiler.graph.substitutions.linear_layers import LINEAR_LAYERS
from compiler.graph.substitutions.normalisations import NORMALISATIONS
from compiler.graph.substitutions.pooling import POOLING
from compiler.graph.substitutions.reshapes import RESHAPES
from compiler.graph.substitutions.resizing import RESIZING
from compiler.graph.substitutions.transposes import TRANSPOSES

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
