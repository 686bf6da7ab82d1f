"""Models as the command line names them: an ONNX file, `zoo:NAME` or `field:NAME`."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

from compiler.errors import ModelError

if TYPE_CHECKING:
    import onnx

COLLECTIONS = ("zoo", "field")
"""The folders of networks in `EXAMPLES`; a network's name starts with its folder's and a colon."""

EXAMPLES = Path(__file__).parents[2] / "examples"
"""The examples in a clone of the repository; an installed package does not have them."""


def named_model(name: Path) -> "Path | onnx.ModelProto":
    """The file itself, or the network with its weights; raises ModelError for unknown names."""
    collection, network = _split(name)
    if name.exists() or not collection:
        return name
    # The module `examples.light`, by its file, since the examples are not an installed package.
    file = EXAMPLES / "light.py"
    spec = spec_from_file_location("flowloom_light", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise ModelError(
            f"the {collection}'s networks are not part of the installed package: run flowloom from"
            f" a clone of its repository, which has them in examples/{collection} ({EXAMPLES} is"
            " missing)"
        )
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    light = module
    files = light.files(EXAMPLES / collection)
    if network not in files:
        raise ModelError(f"the {collection} has no model {network!r}; it has {', '.join(files)}")
    return light.load_file(files[network])


def default_artifact(name: Path) -> Path:
    """The directory that a model is compiled to if none is given, in the current one."""
    collection, network = _split(name)
    return Path(f"{network if collection else name.stem}.flowloom")


def _split(name: Path) -> tuple[str, str]:
    """The collection and the network that a name says, or an empty string and the name."""
    collection, _, network = str(name).partition(":")
    return (collection, network) if collection in COLLECTIONS and network else ("", str(name))
