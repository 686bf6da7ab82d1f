"""The footprint of a generated kernel: every access is proved inside, or described, or refused."""

from collections.abc import Iterable, Mapping, Sequence

from tvm.tirx import PrimFunc

from compiler.errors import KernelError
from compiler.kernels.tir.accesses import Accesses, accesses_of
from compiler.kernels.tir.containment import judge
from compiler.schedule import Footprint, Launch

AXES = ("x", "y", "z")


def cpu_footprint(
    functions: Iterable[PrimFunc], launches: Sequence[Launch], views: Sequence[int]
) -> Footprint:
    """The footprint of a CPU's launches, each of which calls its function for all its blocks.

    `views` are the bytes of the buffers that `args` of launches number. Raises KernelError if an
    access is outside its buffer, or a buffer larger than its view.
    """
    found = [
        accesses_of(function, launch.grid[0])
        for function, launch in zip(functions, launches, strict=True)
    ]
    return _footprint(found, launches, views)


def gpu_footprint(
    functions: Mapping[str, PrimFunc], launches: Sequence[Launch], views: Sequence[int]
) -> Footprint:
    """The footprint of a GPU's launches of device functions, by symbol; see `cpu_footprint`.

    Raises KernelError, too, if a launch's grid or block is not that of its function.
    """
    found = [accesses_of(functions[launch.symbol]) for launch in launches]
    for accesses, launch in zip(found, launches, strict=True):
        _check_extents(accesses, launch)
    return _footprint(found, launches, views)


def _check_extents(found: Accesses, launch: Launch) -> None:
    """Raise KernelError unless a launch has the blocks and threads that its function counts."""
    for kind, launched in (("blockIdx", launch.grid), ("threadIdx", launch.block)):
        counted = tuple(found.axes.get(f"{kind}.{axis}", 1) for axis in AXES)
        if counted != launched:
            raise KernelError(
                f"the kernel {launch.symbol} counts {kind} up to {counted}, but its launch has"
                f" {launched}: report this as a bug of its schedule"
            )


def _footprint(
    found: Sequence[Accesses], launches: Sequence[Launch], views: Sequence[int]
) -> Footprint:
    accesses = solved = enumerated = 0
    undecided = list[str]()
    for each, launch in zip(found, launches, strict=True):
        _check_views(each, launch, views)
        verdict = judge(each)
        if verdict.outside:
            raise KernelError(
                f"the kernel {launch.symbol} {verdict.outside[0]}: report this as a bug of its"
                " schedule"
            )
        accesses += verdict.accesses
        solved += verdict.by_solver
        enumerated += verdict.by_enumeration
        undecided += [f"{launch.symbol} {text}" for text in verdict.undecided]
    symbols = tuple(launch.symbol for launch in launches)
    return Footprint(symbols, accesses, solved, enumerated, tuple(undecided))


def _check_views(found: Accesses, launch: Launch, views: Sequence[int]) -> None:
    """Raise KernelError if a function takes a buffer for larger than what it is launched on."""
    for position, (number, used) in enumerate(zip(launch.args, found.views, strict=True)):
        if used > views[number]:
            raise KernelError(
                f"the kernel {launch.symbol} takes its argument {position} for {used} bytes, but"
                f" buffer {number} has {views[number]}: report this as a bug of its schedule"
            )
