"""Models as the command line names them: an ONNX file, or `zoo:NAME` for a network of the zoo."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.errors import ModelError

if TYPE_CHECKING:
    import onnx

ZOO = "zoo:"
"""The prefix of the names of the zoo's networks."""

ZOO_PACKAGE = Path(__file__).parents[2] / "examples" / "zoo" / "__init__.py"
"""The zoo's loader in a clone of the repository; an installed package does not have it."""


def named_model(name: Path) -> "Path | onnx.ModelProto":
    """The file itself, or the zoo's model with its weights; raises ModelError for unknown names."""
    if name.exists() or not str(name).startswith(ZOO):
        return name
    zoo, wanted = _zoo(), str(name).removeprefix(ZOO)
    known = [*zoo.names(), *zoo.others()]
    if wanted not in known:
        raise ModelError(f"the zoo has no model {wanted!r}; it has {', '.join(known)}")
    return zoo.load(wanted)


def default_artifact(name: Path) -> Path:
    """The directory that a model is compiled to if none is given, in the current one."""
    stem = str(name).removeprefix(ZOO) if str(name).startswith(ZOO) else name.stem
    return Path(f"{stem}.flowloom")


def _zoo() -> Any:
    spec = spec_from_file_location("flowloom_zoo", ZOO_PACKAGE)
    if spec is None or spec.loader is None or not ZOO_PACKAGE.is_file():
        raise ModelError(
            "the zoo's networks are not part of the installed package: run flowloom from a clone"
            f" of its repository, which has them in examples/zoo ({ZOO_PACKAGE.parent} is missing)"
        )
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
