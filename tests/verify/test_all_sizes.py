"""A schedule that is certified for all sizes is valid at each, and a forged one is refused."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.errors import KernelError, ScheduleError
from compiler.schedule.kernels import KernelSpec, Launch, Operand
from compiler.schedule.symbolic import EXTENTS, SymbolicSchedule
from compiler.schedule.tasks import Allocation, Schedule, Task, View
from compiler.tensors.extents import NotForAllSizes, Symbol, Undecided, extent_of
from compiler.verify.all_sizes import certified_for_all_sizes
from compiler.verify.certificate import certified
from compiler.verify.seals import sealed_kernel
from tests.verify.test_slots import SIZES, L, N, schedule_of, symbolic

S0 = Symbol("s0", 2, 4096, 64)
SIZE = extent_of(S0)
NAME = f"{EXTENTS}length"


def fitting(own: SymbolicSchedule) -> SymbolicSchedule:
    """The schedule with sealed kernels for its operands, over their own symbols."""
    kernels: dict[str, KernelSpec] = {}
    for task in own.schedule.tasks:
        reads, writes = (
            tuple(Operand(v.dtype, v.shape) for v in views) for views in (task.reads, task.writes)
        )
        launch = Launch("f", tuple(range(len(reads) + len(writes))))
        kernels[task.kernel] = sealed_kernel(
            replace(own.kernels[task.kernel], launches=(launch,), reads=reads, writes=writes)
        )
    return replace(own, kernels=kernels)


def doubling(symbol: Symbol = S0) -> SymbolicSchedule:
    """Two tasks, one after the other on two streams, of a kernel that reads its size."""
    size = extent_of(symbol)
    operand = Operand("float32", (size, 8))
    sizes = Operand("int64", (1,))
    kernel = KernelSpec(
        "double",
        "object",
        b"code",
        (Launch("f", (0, 2, 1), (size * 8 // 32, 1, 1)),),
        ("", ""),
        reads=(operand, sizes),
        writes=(operand,),
        symbols=(symbol,),
    )
    allocations = (
        Allocation("input", "x", "float32", (L, 8)),
        Allocation("output", "y", "float32", (L, 8)),
        Allocation("weight", NAME, "int64", (1,)),
        Allocation("arena", "arena", "uint8", (32 * L,)),
    )
    x, y, n, t = (View(i, 0, a.dtype, a.shape) for i, a in enumerate(allocations))
    t = View(3, 0, "float32", (L, 8))
    tasks = (Task("double", 0, (), (x, n), (t,)), Task("double", 1, (0,), (t, n), (y,)))
    own = symbolic(Schedule("doubling", allocations, tasks))
    return replace(own, kernels={"double": sealed_kernel(kernel)}, extents={NAME: ("length",)})


@settings(deadline=None, max_examples=40)
@given(st.integers(), st.integers(1, 24), SIZES)
def test_numbers_are_those_of_an_instance(seed: int, count: int, sizes: dict[str, int]) -> None:
    own = fitting(symbolic(schedule_of(Random(seed), count)))
    certificate = certified_for_all_sizes(own)
    quick = certificate.numbers.instance_at(certificate.numbers_at(sizes))
    certified(quick.schedule, {name: sealed_kernel(k) for name, k in quick.kernels.items()})
    assert quick.schedule == own.at(sizes).schedule


def test_kernels_are_those_of_an_instance() -> None:
    own = doubling()
    certificate = certified_for_all_sizes(own)
    for length in (4, 5, 63, 64, 65, 4096):
        quick = certificate.numbers.instance_at(certificate.numbers_at({"length": length}))
        slow = own.at({"length": length})
        tasks = zip(quick.schedule.tasks, slow.schedule.tasks, strict=True)
        for quick_task, slow_task in tasks:
            assert replace(quick_task, kernel="") == replace(slow_task, kernel="")
            kernels = quick.kernels[quick_task.kernel], slow.kernels[slow_task.kernel]
            assert len({replace(kernel, name="") for kernel in kernels}) == 1
        assert quick.extents == slow.extents == {NAME: (length,)}


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 1 << 20))
def test_a_slot_that_is_not_above_another_is_refused(seed: int) -> None:
    random = Random(seed)
    own = fitting(symbolic(schedule_of(random, 10)))
    above = [i for i, slot in enumerate(own.slots) if slot.below]
    if not above:
        return
    number = random.choice(above)
    slot = own.slots[number]
    fewer = tuple(lower for lower in slot.below if lower != random.choice(slot.below))
    forged = replace(slot, below=fewer if fewer != slot.below else ())
    slots = (*own.slots[:number], forged, *own.slots[number + 1 :])
    with pytest.raises(ScheduleError, match="may share bytes for some sizes"):
        certified_for_all_sizes(replace(own, slots=slots))


def test_sizes_beyond_limits_are_refused_by_the_check_of_one_size() -> None:
    certificate = certified_for_all_sizes(doubling())
    numbers = certificate.numbers_at({"length": 100})
    assert certificate.numbers.instance_at(numbers).schedule.allocations[3].nbytes == 3200
    with pytest.raises(NotForAllSizes, match="the kernel double is for s0 from 2 to 4096"):
        certificate.numbers_at({"length": 5000})
    # the proof is for two rows and more, and the kernel would take one
    wider = doubling(replace(S0, low=0))
    assert certified_for_all_sizes(wider).limits == {"length": (2, 4096)}
    with pytest.raises(ScheduleError, match=r"launched in \[0, 1, 1\] blocks"):
        certificate.numbers_at({"length": 3})


Forgery = Callable[[SymbolicSchedule], SymbolicSchedule]


def with_task(own: SymbolicSchedule, index: int, **fields: object) -> SymbolicSchedule:
    """The schedule with other fields of a task."""
    tasks = [*own.schedule.tasks]
    tasks[index] = replace(tasks[index], **fields)  # pyright: ignore
    return replace(own, schedule=replace(own.schedule, tasks=tuple(tasks)))


def unordered(own: SymbolicSchedule) -> SymbolicSchedule:
    """Without the token between its tasks."""
    return with_task(own, 1, after=())


def cropped(own: SymbolicSchedule) -> SymbolicSchedule:
    """With a result that is written but for its last row."""
    task = own.schedule.tasks[1]
    return with_task(own, 1, writes=(replace(task.writes[0], shape=(L - 1, 8)),))


def beyond(own: SymbolicSchedule) -> SymbolicSchedule:
    """With a slot that is smaller than its tensor for large sizes only."""
    slot = replace(own.slots[0], nbytes=(16 * L + 63) // 64 * 64 + 64 * 64)
    return replace(own, slots=(slot,))


def other_sizes(own: SymbolicSchedule) -> SymbolicSchedule:
    """With the sizes of another symbol than the tensors' where the kernel reads them."""
    return replace(own, extents={NAME: ("batch",)})


