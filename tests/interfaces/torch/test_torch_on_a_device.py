"""PyTorch's tensors on a GPU: runs read and write its memory, on its streams."""

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytest.importorskip("onnxscript", reason="PyTorch is an extra")
pytest.importorskip("tvm", reason="models are compiled")

import compiler  # noqa: E402
from compiler.target.target import parse_target  # noqa: E402
from tests.interfaces.torch.test_torch import Counting, compiled  # noqa: E402
from tests.test_interfaces_page import register  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("cuda_device")]

EXACT: dict[str, Any] = {"precision": "fp32", "budget": 0}


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no CUDA device")
    torch._dynamo.reset()
    with torch.no_grad():
        yield
    torch._dynamo.reset()


def same(found: Any, expected: Any) -> None:
    """Equal structures of tensors on the same device, as close as float32 is."""
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def convolutions() -> Any:
    """Two branches of convolutions, and a linear layer."""
    torch.manual_seed(0)
    first, second = torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.Conv2d(3, 16, 1)

    class Branches(torch.nn.Module):
        """Adds what two convolutions make."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = first, second
            self.last = torch.nn.Linear(16, 10)

        def forward(self, x: Any) -> Any:
            """The classes of images."""
            y = torch.relu(self.first(x)) + torch.tanh(self.second(x))
            return self.last(y.mean((2, 3)))

    return Branches().eval().cuda()


def test_a_module_runs_in_the_memory_of_pytorch():
    model, x = convolutions(), torch.randn(2, 3, 32, 32, device="cuda")
    module = compiler.from_torch(model, (x,), **EXACT)
    assert parse_target(module.module.target).backend == "cuda"
    kept = module(x)
    for step in range(4):
        given = x + step
        same(module(given), model(given))
    assert kept.device == x.device
    same(kept, model(x))
    strided = torch.randn(2, 3, 32, 33, device="cuda")[..., 1:]
    same(module(strided), model(strided))


def test_a_run_follows_the_stream_of_its_caller():
    model, x = convolutions(), torch.randn(2, 3, 32, 32, device="cuda")
    module, side = compiler.from_torch(model, (x,), **EXACT), torch.cuda.Stream()
    for step in range(20):
        with torch.cuda.stream(side if step % 2 else torch.cuda.default_stream()):
            torch.cuda._sleep(1_000_000)  # the input is not there yet when the run is queued
            given = torch.full_like(x, step) * x
            same(module(given) + 1, model(given) + 1)


@pytest.mark.parametrize("on_a_side_stream", [False, True])
def test_sizes_that_vary(on_a_side_stream: bool):
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Softmax(-1))
    model = model.eval().cuda()
    shapes = ({0: torch.export.Dim("batch", max=64)},)
    module = compiler.from_torch(
        model, (torch.randn(3, 64, device="cuda"),), dynamic_shapes=shapes, **EXACT
    )
    stream = torch.cuda.Stream() if on_a_side_stream else torch.cuda.default_stream()
    stream.wait_stream(torch.cuda.current_stream())
    results: list[tuple[Any, Any]] = []
    with torch.cuda.stream(stream):
        for rows in (3, 5, 3, 40):
            torch.cuda._sleep(1_000_000)
            x = torch.randn(rows, 64, device="cuda")
            results.append((module(x), model(x)))
    torch.cuda.synchronize()
    for found, expected in results:
        same(found, expected)


def test_what_the_host_computes_comes_back_to_the_device():
    class Nonzero(torch.nn.Module):
        """Has an operator without a kernel."""

        def forward(self, x: Any) -> Any:
            """The indices and a tensor."""
            return torch.nonzero(x), x * 2

    x = torch.tensor([0.0, 1.0, 0.0, 2.0], device="cuda")
    found = compiler.from_torch(Nonzero(), (x,), **EXACT)(x)
    same(found, Nonzero()(x))


def test_torch_compile_runs_on_the_device():
    model, x = convolutions(), torch.randn(2, 3, 32, 32, device="cuda")
    register()
    options = {"fallback": False, **EXACT}
    faster = torch.compile(model, backend="flowloom", options=options)
    for step in range(3):
        same(faster(x + step), model(x + step))
    model.last.weight.mul_(2)
    same(faster(x), model(x))


def test_torch_compile_with_sizes_that_vary():
    def function(x: Any, y: Any) -> Any:
        return torch.relu(x @ y) * x.shape[0], x.T

    found, graphs = compiled(function, dynamic=True, given=EXACT)
    for rows, columns in ((3, 8), (50, 60)):
        x, y = (torch.randn(*shape, device="cuda") for shape in ((rows, columns), (columns, 40)))
        same(found(x, y), function(x, y))
    assert len(graphs) == 1


def test_buffers_on_the_device_are_changed():
    model, reference = Counting().cuda(), Counting().cuda()
    reference.load_state_dict(model.state_dict())
    module = compiler.from_torch(model, (torch.randn(3, 4, device="cuda"),), **EXACT)
    for _ in range(3):
        x = torch.randn(3, 4, device="cuda")
        same(module(x)["more"][0], reference(x)["more"][0])
    same(dict(model.named_buffers()), dict(reference.named_buffers()))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int64", "bool"])
def test_dtypes_on_the_device(dtype: str):
    def function(x: Any) -> Any:
        return torch.where(x, ~x, x) if x.dtype is torch.bool else x + x

    x = torch.tensor([[0, 1], [3, 0]], device="cuda").to(getattr(torch, dtype))
    found, _ = compiled(function, given=EXACT)
    assert found(x).dtype == x.dtype
    same(found(x), function(x))
