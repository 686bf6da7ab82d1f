"""Signed artifacts and programs: `load(trusted=...)` runs only what a trusted key has signed."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

import compiler
from compiler.artifact.artifact import Artifact
from compiler.artifact.module import Module
from compiler.errors import ArgumentError, ArtifactError, MissingExtraError
from compiler.tools.cli import main
from compiler.tools.outputs import write_npz
from tests.backends.objects import chain, kernels, values
from tests.forgery import edit_json, redo_hashes
from tests.program.checks import compiled
from tests.program.test_model import DATA, ordered


def write_keys(folder: Path, name: str) -> tuple[Path, Path]:
    """The files of a new private key and of its public one."""
    key, private, public = (
        Ed25519PrivateKey.generate(),
        folder / f"{name}.pem",
        folder / f"{name}.pub",
    )
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    return private, public


def artifact(place: Path) -> dict[str, np.ndarray]:
    """Save a module; the inputs of its runs."""
    Module(Artifact("cpu", chain(), kernels(), {"w": values(1)}), threads=2).save(place)
    return {"x": values(2)}


def program(place: Path) -> dict[str, np.ndarray]:
    """Save a dynamic module that has run; the inputs of its runs."""
    inputs = {"x": np.random.default_rng(3).standard_normal((6, 32)).astype("f4")}
    module = compiled(ordered(DATA))
    module.run(inputs)
    module.save(place)
    return inputs


def uncompiled(place: Path) -> dict[str, np.ndarray]:
    """Save a dynamic module that no run has compiled yet; the inputs of its runs."""
    compiled(ordered(DATA)).save(place)
    return {"x": np.random.default_rng(3).standard_normal((6, 32)).astype("f4")}


KINDS = pytest.mark.parametrize("kind", [artifact, program, uncompiled])
Save = Callable[[Path], dict[str, np.ndarray]]


@KINDS
def test_only_what_a_trusted_key_signed_is_loaded(
    tmp_path: Path, kind: Save, capsys: pytest.CaptureFixture[str]
):
    inputs = kind(saved := tmp_path / "saved")
    private, public = write_keys(tmp_path, "mine")
    _, other = write_keys(tmp_path, "other")
    with pytest.raises(ArtifactError, match=r"is not signed.*flowloom check .* --sign KEY\.pem"):
        compiler.load(saved, trusted=public)
    assert main(["check", str(saved), "--sign", str(private)]) == 0
    for trusted in (public, str(public), [other, public]):
        assert compiler.load(saved, threads=1, trusted=trusted).run(inputs)
    assert compiler.load(saved).run(inputs)
    for trusted in (other, [other]):
        with pytest.raises(ArtifactError, match="has a signature of none of the trusted keys"):
            compiler.load(saved, trusted=trusted)
    assert main(["check", str(saved)]) == 0
    assert "signed, by whom was not checked" in capsys.readouterr().out
    assert main(["check", str(saved), "--trusted", str(public)]) == 0
    assert f"signed by a key of {public}" in capsys.readouterr().out
    write_npz(tmp_path / "inputs.npz", inputs)
    run = ["run", str(saved), "--inputs", str(tmp_path / "inputs.npz")]
    assert main([*run, "--trusted", str(public)]) == 0
    for command in (["check", str(saved)], run):
        assert main([*command, "--trusted", str(other)]) == 1


@KINDS
def test_no_file_of_a_signed_directory_can_be_changed(tmp_path: Path, kind: Save):
    inputs = kind(saved := tmp_path / "saved")
    private, public = write_keys(tmp_path, "mine")
    compiler.sign(saved, private)
    for path in sorted(path for path in saved.rglob("*") if path.is_file()):
        path.write_bytes(path.read_bytes() + b" ")  # which JSON readers skip
        with pytest.raises(ArtifactError):
            compiler.load(saved, trusted=public).run(inputs)
        if path.name not in ("manifest.json", "program.json", "manifest.sig", "program.sig"):
            redo_hashes(saved)
            with pytest.raises(ArtifactError):
                compiler.load(saved, trusted=public).run(inputs)
        kind(saved)
        compiler.sign(saved, private)
    assert compiler.load(saved, trusted=public).run(inputs)


@KINDS
def test_saving_again_removes_the_signature(tmp_path: Path, kind: Save):
    kind(saved := tmp_path / "saved")
    private, public = write_keys(tmp_path, "mine")
    compiler.sign(saved, private)
    kind(saved)
    with pytest.raises(ArtifactError, match="is not signed"):
        compiler.load(saved, trusted=public)


def drop_last_task(content: Any) -> None:
    """An edit of a schedule."""
    content["tasks"].pop()


def test_what_does_not_pass_is_not_signed(tmp_path: Path):
    artifact(saved := tmp_path / "saved")
    private, _ = write_keys(tmp_path, "mine")
    edit_json(saved / "schedule.json", drop_last_task)
    redo_hashes(saved)
    with pytest.raises(ArtifactError, match="are never written"):
        compiler.sign(saved, private)
    assert not [*saved.glob("*.sig")]
    with pytest.raises(ArtifactError, match="no artifact in"):
        compiler.sign(tmp_path, private)


def test_other_keys_are_refused_with_the_remedy(tmp_path: Path):
    artifact(saved := tmp_path / "saved")
    private, public = write_keys(tmp_path, "mine")
    curve = tmp_path / "curve.pem"
    curve.write_bytes(
        generate_private_key(SECP256R1()).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        )
    )
    for key in (curve, public, saved / "schedule.json", tmp_path, tmp_path / "none"):
        with pytest.raises(
            ArgumentError, match=r"key.*(makes one|cannot read|it is a directory|No such)"
        ):
            compiler.sign(saved, key)
    for key in (private, saved / "schedule.json", tmp_path / "none"):
        with pytest.raises(ArgumentError, match=r"key.*(writes that|No such)"):
            compiler.load(saved, trusted=key)
    with pytest.raises(ArgumentError, match="trusted is empty"):
        compiler.load(saved, trusted=[])
    wrong: Any
    for wrong in ("", 3, b"key", iter([str(public)]), [3]):
        with pytest.raises(ArgumentError, match=r"trusted is .*: it must be the path of a public"):
            compiler.load(saved, trusted=wrong)


def test_a_key_with_a_password_is_written_without_one(tmp_path: Path):
    artifact(saved := tmp_path / "saved")
    secret, plain = tmp_path / "secret.pem", tmp_path / "key.pem"
    key = Ed25519PrivateKey.generate()
    encrypted = BestAvailableEncryption(b"x")
    secret.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encrypted))
    with pytest.raises(ArgumentError, match="has a password: `openssl") as error:
        compiler.sign(saved, secret)
    command = str(error.value).split("`")[1].split()
    subprocess.run([*command, "-passin", "pass:x"], cwd=tmp_path, check=True)
    compiler.sign(saved, plain)


def test_a_file_of_several_keys_is_refused(tmp_path: Path):
    artifact(saved := tmp_path / "saved")
    private, public = write_keys(tmp_path, "mine")
    other_private, other_public = write_keys(tmp_path, "other")
    compiler.sign(saved, private)
    both = tmp_path / "both"
    both.write_bytes(other_public.read_bytes() + public.read_bytes())
    with pytest.raises(ArgumentError, match="both holds 2 parts: keep each key in a separate file"):
        compiler.load(saved, trusted=both)
    compiler.load(saved, trusted=[other_public, public])
    both.write_bytes(other_private.read_bytes() + private.read_bytes())
    with pytest.raises(ArgumentError, match="both holds 2 parts"):
        compiler.sign(saved, both)


def test_signing_writes_through_no_link(tmp_path: Path):
    artifact(saved := tmp_path / "saved")
    private, public = write_keys(tmp_path, "mine")
    (outside := tmp_path / "outside").write_text("mine")
    (saved / "manifest.sig").symlink_to(outside)
    compiler.sign(saved, private)
    assert outside.read_text() == "mine"
    compiler.load(saved, trusted=public)


def test_signatures_are_of_saved_directories(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "schedule.json").write_text("{}")
    _, public = write_keys(tmp_path, "mine")
    assert main(["check", str(tmp_path / "schedule.json"), "--trusted", str(public)]) == 1
    assert "signatures are of saved directories" in capsys.readouterr().err
    assert main(["run", "model.onnx", "--trusted", str(public)]) == 1
    assert "--trusted is for an artifact" in capsys.readouterr().err


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    artifact(saved := tmp_path / "saved")
    private, public = write_keys(tmp_path, "mine")
    compiler.sign(saved, private)
    for name in [name for name in sys.modules if name.split(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    compiler.load(saved)
    for act in (
        lambda: compiler.sign(saved, private),
        lambda: compiler.load(saved, trusted=public),
    ):
        with pytest.raises(MissingExtraError, match=r"pip install 'flowloom\[sign\]'"):
            act()


def test_openssl_verifies_what_was_signed(tmp_path: Path):
    artifact(saved := tmp_path / "saved")
    private, public = tmp_path / "key.pem", tmp_path / "key.pub"
    for command in (
        ["genpkey", "-algorithm", "ed25519", "-out", private],
        ["pkey", "-in", private, "-pubout", "-out", public],
    ):
        subprocess.run(["openssl", *command], check=True, capture_output=True)
    compiler.sign(saved, private)
    compiler.load(saved, trusted=public)
    verify = ["pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin"]
    files = ["-in", saved / "manifest.json", "-sigfile", saved / "manifest.sig"]
    command = ["openssl", *verify, *files]
    assert b"Verified Successfully" in subprocess.run(command, capture_output=True).stdout
    (saved / "manifest.json").write_bytes(b"{}")
    assert subprocess.run(command, capture_output=True).returncode


EXTRA = [
    *("library.so", "kernels/9999.o", ".DS_Store", "manifest.json~", "model.weights", "empty/"),
    *("link", "segments/0/manifest.json", "SEGMENT/more.bin", "SEGMENT/kernels/9999.o"),
]
"""Names of further files; SEGMENT is a segment of a program."""


def add(path: Path, name: str) -> None:
    """Add a file of a name, or a directory or a link."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if name == "link":
        path.symlink_to("elsewhere")
    elif name.endswith("/"):
        path.mkdir()
    else:
        path.write_bytes(b"")


@KINDS
def test_a_signed_directory_has_no_further_file(
    tmp_path: Path, kind: Save, capsys: pytest.CaptureFixture[str]
):
    inputs = kind(original := tmp_path / "original")
    private, public = write_keys(tmp_path, "mine")
    compiler.sign(original, private)
    segment = next((path.name for path in original.glob("segments/*")), "")
    saved = path = original
    for number, name in enumerate(EXTRA):
        shutil.copytree(original, saved := tmp_path / str(number))
        within = f"segments/{segment}" if segment else "kernels"
        path = saved / name.rstrip("/").replace("SEGMENT", within)
        add(path, name)
        message = rf"{path} is not a file .* move it away"
        with pytest.raises(ArtifactError, match=message):
            compiler.load(saved, trusted=public)
        with pytest.raises(ArtifactError, match=message):
            compiler.sign(saved, private)
        assert main(["check", str(saved)]) == 1
        assert f"{path} is not a file of what was saved" in capsys.readouterr().err
        for signature in saved.glob("*.sig"):
            signature.unlink()
    assert compiler.load(saved).run(inputs)
    assert main(["check", str(saved)]) == 0
    assert f"{path}: not of what was saved, and nothing reads it" in capsys.readouterr().out
