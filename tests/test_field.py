"""The field's networks are light and valid, and compile to what onnxruntime computes."""

import ast
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import compiler
from compiler.tools.comparison import compare
from compiler.tools.models import named_model
from compiler.tools.reference import run_onnxruntime
from examples import field, light, zoo
from examples.field.export import BUILDERS

ROOT = Path(__file__).parent.parent
NAMES = field.names()
QUICK = ("bilstm_tagger", "dlrm", "espcn", "transducer", "vq_vae")
"""Networks of some kinds that compile in seconds."""
OPEN = {*field.SIZES, "box_detector"}
"""Networks with sizes that a run decides, the last by its data."""


def test_the_field_is_complete():
    assert len(NAMES) >= 30
    assert set(NAMES) == set(BUILDERS)
    assert not set(NAMES) & {*zoo.names(), *zoo.others()}
    with pytest.raises(KeyError, match=r"no network 'lenet'.*swin_tiny"):
        field.load("lenet")


def test_the_files_are_small():
    sizes = {name: field.path(name).stat().st_size for name in NAMES}
    assert not [name for name, size in sizes.items() if size > 600_000]
    assert sum(sizes.values()) < 12_000_000


def weights(graph: onnx.GraphProto) -> list[onnx.TensorProto]:
    """The tensors that are drawn from their seeds."""
    return [tensor for tensor in graph.initializer if tensor.doc_string]


@pytest.mark.parametrize("name", NAMES)
def test_a_network_is_light_and_has_inputs(name: str):
    model = onnx.load_model_from_string(field.path(name).read_bytes())
    assert weights(model.graph) or name == "kalman", "its few numbers are kept"
    assert not [t for t in weights(model.graph) if "Infinity" in t.doc_string]
    sizes = [d for i in model.graph.input for d in i.type.tensor_type.shape.dim]
    results = [d for o in model.graph.output for d in o.type.tensor_type.shape.dim]
    assert {size.dim_param for size in sizes} - {""} == set(field.SIZES.get(name, {}))
    assert all(size.dim_value > 0 for size in sizes if not size.dim_param)
    assert all(size.dim_value > 0 for size in results) or name in OPEN
    model.graph.name = name
    inputs, again = (field.random_inputs(model, 1) for _ in range(2))
    assert set(inputs) == {info.name for info in model.graph.input}
    assert all(np.array_equal(inputs[key], again[key]) for key in inputs)
    other = field.random_inputs(model, 2)
    assert any(not np.array_equal(inputs[key], other[key]) for key in inputs)


def test_a_table_of_indices_is_drawn_within_its_bounds():
    tensor = onnx.TensorProto(name="t", data_type=onnx.TensorProto.INT64, dims=[2_000])
    tensor.doc_string = '{"dist": "integers", "low": 3, "high": 9, "seed": 4}'
    model = onnx.ModelProto()
    model.graph.initializer.append(tensor)
    light.refill(model)
    drawn = onnx.numpy_helper.to_array(model.graph.initializer[0])
    assert (drawn.min(), drawn.max(), drawn.dtype) == (3, 9, np.int64)


def test_a_name_stands_for_a_network_of_the_field():
    assert named_model(Path("field:espcn")) == field.load("espcn")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.deep) for n in NAMES]
)
def test_a_network_matches_onnxruntime(name: str):
    model = field.load(name)
    inputs = field.random_inputs(model, seed=3)
    expected = run_onnxruntime(model, inputs)
    assert all(np.isfinite(array).all() for array in expected.values())
    report = compare(compiler.compile(model).run(inputs), expected)
    assert report.passed, str(report)


def uses_the_field(source: str) -> bool:
    """Whether code imports the field, or a text in it names one of its networks."""
    tree = ast.parse(source)
    imports = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return any(
        re.match(r"from examples(\.field| import .*\bfield\b)", text) for text in imports
    ) or (any(isinstance(text, str) and names(text) for text in texts))


def names(text: str) -> bool:
    """Whether a text is a network's name, or a path to one."""
    return "examples/field/" in text or text.removeprefix("field:") in NAMES


def test_nothing_was_tuned_or_written_for_the_field():
    scripts = [*(ROOT / "compiler").rglob("*.py"), ROOT / "benchmarks/tuning.py"]
    assert not [path for path in scripts if uses_the_field(path.read_text())]
    command = re.findall(
        r"prepare zoo\.bundle .*--models (.*)", (ROOT / "docs/tuning.md").read_text()
    )
    assert command == ["examples/zoo/models/*.onnx batch16/*.onnx"]
    assert uses_the_field("from examples import field\n")
    assert uses_the_field('load("field:espcn")\n')


MODULE_METHODS = frozenset(
    "apply bfloat16 children cpu cuda double eval float half modules parameters state_dict to train"
    " type".split()
)
"""Methods of PyTorch's modules that benchmarks and exporters call."""


def test_networks_keep_the_methods_of_modules():
    """A network that keeps a number as `half` cannot be converted to half precision."""
    hidden: list[str] = []
    for path in sorted((ROOT / "examples").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                own = isinstance(node.value, ast.Name) and node.value.id == "self"
                if own and node.attr in MODULE_METHODS:
                    hidden.append(f"{path.name}:{node.lineno} self.{node.attr}")
    assert not hidden
