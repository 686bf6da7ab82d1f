"""Every check that needs a GPU, in one run: `python3 tests/gpu_check.py [NAME ...]`.

Goes on after a failure; prints a table last and exits 1 if anything failed.
"""

import sys
import traceback
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parent.parent))

from compiler.errors import DeviceError
from tests.backends.gpu import device_checks, device_measurements


def main(names: list[str]) -> int:
    """Run the checks whose names contain one of the words; returns the exit status."""
    try:
        device_checks.device()
    except DeviceError as error:
        sys.exit(f"these checks need a CUDA device: {error}")
    lines, failed = list[str](), 0
    for check in device_checks.CHECKS + device_measurements.CHECKS:
        name = check.__name__.removeprefix("check_")
        if names and not any(word in name for word in names):
            continue
        start = perf_counter()
        try:
            verdict, text = "PASS", check()
        except Exception as error:
            failed += 1
            verdict, text = "FAIL", f"{type(error).__name__}: {str(error).strip()[:300]}"
            traceback.print_exc()
        text = " ".join(text.split())
        lines.append(f"{verdict}  {name:28} {perf_counter() - start:6.1f} s  {text}")
        print(lines[-1], flush=True)
    print("\n" + "\n".join(lines) + f"\n{len(lines) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
