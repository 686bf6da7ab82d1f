"""Artifacts edited by hand, hashes redone: neither `load` nor `flowloom check` accepts them."""

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compiler
from compiler.artifact.artifact import read_kernels
from compiler.artifact.weights import read_weights, write_weights
from compiler.errors import ArtifactError
from compiler.tools.cli import main
from tests.forgery import edit_json, redo_hashes
from tests.fuzz.forged import STATIC, model_of

TARGETS = ["cpu", pytest.param("emu", marks=pytest.mark.skipif(not shutil.which("g++"), reason=""))]


@cache
def original(target: str, place: Path) -> Path:
    """An artifact of a target, which is saved once."""
    compiler.compile(model_of(STATIC), target=target).save(place / target)
    return place / target


@pytest.fixture(params=TARGETS)
def saved(
    request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    whole = original(request.param, tmp_path_factory.getbasetemp())
    return shutil.copytree(whole, tmp_path / "saved")


def refused(saved: Path) -> str:
    """The message of `load`, which is also that of `check`."""
    redo_hashes(saved)
    with pytest.raises(ArtifactError) as caught:
        compiler.load(saved)
    assert main(["check", str(saved)]) == 1
    return str(caught.value)


def launch(edit: Callable[[Any], None]) -> Callable[[Any], None]:
    """An edit of the first launch of every kernel."""
    return lambda table: [edit(kernel["launches"][0]) for kernel in table].clear()


def sets(**entries: Any) -> Callable[[Any], None]:
    return lambda entry: entry.update(entries)


def first_symbol(table: Any) -> None:
    symbols = [each for kernel in table for each in kernel["launches"]]
    symbols[0]["symbol"] = symbols[-1]["symbol"]


def several(table: Any) -> Any:
    """A kernel with several launches."""
    return next(kernel for kernel in table if len(kernel["launches"]) > 1)


TABLES: dict[str, Callable[[Any], None]] = {
    "1 swapped": launch(lambda each: each["args"].reverse()),
    "2 repeated": launch(lambda each: each["args"].append(each["args"][-1])),
    "3 dropped": launch(lambda each: each["args"].pop(0)),
    "4 none": launch(sets(args=[])),
    "5 the result's is an input's": launch(lambda each: each["args"].__setitem__(-1, 0)),
    "6 no blocks": launch(sets(grid=[0, 1, 1])),
    "7 many blocks": launch(sets(grid=[2**31, 1, 1])),
    "8 more blocks": launch(sets(grid=[2**62, 1, 1])),
    "one block more": launch(lambda each: each["grid"].__setitem__(0, each["grid"][0] + 1)),
    "other threads": launch(sets(block=[64, 1, 1])),
    "9 no launches": lambda table: [each["launches"].clear() for each in table].clear(),
    "10 the first alone": lambda table: several(table).update(
        launches=several(table)["launches"][:1]
    ),
    "a launch twice": lambda table: several(table)["launches"].insert(
        0, several(table)["launches"][0]
    ),
    "11 reversed": lambda table: several(table)["launches"].reverse(),
    "12 another's symbol": first_symbol,
    "packings": lambda table: [each.update(packings=["x"] * 9) for each in table].clear(),
    "operations": lambda table: [each.update(flops=each["flops"] + 1) for each in table].clear(),
    "order of kernels": lambda table: table.reverse(),
    "code of another": lambda table: table[0].update(code=table[1]["code"]),
}


@pytest.mark.parametrize("name", TABLES)
def test_an_edited_table_of_kernels_is_refused(saved: Path, name: str):
    edit_json(saved / "kernels" / "kernels.json", TABLES[name])
    assert "holds no valid schedule and kernels" in refused(saved) or name == "order of kernels"


def test_a_symbol_that_the_code_has_not_is_refused_before_it_is_linked(saved: Path):
    listed = {path.relative_to(saved).as_posix(): path.read_bytes() for path in saved.rglob("*.*")}
    table = json.loads(listed["kernels/kernels.json"])
    assert read_kernels(listed)
    if table[0]["language"] != "object":
        pytest.skip("names are compressed with the code")
    table[0]["launches"][0]["symbol"] += "x"
    with pytest.raises(ArtifactError, match="its code has no function"):
        read_kernels({**listed, "kernels/kernels.json": json.dumps(table).encode()})


def test_13_smaller_workspaces_in_both_files_are_refused(saved: Path):
    """The schedule and the table agree: the seal of the kernel tells."""
    sizes: set[int] = set()

    def table(kernels: Any) -> None:
        for kernel in kernels:
            sizes.update(kernel["workspaces"])
            kernel["workspaces"] = [64 for _ in kernel["workspaces"]]

    def schedule(content: Any) -> None:
        for task in content["tasks"]:
            for view in task["writes"]:
                if view[2] == "uint8" and view[3][0] in sizes:
                    view[3] = [64]

    edit_json(saved / "kernels" / "kernels.json", table)
    edit_json(saved / "schedule.json", schedule)
    assert sizes
    assert "is not as it was built" in refused(saved)


def test_14_two_reads_of_one_type_that_changed_places_are_refused(saved: Path):
    swapped: list[str] = []

    def edit(content: Any) -> None:
        for task in content["tasks"]:
            reads = task["reads"]
            for i in range(len(reads) - 1):
                if reads[i][2:] == reads[i + 1][2:] and reads[i] != reads[i + 1]:
                    reads[i], reads[i + 1] = reads[i + 1], reads[i]
                    swapped.append(task["kernel"])

    edit_json(saved / "schedule.json", edit)
    assert swapped
    assert "as it was saved, by the seal in manifest.json: schedule and kernels" in refused(saved)


@pytest.mark.parametrize("value", [1.0, np.nan])
def test_15_16_other_weights_are_refused(saved: Path, value: float):
    path = saved / "weights.safetensors"
    tensors = read_weights(path)
    next(iter(tensors.values())).reshape(-1)[0] = value
    with path.open("wb") as file:
        write_weights(file.write, tensors)
    assert "by the seal in manifest.json: weights.safetensors" in refused(saved)


@pytest.mark.parametrize("where", [0.1, 0.5, 0.9, 0.9999])
def test_17_other_code_is_refused(saved: Path, where: float):
    for path in (saved / "kernels").glob("0000.*"):
        content = bytearray(path.read_bytes())
        content[int(where * len(content))] ^= 4
        path.write_bytes(content)
    assert "0000.cu" in refused(saved) or "is not as it was built" in refused(saved)


def test_code_without_its_seal_is_refused(saved: Path):
    path = next(path for path in (saved / "kernels").glob("0000.*") if path.suffix != ".cu")
    path.write_bytes(path.read_bytes()[:-60])
    assert "has no seal of its build" in refused(saved)


@pytest.mark.parametrize("entry", [{"target": "cpu:x"}, {"requirements": {}}, {"more": 1}])
def test_an_edited_entry_of_the_manifest_is_refused(saved: Path, entry: dict[str, object]):
    redo_hashes(saved, **entry)
    assert "by the seal in manifest.json: entries of the manifest" in refused(saved)


def test_check_says_what_was_checked(saved: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["check", str(saved)]) == 0
    printed = capsys.readouterr().out
    for words in ("no race", "as built, for the types", "files as saved", "not signed"):
        assert words in printed
