"""What `flowloom tune` does; each step imports only what it needs."""

from argparse import Namespace
from functools import partial

from compiler.errors import ArtifactError


def _tell(line: str) -> None:
    print(line, flush=True)


def prepare_command(options: Namespace) -> int:
    """`flowloom tune prepare MODEL... -o BUNDLE`: needs TVM, but no GPU."""
    from compiler.tuning.bundle import save
    from compiler.tuning.prepare import prepare

    models = ((path.name, path) for path in options.models)
    precisions = options.precision or ["tf32"]
    bundle = prepare(models, precisions, options.arch, options.candidates, _tell)
    save(bundle, options.output)
    count = sum(len(kernel.candidates) for kernel in bundle.kernels)
    print(f"{options.output}: {count} candidates of {len(bundle.kernels)} kernels")
    return 0


def measure_command(options: Namespace) -> int:
    """`flowloom tune measure BUNDLE... -o RESULTS`: needs a GPU and NVRTC, but no TVM."""
    from compiler.backends.cuda.driver import CudaDriver
    from compiler.tuning.bundle import joined, load
    from compiler.tuning.measure import header_of, measure
    from compiler.tuning.compiling import compile_all
    from compiler.tuning.results import ResultFile

    bundle = joined([load(path) for path in options.bundles])
    driver = CudaDriver()
    results = ResultFile(options.output, header_of(driver, bundle))
    arch, headers = bundle.compiler_arch, bundle.headers
    compiler = partial(compile_all, arch=arch, headers=headers, jobs=options.jobs)
    try:
        done = measure(driver, bundle, results, compiler, options.budget, _tell)
    finally:
        results.close()
    wrong = sum(result.problem.startswith("wrong") for result in results.found)
    print(f"{options.output}: {done} measured, {len(results.found)} in all, {wrong} of them wrong")
    return 0


def merge_command(options: Namespace) -> int:
    """`flowloom tune merge RESULTS...`: into the database of their architecture."""
    from compiler.kernels.database import load, save, user_file
    from compiler.tuning.merge import entries_of, merged
    from compiler.tuning.results import load as load_results

    found = [load_results(path) for path in options.results]
    archs = {header.arch for header, _ in found}
    if len(archs) > 1:
        raise ArtifactError(f"results of {', '.join(sorted(archs))}: merge one architecture a time")
    path = options.output or user_file(archs.pop())
    entries = load(path) if path.exists() else []
    for header, results in found:
        entries = merged(entries, entries_of(header, results))
    save(path, entries)
    print(f"{path}: {len(entries)} kernels")
    return 0
