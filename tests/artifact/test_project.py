"""Exported projects build with all compilers at hand, and run on the emulator."""

import re
import shutil
import subprocess
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import compiler
from compiler.artifact.generate import export_project
from compiler.artifact.gpu_part import kernel_text
from compiler.errors import ArtifactError
from compiler.schedule.kernels import KernelSpec, Launch
from tests.artifact.projects import (
    attempt,
    export,
    needs_cmake,
    read_artifact,
    run,
    small_model,
)

ORDERS = [(seed, warp) for warp in (32, 64) for seed in range(5)]


@needs_cmake
@pytest.mark.parametrize(("seed", "warp"), ORDERS)
def test_self_check_passes_on_the_emulator(emulated: Path, seed: int, warp: int):
    order = {"FLOWLOOM_EMU_SEED": str(seed), "FLOWLOOM_EMU_WARP": str(warp)}
    said = run(emulated / "flowloom_check", "--runs", "1", **order)
    assert said.count("ok  ") == 12  # two outputs, twice in each of three modes
    assert "latency" in said


INCLUDE = re.compile(r'^#include "(?:flowloom/)?([^"]+)"', re.MULTILINE)


@needs_cmake
@pytest.mark.parametrize("target", ["cuda:sm_80:tf32", "hip:gfx90a:fp32"])
def test_a_project_has_the_files_that_it_includes_and_no_others(target: str, tmp_path: Path):
    built = compiler.compile(small_model(), target=target)
    built.save(tmp_path / "artifact")
    place = tmp_path / "project"
    found = read_artifact(tmp_path / "artifact")
    export_project(found, place, version="0", check=None)
    sources = (".cu", ".cuh", ".h", ".hpp", ".cpp")
    texts = {p: p.read_text() for p in place.rglob("*") if p.suffix in sources}
    headers = {path.name for path in texts if path.suffix in (".cuh", ".h")}
    names = [name for text in texts.values() for name in INCLUDE.findall(text)]
    included = {Path(name).name for name in names} - {"model.hpp"}
    emulated = {"gpu_emulator.h", "emulated.h"}  # behind #if
    assert included - headers == emulated
    assert headers - included == set()
    assert not (place / "emulator").exists()
    assert len([path for path in texts if path.suffix == ".cuh"]) < 20
    configured = attempt("cmake", "-S", place, "-B", tmp_path / "build", "-DFLOWLOOM_GPU=EMU")
    assert "export it with --emulator" in " ".join(configured.stderr.split())
    export_project(found, place, version="0", check=None, emulator=True)
    assert (place / "emulator" / "engine.cpp").is_file()


def test_a_cpus_project_has_no_emulator(tmp_path: Path):
    compiler.compile(small_model()).save(tmp_path / "artifact")
    found = read_artifact(tmp_path / "artifact")
    with pytest.raises(ArtifactError, match="the emulator is for kernels of GPUs"):
        export_project(found, tmp_path / "project", version="0", check=None, emulator=True)


@needs_cmake
def test_ctest_runs_the_self_check(emulated: Path):
    assert "100% tests passed" in run("ctest", "--test-dir", emulated)


def copied(project: Path, place: Path) -> Path:
    """A project's data in another place."""
    shutil.copytree(project, place, ignore=shutil.ignore_patterns("build*"))
    return place


@needs_cmake
@pytest.mark.parametrize("file", ["check/outputs.bin", "check/inputs.bin", "weights.bin"])
def test_self_check_fails_on_other_numbers(
    project: Path, emulated: Path, tmp_path: Path, file: str
):
    data = copied(project, tmp_path / "data")
    content = bytearray((data / file).read_bytes())
    content[300:304] = np.float32(30).tobytes()
    (data / file).write_bytes(content)
    ran = attempt(emulated / "flowloom_check", "--data", data, "--runs", "1")
    assert ran.returncode == 1
    assert "FAIL graph" in ran.stdout


@needs_cmake
def test_missing_inputs_are_named(project: Path, emulated: Path, tmp_path: Path):
    data = copied(project, tmp_path / "data")
    (data / "check" / "inputs.bin").unlink()
    ran = attempt(emulated / "flowloom_check", "--data", data, "--runs", "1")
    assert ran.returncode == 1
    assert f"there is no {data}/check/inputs.bin" in ran.stderr
    assert ran.stdout == ""
    assert "latency" in run(
        emulated / "flowloom_check", "--data", data, "--runs", "1", "--check", "no"
    )


