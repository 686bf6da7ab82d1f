"""The keys by which attentions are estimated once."""

from collections.abc import Hashable
from unittest.mock import Mock

import pytest
from xdsl.dialects.builtin import ModuleOp

from compiler.autotune.substitution import costs as costs_module
from compiler.autotune.substitution.costs import TermCosts, attention_key
from compiler.autotune.substitution.kernels import KernelCosts
from compiler.graph.rewriting.dataflow import module_of
from compiler.rewrite.search.kernels import kernels_of
from compiler.scheduling.simulator import TaskDemand
from compiler.target.target import GpuTarget
from tests.rewrite.search.test_attention import ATTENTION, SLICED, SPLIT, TARGET, imported, read

MASKED = ATTENTION.replace("s = Softmax<axis=-1>(o)", "e = Add(o, mask) s = Softmax<axis=-1>(e)")
DIVIDED = ATTENTION.replace("n = Mul(m, c)", "n = Div(m, c)")
FIRST = ATTENTION.replace("Softmax<axis=-1>", "Softmax<axis=2>")


@pytest.fixture(scope="module")
def kernels() -> KernelCosts:
    """Estimates that the tests share."""
    return KernelCosts(TARGET)


def estimated(
    text: str, kernels: KernelCosts, monkeypatch: pytest.MonkeyPatch
) -> tuple[Hashable, TaskDemand]:
    """The key and the demand of the only kernel of a graph."""
    keys: list[Hashable] = []

    def asked(module: ModuleOp, node: str, target: GpuTarget) -> Hashable:
        keys.append(attention_key(module, node, target))
        return None

    monkeypatch.setattr(costs_module, "attention_key", asked)
    like = imported(text)
    (kernel,) = kernels_of(read(like))
    demand = TermCosts(like, kernels).attention(kernel)
    return keys[0], demand


def test_attentions_of_one_key_have_one_time(kernels: KernelCosts, monkeypatch: pytest.MonkeyPatch):
    key, demand = estimated(SPLIT + ATTENTION, kernels, monkeypatch)
    other, again = estimated(SLICED + ATTENTION, kernels, monkeypatch)
    assert key is not None
    assert (other, again.time) == (key, demand.time)


@pytest.mark.parametrize("text", [MASKED, DIVIDED])
def test_attentions_that_compute_otherwise_have_other_keys(
    text: str, kernels: KernelCosts, monkeypatch: pytest.MonkeyPatch
):
    key, _ = estimated(SPLIT + ATTENTION, kernels, monkeypatch)
    assert estimated(SPLIT + text, kernels, monkeypatch)[0] not in (key, None)


def test_operators_around_an_attention_have_no_key():
    """They are separate kernels, whose time is part of the sum."""
    for text in (
        FIRST,
        ATTENTION.replace("y = Reshape(u, flat)", "i = Reshape(u, flat) y = Exp(i)"),
    ):
        like = imported(SPLIT + text)
        module = module_of(read(like), like)
        assert attention_key(module, "", TARGET) is None


def test_an_attention_is_estimated_once_however_it_is_laid_out(
    kernels: KernelCosts, monkeypatch: pytest.MonkeyPatch
):
    marked = Mock(wraps=kernels.marked)
    monkeypatch.setattr(kernels, "marked", marked)
    like = imported(SPLIT + ATTENTION)
    costs = TermCosts(like, kernels)
    for parts in (SPLIT, SLICED, SPLIT):
        (kernel,) = kernels_of(read(imported(parts + ATTENTION)))
        costs.attention(kernel)
    assert marked.call_count == 1
