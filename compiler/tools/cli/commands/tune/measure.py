"""`flowloom tune measure BUNDLE... -o RESULTS`: needs a GPU and NVRTC, but no TVM."""

import os
from argparse import Namespace
from functools import partial

from compiler.autotune.kernels.bundle import load_bundle, merge_bundles
from compiler.autotune.kernels.compiling import compile_all
from compiler.autotune.kernels.duration import expected_duration
from compiler.autotune.kernels.measure import header_of, measure
from compiler.autotune.kernels.results import ResultFile
from compiler.backends.cuda import device as cuda
from compiler.progress import step_progress
from compiler.tools.cli.commands.tune.common import reporter
from compiler.tools.progress.options import conclude


def run(options: Namespace) -> int:
    """Measure the candidates of bundles on this device, those first that no result has."""
    bundle = merge_bundles([load_bundle(path) for path in options.bundles])
    driver = cuda.device()
    results = ResultFile(options.output, header_of(driver, bundle))
    jobs = options.jobs or os.cpu_count() or 1
    report = reporter(options)
    report(
        f"{bundle.count} candidates of {len(bundle.kernels)} kernels:"
        f" {expected_duration(bundle, jobs)}"
    )
    arch = bundle.compiler_arch
    headers = bundle.headers
    compiler = partial(compile_all, arch=arch, headers=headers, jobs=jobs)
    try:
        with step_progress("measure"):
            done = measure(driver, bundle, results, compiler, seconds=options.budget, report=report)
    finally:
        results.close()
    wrong = sum(result.problem.startswith("wrong") for result in results.found)
    text = f"{options.output}: {done} measured, {len(results.found)} in all, {wrong} of them wrong"
    figures = {"results": str(options.output), "measured": done, "all": len(results.found)}
    conclude(options, text, figures | {"wrong": wrong})
    return 0
