"""Targets: their text form, what it leaves open, and their capabilities."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.errors import DeviceError, KernelError
from compiler.target.target import (
    PRECISIONS_OF,
    CpuTarget,
    CudaTarget,
    HipTarget,
    Target,
    complete,
    parse_cpu,
    parse_gpu,
    parse_target,
)

NVIDIA = ("sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
AMD = ("gfx90a", "gfx942", "gfx1030", "gfx908")


@st.composite
def targets(draw: st.DrawFn) -> Target:
    """Any target that can be written."""
    emulated = draw(st.booleans())
    match draw(st.sampled_from(["cpu", "cuda", "hip"])):
        case "cuda":
            named = (draw(st.sampled_from(NVIDIA)),)
            precision = draw(st.sampled_from(PRECISIONS_OF["cuda"]))
            return CudaTarget(architectures=named, precision=precision, emulated=emulated)
        case "hip":
            several = draw(st.lists(st.sampled_from(AMD), min_size=1, unique=True))
            precision = draw(st.sampled_from(PRECISIONS_OF["hip"]))
            return HipTarget(architectures=tuple(several), precision=precision, emulated=emulated)
        case _:
            mcpu = draw(st.sampled_from(["", "x86-64-v3", "znver4"]))
            features = draw(st.sampled_from(["", "+avx512f,-sse4a"])) if mcpu else ""
            precision = draw(st.sampled_from(PRECISIONS_OF["cpu"]))
            return CpuTarget(mcpu=mcpu, features=features, precision=precision)


@given(targets())
def test_the_text_form_round_trips(target: Target):
    assert parse_target(str(target)) == target
    assert str(target).startswith(target.backend)


@pytest.mark.parametrize(
    ("text", "full", "precision"),
    [
        ("cpu", "cpu", "fp32"),
        ("cpu:x86-64-v3", "cpu:x86-64-v3", "fp32"),
        ("cpu:fp32", "cpu", "fp32"),
        ("cpu:bf16", "cpu:bf16", "bf16"),
        ("cpu:x86-64-v3:fp16", "cpu:x86-64-v3:fp16", "fp16"),
        ("cpu:x86-64-v3:+avx512f:bf16", "cpu:x86-64-v3:+avx512f:bf16", "bf16"),
        ("cuda", "cuda:sm_90:tf32", "tf32"),
        ("cuda:sm_80", "cuda:sm_80:tf32", "tf32"),
        ("cuda::fp16", "cuda:sm_90:fp16", "fp16"),
        ("hip", "hip:gfx90a:fp32", "fp32"),
        ("hip:gfx90a,gfx942:fp16", "hip:gfx90a,gfx942:fp16", "fp16"),
        ("emu", "emu:sm_90:tf32", "tf32"),
        ("emu:sm_80:bf16", "emu:sm_80:bf16", "bf16"),
        ("emu:gfx942", "emu:gfx942:fp32", "fp32"),
    ],
)
def test_what_a_text_leaves_open_has_a_default(text: str, full: str, precision: str):
    parsed = parse_target(text)
    assert (str(parsed), parsed.precision) == (full, precision)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("gpu", "unknown target 'gpu': use 'cpu'"),
        ("", "unknown target '': use 'cpu'"),
        ("cpu::+avx2", "features but no CPU: write cpu:MCPU:FEATURES"),
        ("cpu:tf32", "target 'cpu' has no precision 'tf32': use one of fp32, fp16, bf16"),
        ("cuda:sm_70", "sm_70 is too old: the oldest is sm_80"),
        ("cuda:gfx942", "'gfx942' is not an architecture of NVIDIA: use one such as sm_80"),
        ("cuda:sm_80,sm_90", "'sm_80,sm_90' is not an architecture of NVIDIA"),
        ("cuda:sm_90:int8", "target 'cuda' has no precision 'int8': use one of tf32, fp32"),
        ("hip:sm_90", "'sm_90' is not an architecture of AMD"),
        ("hip:gfx90a,", "'' is not an architecture of AMD: .* several as gfx90a,gfx942"),
        ("hip:gfx90a:tf32", "target 'hip' has no precision 'tf32'"),
        ("emu:gfx90a:tf32", "target 'hip' has no precision 'tf32'"),
    ],
)
def test_bad_targets_are_named(text: str, named: str):
    with pytest.raises(KernelError, match=named):
        parse_target(text)


def test_a_reader_of_one_kind_refuses_the_other():
    assert parse_gpu("hip:gfx90a") == parse_target("hip:gfx90a")
    assert parse_cpu("cpu:x86-64") == parse_target("cpu:x86-64")
    with pytest.raises(KernelError, match="'cpu' is not a target of a GPU"):
        parse_gpu("cpu")
    with pytest.raises(KernelError, match="'emu' is not a target of a CPU"):
        parse_cpu("emu")


def test_options_override_the_text_and_the_device():
    def present(backend: str) -> str:
        return {"cuda": "sm_86", "hip": "gfx1030", "emu": "gfx942"}[backend]

    def completed(*given: str | None) -> str:
        text, architecture, precision = given
        return str(complete(text or "", architecture, precision, present))

    assert completed("cuda", None, None) == "cuda:sm_86:tf32"
    assert completed("cuda:sm_80:fp16", "sm_100", None) == "cuda:sm_100:fp16"
    assert completed("hip::bf16", None, None) == "hip:gfx1030:bf16"
    assert completed("emu", None, None) == "emu:gfx942:fp32"
    assert completed("cpu:x86-64", "znver4", "fp32") == "cpu:znver4"
    assert completed("cpu:x86-64:bf16", "znver4", None) == "cpu:znver4:bf16"
    assert completed("cpu", None, "fp16") == "cpu:fp16"
    with pytest.raises(DeviceError, match="unknown target 'tpu'; the targets are cpu, cuda"):
        completed("tpu", None, None)
    with pytest.raises(DeviceError, match="'emu:gfx942' has no precision 'tf32'; it has fp32,"):
        completed("emu", None, "tf32")
    with pytest.raises(DeviceError, match="target 'cpu' has no precision 'tf32'; it has fp32"):
        completed("cpu", None, "tf32")


@given(targets())
def test_the_emulator_has_the_capabilities_of_its_gpu(target: Target):
    if not target.is_gpu:
        return
    gpu = parse_gpu(str(target))
    own, other = (replace(gpu, emulated=emulated) for emulated in (False, True))
    hidden = {"backend", "emulated", "searches_schedules", "idle_matrix_cores"}
    names = [n for n in dir(type(gpu)) if not n.startswith("_") and n not in hidden]
    assert len(names) > 15
    assert [getattr(own, name) for name in names] == [getattr(other, name) for name in names]
    assert not other.searches_schedules
    assert (own.backend, other.backend) == (own.kind, "emu")


@pytest.mark.parametrize(
    ("text", "abilities"),
    [
        ("cuda:sm_80", "has_mma has_async_copy"),
        ("cuda:sm_90", "has_mma has_float8_mma has_async_copy has_wgmma has_clusters has_pdl"),
        ("cuda:sm_89", "has_mma has_float8_mma has_async_copy"),
        ("cuda:sm_100", "has_mma has_float8_mma has_async_copy has_clusters has_pdl"),
        ("hip:gfx942,gfx90a", "has_mfma"),
        ("hip:gfx90a,gfx1030", ""),
    ],
)
def test_instructions_depend_on_the_architectures(text: str, abilities: str):
    target = parse_gpu(text)
    names = [name for name in dir(target) if name.startswith("has_")]
    assert len(names) == 7
    assert {name for name in names if getattr(target, name)} == set(abilities.split())
    assert parse_gpu("cuda:sm_90").compiler_architecture == "sm_90a"


def test_graph_passes_ask_for_what_a_kind_of_target_gains_by():
    names = ("blocked_layouts", "fuses_siblings", "fuses_depthwise_pointwise")
    for text, gains in (("cpu", False), ("cuda", True), ("emu", True), ("hip", False)):
        target = parse_target(text)
        assert {getattr(target, name) for name in names} == {gains}
        assert target.fuses_attention == (text != "hip")
        assert target.searches_schedules == (text == "cuda")


def test_idle_matrix_cores_are_those_that_another_architecture_lacks():
    assert parse_target("hip:gfx90a,gfx1030").idle_matrix_cores == ("gfx90a",)
    for text in ("hip:gfx90a,gfx942", "hip:gfx1030", "emu:gfx90a,gfx1030", "cuda", "cpu"):
        assert parse_target(text).idle_matrix_cores == ()
