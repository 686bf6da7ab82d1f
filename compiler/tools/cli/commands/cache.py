"""`flowloom cache status|clear`."""

from argparse import Namespace

from compiler.kernels.building import KernelCache
from compiler.support.words import counted, in_bytes
from compiler.tools.api.keeping import kept_modules, remove_modules
from compiler.tools.progress.options import conclude


def run(options: Namespace) -> int:
    """Say what the caches of kernels and of whole modules hold, or empty them."""
    cache = KernelCache()
    modules = kept_modules()
    if options.action == "clear":
        remove_modules(0)
        removed = cache.clear()
        whole = counted(len(modules), "whole module")
        figures = {"kernels": removed, "modules": len(modules)}
        text = f"{cache.directory}: {counted(removed, 'kernel')} removed, {whole}"
        conclude(options, text, {"directory": str(cache.directory), "removed": figures})
        return 0
    status = cache.status()
    module_bytes = sum(size for _, size, _ in modules)
    lines = [f"{status.directory}: {counted(status.entries, 'kernel')}, {in_bytes(status.nbytes)}"]
    targets: dict[str, dict[str, int]] = {}
    for target, (entries, nbytes) in sorted(status.targets.items()):
        lines.append(f"    {target}: {counted(entries, 'kernel')}, {in_bytes(nbytes)}")
        targets[target] = {"kernels": entries, "bytes": nbytes}
    lines.append(f"    {counted(len(modules), 'whole module')}, {in_bytes(module_bytes)}")
    figures = {
        "directory": str(status.directory),
        "kernels": status.entries,
        "bytes": status.nbytes,
        "targets": targets,
        "modules": len(modules),
        "module_bytes": module_bytes,
    }
    conclude(options, "\n".join(lines), figures)
    return 0
