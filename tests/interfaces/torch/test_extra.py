"""Without PyTorch the error names the extra."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

import compiler
from compiler.errors import MissingExtraError
from compiler.interfaces.torch.entry import flowloom


@pytest.mark.parametrize("call", [compiler.from_torch, flowloom])
@pytest.mark.parametrize("package", ["torch", "onnxscript"])
def test_a_missing_package_is_named_with_its_extra(
    call: Callable[..., Any], package: str, monkeypatch: pytest.MonkeyPatch
):
    for other in ("torch", "onnxscript"):
        monkeypatch.setitem(sys.modules, other, pytest)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"{package} is missing.*flowloom\[torch\]"):
        call(abs, ())
