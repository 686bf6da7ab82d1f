"""Kernels as they are estimated, against those that are emitted."""

from dataclasses import replace

import pytest

from compiler.autotune.kernels.prepare import fused_groups
from compiler.frontend.importing import import_model
from compiler.kernels.building.estimate import estimated
from compiler.kernels.building.select import best
from compiler.kernels.group import Group
from compiler.schedule.kernels import Launch
from compiler.target.target import parse_gpu
from examples import named

TARGET = parse_gpu("cuda:sm_90:fp16")


@pytest.fixture(scope="module")
def groups() -> dict[str, Group]:
    """The kernels of an encoder: attention, GEMMs, normalisations, a convolution."""
    return fused_groups(import_model(named.load("field:whisper_encoder")).module, TARGET)


def shape(launch: Launch) -> Launch:
    """A launch without what an estimate does not say."""
    return replace(launch, args=(), registers=0)


def test_launches_are_those_of_the_kernel(groups: dict[str, Group]):
    templates: set[str] = set()
    for group in groups.values():
        found = best(group, TARGET)
        if not found.is_generic:
            templates.add(found.template.name)
            expected, built = estimated(group, TARGET), found.emit()
            assert [*map(shape, expected.launches)] == [*map(shape, built.launches)]
            assert expected.estimated_ns == built.estimated_ns > 0
    assert {"attention", "row_norm"} < templates


def test_a_text_is_the_same_after_an_estimate(groups: dict[str, Group]):
    texts: dict[str, str] = {}
    for name, group in groups.items():
        found = best(group, TARGET)
        texts[name] = found.emit().text
    assert any("_store(" in text for text in texts.values())
    for name, group in groups.items():
        again = replace(group)
        estimated(again, TARGET)
        found = best(again, TARGET)
        assert (found.emit().text) == texts[name]