@needs_cmake
@pytest.mark.parametrize("option", ["--runs", "--device"])
@pytest.mark.parametrize("value", ["abc", "-1", "99999999999999999999", "1x", ""])
def test_numbers_must_be_whole(emulated: Path, option: str, value: str):
    ran = attempt(emulated / "flowloom_check", option, value)
    assert ran.returncode == 1
    assert "[--runs N] [--device N]" in ran.stdout


@needs_cmake
def test_every_missing_edge_is_caught(project: Path, emulated: Path):
    """Without it, some order of the graph reads what is not written yet."""
    path = project / "src" / "plan.cpp"
    plan = path.read_text()
    edges = list(re.finditer(r"\{\d+\}(?=,\n +\{\{flowloom_)", plan))
    assert len(edges) == 4
    try:
        for edge in edges:
            path.write_text(plan[: edge.start()] + "{}" + plan[edge.end() :])
            ran = checked_in_orders(emulated)
            assert any(each.returncode == 1 and "FAIL" in each.stdout for each in ran), edge
    finally:
        path.write_text(plan)
        assert all(each.returncode == 0 for each in checked_in_orders(emulated))


def checked_in_orders(folder: Path) -> list[subprocess.CompletedProcess[str]]:
    """A changed project is built again, and checked in orders of the graph."""
    run("cmake", "--build", folder, "--target", "flowloom_check")
    orders = [{"FLOWLOOM_EMU_SEED": str(seed)} for seed in range(8)]
    return [attempt(folder / "flowloom_check", "--runs", "1", **order) for order in orders]


@needs_cmake
@pytest.mark.parametrize(
    ("at", "message"), [(0, "not a file of weights"), (8, "another model"), (None, "truncated")]
)
def test_bad_weights_are_named(
    project: Path, emulated: Path, tmp_path: Path, at: int | None, message: str
):
    data = copied(project, tmp_path / "data")
    content = bytearray((project / "weights.bin").read_bytes())
    if at is None:
        content.pop()
    else:
        content[at] ^= 0xFF
    (data / "weights.bin").write_bytes(content)
    ran = attempt(emulated / "flowloom_check", "--data", data)
    assert ran.returncode == 1
    assert message in ran.stderr


def test_weights_lie_where_the_plan_says(project: Path):
    found = read_artifact(project.parent / "project-artifact")
    image = (project / "weights.bin").read_bytes()[256:]
    row = re.compile(r'\{Kind::weight, "([^"]*)", "[^"]*", \{[^}]*\}, (\d+)U, (\d+)U\}')
    placed = row.findall((project / "src" / "plan.cpp").read_text())
    assert {name for name, _, _ in placed} == set(found.weights)
    for name, nbytes, offset in placed:
        part = image[int(offset) : int(offset) + int(nbytes)]
        assert part == found.weights[name].tobytes()


def test_kernels_name_their_nodes(project: Path):
    texts = [path.read_text() for path in (project / "kernels").glob("*.cu")]
    assert any("//   task 0: " in text for text in texts)
    assert all("namespace " in text and "GPU_EXPORT(" in text for text in texts)


def test_a_node_name_cannot_leave_its_comment():
    kernel = KernelSpec("k", "cuda", b"", (Launch("k_0", ()),), (), source="body")
    lines = kernel_text(kernel, ["task 0: a\\\nb"]).splitlines()
    assert lines[1] == "//   task 0: a??b"


def test_what_cannot_be_exported_is_refused(project: Path, tmp_path: Path):
    found = read_artifact(project.parent / "project-artifact")
    lost = {name: replace(kernel, source="") for name, kernel in found.kernels.items()}
    with pytest.raises(ArtifactError, match="no C\\+\\+ source"):
        export_project(replace(found, kernels=lost), tmp_path / "new", version="0", check=None)


