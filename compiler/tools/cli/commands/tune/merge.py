"""`flowloom tune merge RESULTS...`: into the database of their architecture."""

from argparse import Namespace

from compiler.autotune.kernels.merge import entries_of, merge_into
from compiler.autotune.kernels.results import load_results
from compiler.errors import ArtifactError
from compiler.kernels.database import user_file
from compiler.progress import step_progress
from compiler.tools.progress.options import conclude


def run(options: Namespace) -> int:
    """Merge results of one architecture; the order of the files changes nothing."""
    loaded = [(*load_results(path), path) for path in options.results]
    runs = [item[:2] for item in sorted(loaded, key=lambda item: (item[0], item[2]))]
    archs = {header.arch for header, _ in runs}
    if len(archs) > 1:
        raise ArtifactError(f"results of {', '.join(sorted(archs))}: merge one architecture a time")
    devices = sorted({header.device for header, _ in runs})
    if len(devices) > 1 and options.device not in devices:
        raise ArtifactError(f"results of {devices}: name the one that counts more with --device")
    path = options.output or user_file(archs.pop())
    with step_progress("merge"):
        entries = [entry for header, results in runs for entry in entries_of(header, results)]
        database = merge_into(path, entries, options.device or devices[0])
    text = f"{path}: {len(database.entries)} kernels, for {database.device}"
    figures = {"kernels": len(database.entries), "device": database.device}
    conclude(options, text, {"database": str(path), **figures})
    return 0
