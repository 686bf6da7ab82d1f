"""`flowloom cache status|clear`."""

from argparse import Namespace

from compiler.kernels.building import KernelCache
from compiler.support.words import counted, in_bytes
from compiler.tools.api.keeping import kept_modules, remove_modules


def run(options: Namespace) -> int:
    """Say what the caches of kernels and of whole modules hold, or empty them."""
    cache = KernelCache()
    modules = kept_modules()
    if options.action == "clear":
        remove_modules(0)
        kernels = counted(cache.clear(), "kernel")
        print(f"{cache.directory}: {kernels} removed, {counted(len(modules), 'whole module')}")
        return 0
    status = cache.status()
    print(f"{status.directory}: {counted(status.entries, 'kernel')}, {in_bytes(status.nbytes)}")
    for target, (entries, nbytes) in sorted(status.targets.items()):
        print(f"    {target}: {counted(entries, 'kernel')}, {in_bytes(nbytes)}")
    nbytes = sum(size for _, size, _ in modules)
    print(f"    {counted(len(modules), 'whole module')}, {in_bytes(nbytes)}")
    return 0
