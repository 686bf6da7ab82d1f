"""Signatures of saved directories: Ed25519 over the bytes of the manifest, which has all hashes.

Keys are PEM files, as `openssl genpkey -algorithm ed25519` writes them; the signature is its 64
bytes in a file next to the manifest.
"""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from compiler.artifact.manifest import FILE_LIST, Vouch, format_in, program_segments, trust_all
from compiler.artifact.replacing import contents
from compiler.errors import ArgumentError, ArtifactError, MissingExtraError
from compiler.support.arguments import is_path
from compiler.support.caches import read_regular, write_whole

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

SIGNATURE_SUFFIX = ".sig"
"""The suffix of a signature's file, which otherwise has the manifest's name."""

KeyFile = str | os.PathLike[str]

NO_LIBRARY = (
    "signatures need the package cryptography: install the extra with pip install 'flowloom[sign]'"
)
MAKE_PRIVATE = "`openssl genpkey -algorithm ed25519 -out key.pem` makes one"
DROP_PASSWORD = "`openssl pkey -in {} -out key.pem` writes it without one"
MAKE_PUBLIC = "`openssl pkey -in key.pem -pubout -out key.pub` writes that of a private one"


def unlisted(directory: Path) -> list[str]:
    """The files, links and empty directories of a saved directory that its manifests do not list.

    Nothing reads them. Raises ArtifactError if the directory cannot be listed.
    """
    expected = _listed(directory)
    for folder in program_segments(directory, _manifest_in(directory)):
        segment = folder.relative_to(directory)
        expected |= {str(segment / name) for name in _listed(folder)}
    return [name for name in contents(directory) if name not in expected]


def check_unlisted(directory: Path) -> None:
    """Raise ArtifactError, naming the first, for files that a saved directory does not list."""
    if extra := unlisted(directory):
        raise ArtifactError(
            f"{directory / extra[0]} is not a file of what was saved in {directory}, and what is"
            f" signed has no other: move it away ({len(extra)} in all)"
        )


def _listed(directory: Path) -> set[str]:
    """The files of an artifact or a program: what its manifest lists, this and its signature."""
    manifest = Path(format_in(directory).file)
    signature = manifest.with_suffix(SIGNATURE_SUFFIX)
    return {str(manifest), str(signature), *_manifest_in(directory)[FILE_LIST]}


def _manifest_in(directory: Path) -> dict[str, Any]:
    """The manifest; one that cannot be read, which its own checks refuse, lists no file."""
    try:
        manifest: Any = json.loads(read_regular(directory / format_in(directory).file))
        return {FILE_LIST: dict(manifest[FILE_LIST])}
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return {FILE_LIST: {}}


def write_signature(directory: Path, key: KeyFile) -> Path:
    """Sign the manifest of a saved directory; the path of the signature.

    Raises ArgumentError for a file that is not an Ed25519 private key without a password,
    ArtifactError if the directory is not a saved one, has a file that its manifests do not list, or
    cannot be written, and MissingExtraError without the package `cryptography`.
    """
    private = _private_key(key)
    check_unlisted(directory)
    manifest = directory / format_in(directory).file
    try:
        signature = private.sign(read_regular(manifest))
        path = manifest.with_suffix(SIGNATURE_SUFFIX)
        write_whole(path, signature)  # in place of a link, whose file may be anybody's
    except OSError as error:
        raise ArtifactError(f"cannot sign {manifest}: {error.strerror or error}") from error
    return path


def is_signed(directory: Path) -> bool:
    """Whether a saved directory has a signature, of whatever key."""
    return (directory / format_in(directory).file).with_suffix(SIGNATURE_SUFFIX).is_file()


def trusting(trusted: KeyFile | Sequence[KeyFile] | None) -> Vouch:
    """Trusts manifests that one of some public keys has signed; all of them for None.

    A signed directory has the files that it lists and no others. Raises ArgumentError for a file
    that is not an Ed25519 public key, and MissingExtraError without the package `cryptography`.
    """
    if trusted is None:
        return trust_all
    files = [cast(KeyFile, trusted)] if is_path(trusted) else [*cast(Iterable[KeyFile], trusted)]
    if not files:
        raise ArgumentError("trusted is empty: name the file of a public key, or None for no check")
    keys = [_public_key(file) for file in files]
    names = ", ".join(str(file) for file in files)

    def vouch(path: Path, content: bytes) -> None:
        try:
            signature = read_regular(path.with_suffix(SIGNATURE_SUFFIX))
        except FileNotFoundError as error:
            raise ArtifactError(
                f"{path.parent} is not signed, and trusted is {names}: sign it, if you trust it, by"
                f" `flowloom check {path.parent} --sign KEY.pem`"
            ) from error
        except OSError as error:
            raise ArtifactError(
                f"cannot read {path.with_suffix(SIGNATURE_SUFFIX)}: {error.strerror}"
            ) from error
        if not any(_is_by(key, signature, content) for key in keys):
            raise ArtifactError(
                f"{path.parent} has a signature of none of the trusted keys ({names}), or was"
                " changed after it was signed: get it again from whom you trust"
            )
        check_unlisted(path.parent)

    return vouch


def _is_by(key: "Ed25519PublicKey", signature: bytes, content: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, content)
    except InvalidSignature:
        return False
    return True


def _private_key(path: KeyFile) -> "Ed25519PrivateKey":
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError as error:
        raise MissingExtraError(NO_LIBRARY) from error
    text = _key_text(path)
    try:
        key = load_pem_private_key(text, password=None)
    except TypeError as error:
        raise ArgumentError(f"{path} has a password: {DROP_PASSWORD.format(path)}") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ArgumentError(f"{path} is not a private key ({error}): {MAKE_PRIVATE}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise ArgumentError(f"{path} is not an Ed25519 private key: {MAKE_PRIVATE}")
    return key


def _public_key(path: KeyFile) -> "Ed25519PublicKey":
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    except ImportError as error:
        raise MissingExtraError(NO_LIBRARY) from error
    text = _key_text(path)
    try:
        key = load_pem_public_key(text)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ArgumentError(f"{path} is not a public key ({error}): {MAKE_PUBLIC}") from error
    if not isinstance(key, Ed25519PublicKey):
        raise ArgumentError(f"{path} is not an Ed25519 public key: {MAKE_PUBLIC}")
    return key


def _key_text(path: KeyFile) -> bytes:
    try:
        text = read_regular(path)
    except OSError as error:
        raise ArgumentError(f"cannot read the key {path}: {error.strerror or error}") from error
    if (count := text.count(b"-----BEGIN ")) > 1:  # the library would take the first
        raise ArgumentError(f"{path} holds {count} parts: keep each key in a separate file")
    return text