def no_sizes(own: SymbolicSchedule) -> SymbolicSchedule:
    """With the sizes of no symbol where the kernel reads one's."""
    return replace(own, extents={})


def edited(own: SymbolicSchedule) -> SymbolicSchedule:
    """With a kernel that is launched in fewer blocks than it was built for."""
    kernel = own.kernels["double"]
    launch = replace(kernel.launches[0], grid=(SIZE, 1, 1))
    return replace(own, kernels={"double": replace(kernel, launches=(launch,))})


@pytest.mark.parametrize(
    ("forge", "error", "text"),
    [
        (unordered, ScheduleError, "race"),
        (cropped, ScheduleError, "its kernel was built for"),
        (beyond, Undecided, "change their order with the sizes"),
        (other_sizes, Undecided, "length - batch == 0 holds for some sizes only"),
        (no_sizes, ScheduleError, "reads the sizes of 1 symbols"),
        (edited, KernelError, "not as it was built"),
    ],
)
def test_a_forged_schedule_is_refused(forge: Forgery, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        certified_for_all_sizes(forge(doubling()))


def test_orders_that_depend_on_sizes_are_undecided() -> None:
    """Two views of an output, of which one begins where the other ends for some sizes only."""
    parts = (View(0, 0, "float32", (N,)), View(0, 256, "float32", (L,)))
    tasks = tuple(Task(f"part{i}", 0, (), (), (part,)) for i, part in enumerate(parts))
    allocations = (Allocation("output", "y", "float32", (64 + L,)),)
    with pytest.raises(Undecided, match="change their order"):
        certified_for_all_sizes(fitting(symbolic(Schedule("parts", allocations, tasks))))
