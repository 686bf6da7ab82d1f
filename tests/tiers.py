"""The tiers of the tests, by marker: `quick`, all others that run by default, and `deep`.

`pytest -m quick` is for before a commit: the guards, and the rooms whose tests compile few kernels,
two minutes of two cores. `pytest` runs these and the rest, without `deep`. What is `deep` says so
itself: it takes minutes or many GB, or repeats with more of the same what a test by default does
with some.
"""

from pathlib import PurePath

QUICK = (
    *("autotune/substitution", "backends/cuda", "choice", "display", "driver", "emulator"),
    *("frontend/contrib", "frontend/interpreter", "frontend/operators"),
    *("graph", "interfaces", "ir", "kernels/cpu", "kernels/gpu/entries", "kernels/tir"),
    *("passes/schedule", "passes/test_*.py", "program", "rewrite/search", "rewrite/test_*.py"),
    *("scheduling", "support", "target", "tensors", "verify"),
    *("test_backend.py", "test_cli.py", "test_comparison.py", "test_completion.py"),
    *("test_docs.py", "test_filecheck.py", "test_guard.py", "test_hostile_arguments.py"),
    *("test_import_direction.py", "test_interfaces_page.py", "test_model_names.py"),
    *("test_names.py", "test_options.py", "test_records.py", "test_remedies.py"),
    *("test_schedule_files.py", "test_style.py", "test_tiers.py", "test_types.py"),
    *("test_user_passes.py", "test_words.py"),
)
"""Folders of tests, and patterns of files, that are quick."""


def is_quick(file: PurePath) -> bool:
    """Whether the tests of a file, by its path below `tests`, are quick unless they are deep."""
    whole = PurePath("/", file)
    paths = (whole, *whole.parents)
    return any(path.match(f"/{pattern}") for path in paths for pattern in QUICK)
