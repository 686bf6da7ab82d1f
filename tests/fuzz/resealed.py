"""Forged artifacts and programs whose seal is made anew, as one who can read this code can make it.

All that then protects a run is what `check_schedule` and its like verify: it is refused, or it runs
to its end and gives the same bits twice.
"""

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import compiler
from compiler.artifact import artifact
from compiler.artifact.manifest import (
    ARTIFACT_MANIFEST,
    FILE_LIST,
    PROGRAM_MANIFEST,
    SCHEDULE,
    SEAL,
    SELF_DIGEST,
    WEIGHTS,
    file_entry,
    format_in,
    manifest_digest,
    manifest_seal,
)
from compiler.verify.certificate import certified
from compiler.verify.schedule_json import from_json
from tests.forgery import Files, files_in
from tests.fuzz.case import Case
from tests.fuzz.damage import places
from tests.fuzz.draw import Draw
from tests.fuzz.forged import (
    CONTROL,
    DYNAMIC,
    STATIC,
    add,
    change,
    drop,
    model_of,
    move,
    reorder,
    replace,
)

LOOP = """
g (float[4, 8] x, float[3, 8] u, int64 n) => (float[4, 8] y, float[3, 8] r)
<float[8] v, bool go = {1}>
{
  a = Add (x, v)
  y = Loop (n, go, a) <
    body = b (int64 i, bool c, float[4, 8] p) => (bool d, float[4, 8] q)
      { d = Identity (c) h = Mul (p, v) q = Tanh (h) }>
  s = Scan <num_scan_inputs = 1, body = f (float[8] k, float[8] m) => (float[8] w, float[8] z)
    { w = Add (k, m) z = Sub (w, v) }> (v, u)
  r = Relu (u)
}
"""


@cache
def _originals(target: str) -> tuple[tuple[Files, dict[str, Any]], ...]:
    """Saved artifacts and programs, each with inputs of a run."""
    made: list[tuple[Files, dict[str, Any]]] = []
    random = np.random.default_rng(0)
    for text in (STATIC, CONTROL, LOOP, DYNAMIC):
        module = compiler.compile(model_of(text), target=target, budget=0)
        sizes = {
            a.name: tuple(n if isinstance(n, int) else 6 for n in a.shape or ())
            for a in module.inputs
        }
        feeds = {
            a.name: random.standard_normal(sizes[a.name]).astype(a.dtype) for a in module.inputs
        }
        module.run(feeds)
        with tempfile.TemporaryDirectory() as folder:
            module.save(Path(folder) / "saved")
            made.append((files_in(Path(folder) / "saved"), feeds))
        module.close()
    return tuple(made)


def same_key(draw: Draw, content: Any) -> str:
    """A value that is also below the same key elsewhere: a name, a size, a list of views."""
    container, key = draw.choice([place for place in places(content) if isinstance(place[1], str)])
    others = [c[k] for c, k in places(content) if k == key and c[k] != container[key]]
    container[key] = json.loads(json.dumps(draw.choice(others or [container[key]])))
    return f"{key} = {str(container[key])[:60]}"


_HASHED = (FILE_LIST, SEAL, SELF_DIGEST)
"""The entries of a manifest that are made anew."""

_EDITS = (same_key, same_key, change, move, reorder, drop)


def reseal(folder: Path) -> None:
    """Make all hashes and the seal of an artifact or a program anew.

    Raises FlowloomError for an invalid artifact.
    """
    kind = format_in(folder)
    path = folder / kind.file
    manifest = json.loads(path.read_bytes())
    files = manifest[FILE_LIST] = {n: file_entry(folder / n) for n in manifest[FILE_LIST]}
    if kind is PROGRAM_MANIFEST:
        sealed = {name: entry["sha256"] for name, entry in files.items()}
    else:
        listed = {n: (folder / n).read_bytes() for n in files if n != WEIGHTS}
        schedule = from_json(listed[SCHEDULE].decode())
        certificate = certified(schedule, artifact.read_kernels(listed))
        sealed = artifact.sealed_contents(certificate.digest, files)
    manifest[SEAL] = manifest_seal(manifest, sealed)
    manifest[SELF_DIGEST] = manifest_digest(manifest)
    path.write_text(json.dumps(manifest))


def random_resealed(seed: int, target: str) -> Case:
    """An artifact or a program of which one to three values were edited, not yet resealed.

    They are of the schedule, or of the manifest's own entries: the target, what it needs, choices,
    nodes on the host.
    """
    draw = Draw(seed)
    files, feeds = draw.choice(_originals(target))
    name = draw.choice([SCHEDULE, SCHEDULE, SCHEDULE, ARTIFACT_MANIFEST.file])
    name = PROGRAM_MANIFEST.file if PROGRAM_MANIFEST.file in files else name
    content = json.loads(files[name])
    edited = content if name == SCHEDULE else {k: content[k] for k in content if k not in _HASHED}
    edits = _EDITS if name == SCHEDULE else (*_EDITS, replace, add)
    notes = [draw.choice(edits)(draw, edited) for _ in range(draw.choice([1, 1, 1, 2, 3]))]
    if name != SCHEDULE:
        edited |= {key: content[key] for key in _HASHED}
    changed = {**files, name: json.dumps(edited).encode()}
    note = f"{name}: {'; '.join(notes)}"
    return Case("resealed", seed, files=changed, feeds=feeds, target=target, note=note)
