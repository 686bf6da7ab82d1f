"""Cached kernels outlive a change of the tuning database that does not concern them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from compiler.frontend.importing import import_model
from compiler.graph.targets import set_target
from compiler.kernels import database
from compiler.kernels.building import KernelCache, build_kernels, counted_groups
from compiler.kernels.building.select import Selection, best, current_versions
from compiler.kernels.database import Database, Entry, Measured
from compiler.kernels.database.fields import config_fields, problem_key
from compiler.kernels.group import Group
from compiler.passes.pipeline import DEFAULT_PIPELINE, parse, split_phases
from compiler.passes.runner import Runner
from compiler.schedule.kernels import KernelSpec
from compiler.target.target import parse_gpu
from tests.autotune.kernels.test_tune import network

TARGET = "cuda:sm_90:tf32"


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that are built, by name; the user's database is in a new folder."""
    monkeypatch.setenv(database.DATABASE_VARIABLE, str(tmp_path / "tuning"))
    names: list[str] = []

    def build(groups: Sequence[Group], *_: Any) -> Iterator[tuple[Group, KernelSpec]]:
        for group in groups:
            names.append(group.name)
            yield group, KernelSpec(group.name, "cuda", b"\x7fELF", (), ("",) * group.inputs)

    monkeypatch.setattr("compiler.kernels.building.module.build_groups", build)
    return names


def module() -> ModuleOp:
    """A small network in groups."""
    found = import_model(network()).module
    set_target(found, TARGET)
    Runner(None).run(found, split_phases(parse(DEFAULT_PIPELINE))[0])
    return found


def learn(key: str, config: Any) -> None:
    """Put an entry into the user's database."""
    version = min(current_versions(parse_gpu(TARGET)))
    entry = Entry(key, "sm_90/132 recorder", version, (Measured(config, 1e3, 1e3),))
    database.save(database.user_file("sm_90"), Database([entry], entry.device))


def test_only_kernels_whose_config_changes_are_built_again(tmp_path: Path, built: list[str]):
    cache, model = KernelCache(tmp_path / "cache"), module()
    kernels = build_kernels(model, TARGET, cache)
    assert sorted(built) == sorted(kernels)
    built.clear()
    learn(problem_key("other", {}), (("number", 1),))
    assert build_kernels(model, TARGET, cache) == kernels
    assert built == []
    chosen = {group.name: best(group, parse_gpu(TARGET)) for group, _ in counted_groups(model)}
    name, found = next((n, s) for n, s in chosen.items() if s.template.name == "gemm")
    learn(found.candidate.key, other_config(found))
    build_kernels(model, TARGET, cache)
    assert built == [name]


def other_config(found: Selection) -> Any:
    """A config that was not chosen."""
    return next(config_fields(c) for c in found.candidate.configs if c != found.config)


def test_uses_of_kernels_are_counted():
    assert sorted(uses for _, uses in counted_groups(module())) == [1, 3]
