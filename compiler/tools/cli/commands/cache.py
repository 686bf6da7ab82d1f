"""`flowloom cache status|clear`."""

from argparse import Namespace

from compiler.kernels.building import KernelCache
from compiler.support.words import counted, in_bytes


def run(options: Namespace) -> int:
    """Say what the kernel cache holds, or empty it."""
    cache = KernelCache()
    if options.action == "clear":
        print(f"{cache.directory}: {counted(cache.clear(), 'kernel')} removed")
        return 0
    status = cache.status()
    print(f"{status.directory}: {counted(status.entries, 'kernel')}, {in_bytes(status.nbytes)}")
    for target, (entries, nbytes) in sorted(status.targets.items()):
        print(f"    {target}: {counted(entries, 'kernel')}, {in_bytes(nbytes)}")
    return 0
