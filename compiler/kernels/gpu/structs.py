"""Structs and entry points of CUDA text, and structs around device functions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from compiler.kernels.gpu.epilogue import Parameter, StoreFunction
from compiler.schedule.kernels import Launch

DEVICE = "  __device__ __forceinline__"


def struct(name: str, members: Iterable[str], specialised: bool = False) -> str:
    """A struct of lines; or the specialisation of a template for a problem."""
    head = ["template <>", f"struct {name}<Problem> {{"] if specialised else [f"struct {name} {{"]
    return "\n".join([*head, *members, "};", ""])


def constants(values: Mapping[str, int | float | str]) -> list[str]:
    """The members that are constants: numbers by their type, and names of integers."""
    return [f"  static constexpr {_constant(name, value)};" for name, value in values.items()]


def _constant(name: str, value: float | str) -> str:
    if isinstance(value, bool):
        return f"bool {name} = {int(value)}"
    return f"float {name} = {value.hex()}f" if isinstance(value, float) else f"int {name} = {value}"


def entry(
    symbol: str, bounds: int | str, parameters: Iterable[str], call: str, cluster: int = 1
) -> str:
    """A kernel that calls a function; `bounds` are its threads, and perhaps blocks of an SM."""
    dimensions = f" __cluster_dims__(1, 1, {cluster})" if cluster > 1 else ""
    head = f'extern "C" __global__ void{dimensions} __launch_bounds__({bounds}) {symbol}'
    return f"{head}({', '.join(parameters)}) {{\n  {call};\n}}\n"


def restricted(kind: str, name: str, number: int) -> Parameter:
    """A parameter of a C type that is a pointer to memory to which no other one points."""
    return Parameter(f"{kind} __restrict__", name, number)


def kernel(
    launch: Launch,
    parameters: Sequence[Parameter],
    call: str,
    bounds: int | str = "",
    cluster: int = 1,
) -> tuple[str, Launch]:
    """A kernel of some buffers that calls a function, and its launch with their numbers.

    Its `bounds` are those of `entry`, the threads of the launch without any.
    """
    declared = (f"{own.type} {own.name}" for own in parameters)
    text = entry(launch.symbol, bounds or launch.block[0], declared, call, cluster)
    return text, replace(launch, args=tuple(own.number for own in parameters))


@dataclass(frozen=True)
class Functor:
    """A struct of some buffers that a kernel makes: its text, their C types and numbers.

    The buffers may be those of a struct in it, which is its only member.
    """

    name: str
    text: str
    types: tuple[str, ...] = ()
    arguments: tuple[int, ...] = ()
    inner: str = ""

    def made(self, names: Iterable[str]) -> str:
        """The expression that makes it of buffers."""
        buffers = f"{{{', '.join(names)}}}"
        return f"{self.name}{{{self.inner}{buffers}}}" if self.inner else f"{self.name}{buffers}"

    @property
    def made_by_number(self) -> str:
        """The expression that makes it of buffers that are called by their numbers."""
        return self.made(f"buffer{number}" for number in self.arguments)


def functor_parameters(functors: Iterable[Functor]) -> tuple[list[Parameter], list[str]]:
    """The buffers of functors one after another, and the expressions that make these."""
    parameters: list[Parameter] = []
    made: list[str] = []
    for own in functors:
        names = [f"buffer{len(parameters) + i}" for i in range(len(own.types))]
        kinds = [f"{kind}*" for kind in own.types]
        parameters += map(Parameter, kinds, names, own.arguments)
        made.append(own.made(names))
    return parameters, made


def function_parameters(function: StoreFunction, name: str) -> list[Parameter]:
    """The buffers of a device function as parameters, which may overlap others."""
    pairs = zip(function.types, function.arguments, strict=True)
    return [Parameter(f"{t}*", f"{name}{i}", number) for i, (t, number) in enumerate(pairs)]


def numbered_parameters(types: Mapping[int, str]) -> list[Parameter]:
    """Buffers of C types that are called by their numbers."""
    return [Parameter(f"{kind}*", f"buffer{number}", number) for number, kind in types.items()]


def value_part(name: str, function: StoreFunction, scalars: str) -> Functor:
    """The part that gives a value function's value, see `value_struct`."""
    text = f"{function.text}\n{value_struct(name, function, scalars)}"
    return Functor(name, text, function.types, function.arguments)


def store_part(name: str, function: StoreFunction, scalars: str) -> Functor:
    """The part that calls a device function, see `store_struct`."""
    text = f"{function.text}\n{store_struct(name, function, scalars)}"
    return Functor(name, text, function.types, function.arguments)


def value_struct(name: str, function: StoreFunction, scalars: str) -> str:
    """A struct of a value function's buffers that gives its value; `scalars` are C parameters."""
    call = _call(function, scalars, "&result")
    return _struct(name, function, f"float operator()({scalars})", "float result;", call)


def store_struct(name: str, function: StoreFunction, scalars: str) -> str:
    """A struct of a device function's buffers that calls it; `scalars` are C parameters."""
    return _struct(name, function, f"void operator()({scalars})", _call(function, scalars))


def _call(function: StoreFunction, scalars: str, *before: str) -> str:
    passed = [*before, *function.names, *(part.split()[-1] for part in scalars.split(","))]
    return f"{function.name}({', '.join(passed)});"


def _struct(name: str, function: StoreFunction, head: str, *body: str) -> str:
    named = zip(function.types, function.names, strict=True)
    members = [f"  {kind}* {own};" for kind, own in named]
    result = ["    return result;"] if len(body) > 1 else []
    lines = [f"{DEVICE} {head} const {{", *(f"    {line}" for line in body), *result, "  }"]
    return struct(name, [*members, *lines])