def test_the_readme_shows_names_of_models_as_they_are(project: Path, tmp_path: Path):
    artifact = read_artifact(project.parent / "project-artifact")
    renamed = [
        replace(a, name=f"{a.name}|*b*\nc") if a.kind == "output" else a
        for a in artifact.schedule.allocations
    ]
    schedule = replace(artifact.schedule, name="<b>", allocations=tuple(renamed))
    export_project(replace(artifact, schedule=schedule), tmp_path / "new", version="1", check=None)
    readme = (tmp_path / "new" / "README.md").read_text()
    assert readme.startswith("# \\<b\\> 1 emu")
    outputs = [line for line in readme.splitlines() if line.startswith("| output |")]
    assert outputs
    assert all("\\|\\*b\\*\\\\nc |" in line for line in outputs)


def test_only_projects_are_replaced(project: Path, tmp_path: Path):
    found = read_artifact(project.parent / "project-artifact")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("precious")
    with pytest.raises(ArtifactError, match="is not an exported project"):
        export_project(found, tmp_path / "mine", version="0", check=None)
    for version in ("1", "2"):
        export_project(found, tmp_path / "project", version=version, check=None)
    assert "main 2 emu" in (tmp_path / "project" / "README.md").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "project"]


def exported(project: Path, place: Path) -> None:
    """Export the small model over what is at a place."""
    found = read_artifact(project.parent / "project-artifact")
    export_project(found, place, version="2", check=None)


def test_what_export_did_not_write_is_kept(project: Path, tmp_path: Path):
    place = copied(project, tmp_path / "project")
    own = {"notes.txt": "a", "build/CMakeCache.txt": "b", "kernels/mine.cu": "c"}
    for name, text in own.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text)
    (place / ".git" / "refs" / "heads").mkdir(parents=True)
    (place / "link").symlink_to("nowhere")
    (place / "other").symlink_to("build")
    (place / "build").chmod(0o700)
    shutil.rmtree(place / "src")
    (place / "src").mkdir()
    (place / "kernels" / "hip" / "instructions.cuh").unlink()
    exported(project, place)
    assert {name: (place / name).read_text() for name in own} == own
    assert (place / ".git" / "refs" / "heads").is_dir()
    assert (place / "link").readlink() == Path("nowhere")
    assert (place / "other").readlink() == Path("build")
    assert (place / "build").stat().st_mode & 0o777 == 0o700
    assert (place / "src" / "plan.cpp").is_file()
    assert (place / "kernels" / "hip" / "instructions.cuh").is_file()
    assert not (place / "check").exists()
    assert "main 2 emu" in (place / "README.md").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["project"]


def test_a_link_is_not_replaced(project: Path, tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(ArtifactError, match="link is a link: name the directory"):
        exported(project, tmp_path / "link")
    assert (tmp_path / "link").readlink() == Path("real")


def test_the_list_names_every_file_and_its_digest(tmp_path: Path):
    place = tmp_path / "project"
    export(small_model(), place)
    lines = [line.split("  ") for line in (place / "files.sha256").read_text().splitlines()]
    files = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}
    assert {name for _, name in lines} == files - {"files.sha256"}
    assert all(sha256((place / name).read_bytes()).hexdigest() == it for it, name in lines)


@pytest.mark.parametrize("listed", [True, False])
def test_an_edited_file_is_not_replaced(project: Path, tmp_path: Path, listed: bool):
    place = copied(project, tmp_path / "project")
    edited = place / "src" / "plan.cpp"
    edited.write_text("precious")
    if listed:
        message = "src/plan.cpp was edited"
    else:
        message = "CMakeLists.txt would be replaced"
        (place / "files.sha256").unlink()
    with pytest.raises(ArtifactError, match=f"{message}.*move it away"):
        exported(project, place)
    assert edited.read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["project"]


@pytest.mark.parametrize("text", ["set(NAME mine)\n", None])
def test_a_file_named_like_ours_makes_no_project(project: Path, tmp_path: Path, text: str | None):
    place = tmp_path / "place"
    if text is None:
        place.write_text("precious")
    else:
        place.mkdir()
        (place / "model.cmake").write_text(text)
    with pytest.raises(ArtifactError, match="is not an exported project"):
        exported(project, place)
    assert (place if text is None else place / "model.cmake").read_text() == (text or "precious")


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(13, "Permission denied")])
def test_an_interrupted_export_brings_the_old_project_back(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
):
    place, rename = copied(project, tmp_path / "project"), Path.rename

    def interrupt(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise error
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", interrupt)
    with pytest.raises((KeyboardInterrupt, ArtifactError)):
        exported(project, place)
    assert "main 0.1.0 emu" in (place / "README.md").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["project"]
