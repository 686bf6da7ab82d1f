"""One text to a cubin, with headers, without a GPU."""

import pytest

import compiler.target.nvrtc
from compiler.errors import KernelError
from compiler.target.nvrtc import compile_cuda, nvrtc_version
from tests.tools import needs_nvrtc

TEXT = '#include "one.cuh"\nextern "C" __global__ void k(int* p) { *p = ONE; }'


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_text_is_compiled_with_its_headers(arch: str):
    assert compile_cuda(TEXT, arch, {"one.cuh": "#define ONE 1\n"}).startswith(b"\x7fELF")
    assert nvrtc_version().startswith("nvrtc 1")


@needs_nvrtc
def test_a_function_without_a_space_is_one_of_the_device():
    called = "int one() { return 1; }\n" + TEXT.replace("ONE", "one()").partition("\n")[2]
    assert compile_cuda(called, "sm_80").startswith(b"\x7fELF")


@needs_nvrtc
def test_an_error_holds_the_log():
    with pytest.raises(KernelError, match=r"(?s)failed for sm_80.*one\.cuh"):
        compile_cuda(TEXT, "sm_80")


def test_without_nvrtc_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiler.target.nvrtc, "load_nvrtc", lambda: None)
    assert nvrtc_version() == "none"
    with pytest.raises(KernelError, match=r"pip install flowloom\[cuda\]"):
        compile_cuda(TEXT, "sm_80")
