"""Modules and functions of PyTorch, compiled by `from_torch` and as a backend of torch.compile."""

import logging
import tomllib
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytest.importorskip("onnxscript", reason="PyTorch is an extra")

import compiler  # noqa: E402
from compiler.errors import ModelError, ShapeError  # noqa: E402
from compiler.interfaces.torch.dynamo import CompiledGraph  # noqa: E402
from compiler.interfaces.torch.entry import flowloom  # noqa: E402
from compiler.interfaces.torch.tensors import as_array, as_tensor  # noqa: E402


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:
    torch._dynamo.reset()
    with torch.no_grad():
        yield
    torch._dynamo.reset()


class Counting(torch.nn.Module):
    """Two layers, a buffer that each call changes, and results in a structure."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(4, 8)
        self.norm = torch.nn.BatchNorm1d(8)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Any, scale: Any = None) -> Any:
        """A dictionary, with a None and a number in it."""
        self.calls.add_(1)
        y = torch.relu(self.norm(self.first(x)))
        y = y if scale is None else y * scale
        return {"y": y, "more": (y.sum(1) + self.calls, None, 3)}


class Noisy(torch.nn.Module):
    """Draws random numbers."""

    def forward(self, x: Any) -> Any:
        """Noise and a dropout."""
        return torch.nn.functional.dropout(x + torch.rand_like(x), 0.5)


def same(found: Any, expected: Any) -> None:
    """Equal structures of tensors as close as float32 is."""
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True)


def compiled(
    function: Any, given: Mapping[str, Any] | None = None, **options: Any
) -> tuple[Any, list[CompiledGraph]]:
    """A function compiled by the backend, which may not fall back, and its graphs so far."""
    graphs: list[CompiledGraph] = []

    def backend(graph: Any, inputs: Any) -> Any:
        made = flowloom(graph, inputs, options={"fallback": False, **(given or {})})
        graphs.append(made)
        return made

    return torch.compile(function, backend=backend, **options), graphs


def test_the_entry_point_is_the_backend():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    entry = project["project"]["entry-points"]["torch_dynamo_backends"]["flowloom"]
    module, _, name = entry.partition(":")
    assert getattr(import_module(module), name) is flowloom


def test_a_module_with_buffers_and_structure():
    model, x = Counting(), torch.randn(3, 4)
    reference = Counting()
    reference.load_state_dict(model.state_dict())
    module = compiler.from_torch(model, (x,))
    for step in range(3):
        given = x + step
        found, expected = module(given), reference(given)
        same(found["y"], expected["y"])
        same(found["more"][0], expected["more"][0])
        assert found["more"][1:] == expected["more"][1:]
    same(dict(model.named_buffers()), dict(reference.named_buffers()))
    assert model.calls == 3
    with pytest.raises(ShapeError, match="differ from the example"):
        module(x, scale=2)


def test_named_arguments_and_dynamic_shapes():
    model = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Flatten(0)).eval()
    batch = torch.export.Dim("batch", max=64)
    module = compiler.from_torch(
        model, {"input": torch.randn(3, 4)}, dynamic_shapes={"input": {0: batch}}
    )
    for rows in (3, 5):
        x = torch.randn(rows, 4)
        same(module(input=x), model(x))
    with pytest.raises(ShapeError, match="names 'x'; the arguments are input"):
        compiler.from_torch(model, (torch.randn(3, 4),), dynamic_shapes={"x": {0: batch}})


def test_gradients_are_refused():
    model, x = torch.nn.Linear(2, 2), torch.randn(1, 2)
    module = compiler.from_torch(model, (x,))
    with torch.enable_grad():
        with pytest.raises(ModelError, match="for inference"):
            module(x.requires_grad_())
        with pytest.raises(Exception, match=r"torch\.no_grad"):
            torch.compile(model, backend=flowloom)(x)


def test_what_cannot_be_exported_is_named():
    class Sparse(torch.nn.Module):
        """Has an operator that ONNX does not have."""

        def forward(self, x: Any) -> Any:
            return torch.linalg.eigvals(x)

    with pytest.raises(ModelError, match="cannot export"):
        compiler.from_torch(Sparse(), (torch.randn(2, 2),))


def test_parameters_are_constants_until_they_change(caplog: pytest.LogCaptureFixture):
    model, x = torch.nn.Linear(4, 4), torch.randn(2, 4)
    found, graphs = compiled(model)
    same(found(x), model(x))
    (graph,) = graphs
    assert [spec.shape for spec in graph.exported.module.inputs] == [(2, 4)]
    with caplog.at_level(logging.WARNING, "compiler"):
        same(found(x), model(x))
        assert "compiled again" not in caplog.text
        model.weight.mul_(2)
        same(found(x), model(x))
        assert "parameters have changed" in caplog.text
    model.load_state_dict(torch.nn.Linear(4, 4).state_dict())
    same(found(x), model(x))


def test_buffers_and_inputs_that_a_graph_changes():
    model, reference = Counting(), Counting()
    found, graphs = compiled(model)
    for _ in range(3):
        x = torch.randn(5, 4)
        same(found(x)["more"][0], reference(x)["more"][0])
    same(dict(model.named_buffers()), dict(reference.named_buffers()))
    assert len(graphs) == 1

    def fill(x: Any, y: Any) -> Any:
        x[0].add_(y)
        return x * 2

    a, y = torch.randn(3, 2), torch.randn(2)
    b = a.clone()
    same(compiled(fill)[0](a, y), fill(b, y))
    same(a, b)


def test_sizes_that_vary():
    def function(x: Any, n: int) -> Any:
        return torch.relu(x).reshape(x.shape[0] * 2, -1) * n + x.shape[1], x.shape[0], x.T

    found, graphs = compiled(function, dynamic=True)
    for rows, columns, n in ((3, 8, 5), (5, 6, 5), (7, 10, 5)):
        x = torch.randn(rows, columns)
        same(found(x, n), function(x, n))
    assert len(graphs) == 1
    inputs = graphs[0].exported.module.inputs
    assert all(isinstance(size, str) for size in inputs[0].shape)
    same(found(x, 6), function(x, 6))
    assert len(graphs) == 2


def test_an_encoder_of_pytorch():
    model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = torch.randn(2, 5, 8)
    same(compiler.from_torch(model, (x,))(x), model(x))
    assert torch.backends.mha.get_fastpath_enabled()


def test_numbers_of_modules_may_vary(caplog: pytest.LogCaptureFixture):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4)).eval()
    found, graphs = compiled(model, dynamic=True)
    for rows in (2, 5):
        x = torch.randn(rows, 4)
        same(found(x), model(x))
    model[1].eps = 0.5
    with caplog.at_level(logging.WARNING, "compiler"):
        same(found(x), model(x))
    assert len(graphs) > 1 or "a number has changed" in caplog.text


def test_random_numbers_are_left_to_pytorch():
    with pytest.raises(ModelError, match=r"aten\.rand_like"):
        compiler.from_torch(Noisy(), (torch.ones(2),))


def test_views_of_inputs_stay_views():
    def function(x: Any) -> Any:
        return x.view(-1)[2:], x + 1, x

    x = torch.randn(4, 3)[1:]
    view, more, whole = compiled(function)[0](x)
    same(more, x + 1)
    x.zero_()
    assert whole is x
    assert not view.any()
    assert view.data_ptr() == x.view(-1)[2:].data_ptr()


def test_inputs_need_not_be_contiguous_and_graphs_may_break():
    def function(x: Any, y: Any) -> Any:
        z = torch.tanh(x @ y)
        torch._dynamo.graph_break()
        return z.T * 2, None

    x, y = torch.randn(6, 4).T, torch.randn(12)[::2].reshape(6, 1).expand(6, 3)
    found, graphs = compiled(function)
    same(found(x, y), function(x, y))
    assert len(graphs) == 2


def test_dtypes_of_pytorch():
    def function(x: Any, mask: Any, index: Any) -> Any:
        return torch.where(mask, x, -x).to(torch.bfloat16), index + 1, mask.any()

    given = torch.randn(3), torch.tensor([True, False, True]), torch.tensor(4)
    same(compiled(function)[0](*given), function(*given))
    for dtype in (torch.bfloat16, torch.float64, torch.int8, torch.bool):
        tensor = torch.tensor([0, 1]).to(dtype)
        same(as_tensor(as_array(tensor)), tensor)
        assert as_tensor(as_array(tensor)).data_ptr() == tensor.data_ptr()
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        tensor = torch.tensor([0, 1]).to(dtype)
        again = as_tensor(as_array(tensor))
        assert (again.dtype, again.data_ptr()) == (dtype, tensor.data_ptr())
    with pytest.raises(ShapeError, match="dense"):
        as_array(torch.eye(2).to_sparse())


def test_a_graph_that_cannot_be_compiled_runs_in_pytorch(caplog: pytest.LogCaptureFixture):
    def function(x: Any) -> Any:
        return torch.linalg.eigvals(x).abs().sum()

    x = torch.randn(3, 3)
    with caplog.at_level(logging.WARNING, "compiler"):
        same(torch.compile(function, backend=flowloom)(x), function(x))
    assert "runs in PyTorch" in caplog.text
    torch._dynamo.reset()
    with pytest.raises(Exception, match="cannot export"):
        compiled(function)[0](x)


def test_options_are_those_of_compile():
    backend: Any = flowloom
    found = torch.compile(lambda x: x + 1, backend=backend, options={"threads": 1})
    np.testing.assert_array_equal(found(torch.ones(2)).numpy(), [2, 2])
    with pytest.raises(Exception, match="no mode 'max-autotune'"):
        torch.compile(lambda x: x + 1, backend=backend, mode="max-autotune")(torch.ones(2))


def averaged(x: Any, indices: Any, more: Any) -> Any:
    """Means of elements that are written to one place."""
    return x.scatter_reduce(0, indices, more, "mean", include_self=False)


def widened(x: Any) -> Any:
    """An image at scales that its sizes do not have."""
    return torch.nn.functional.interpolate(
        x[None, None], scale_factor=(1.7, 0.6), mode="bilinear", antialias=True
    )


@pytest.mark.parametrize("function", [averaged, widened])
def test_what_the_exporter_writes_wrongly_runs_in_pytorch(
    function: Any, caplog: pytest.LogCaptureFixture
):
    given = [torch.randn(5, 4), torch.tensor([[0, 1, 2, 3]] * 7), torch.randn(7, 4)]
    given = given if function is averaged else given[:1]
    with caplog.at_level(logging.WARNING, logger="compiler.interfaces.torch"):
        same(torch.compile(function, backend=flowloom)(*given), function(*given))
    (record,) = caplog.records
    assert "runs in PyTorch: PyTorch cannot export aten." in record.getMessage()
    assert "would be lost" in record.getMessage()
