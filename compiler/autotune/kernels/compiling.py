"""CUDA texts to cubins in parallel processes; needs NVRTC and its binding, and nothing of TVM."""

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

from compiler.errors import KernelError
from compiler.target.nvrtc import NO_NVRTC, compile_cuda, load_nvrtc

AHEAD = 4
"""Texts that wait for each process: few enough for memory, many enough to keep it busy."""

_headers: dict[str, str] = {}


def compile_all(
    texts: Sequence[str], arch: str, headers: dict[str, str], jobs: int = 0
) -> Iterator[tuple[int, bytes | str]]:
    """Each text's number with its cubin, or with what the compiler said, as they are ready.

    Raises KernelError where there is no NVRTC.
    """
    if load_nvrtc() is None:
        raise KernelError(NO_NVRTC)
    jobs = jobs or os.cpu_count() or 1
    # a fork would copy locks that other threads of this process hold
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, context, _keep_headers, (headers,))
    numbers = iter(range(len(texts)))
    running: dict[Future[bytes | str], int] = {}
    try:
        while True:
            for _, number in zip(range(jobs * AHEAD - len(running)), numbers, strict=False):
                running[pool.submit(_attempt, texts[number], arch)] = number
            if not running:
                return
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(done), done.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _keep_headers(headers: dict[str, str]) -> None:
    _headers.update(headers)


def _attempt(text: str, arch: str) -> bytes | str:
    try:
        return compile_cuda(text, arch, _headers)
    except KernelError as error:
        return str(error)
