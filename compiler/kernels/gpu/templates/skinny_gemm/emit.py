"""The CUDA text around skinny_gemm.cuh."""

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.epilogue import Parameter
from compiler.kernels.gpu.structs import constants, struct
from compiler.kernels.gpu.templates.gemm.config import Tile
from compiler.kernels.gpu.templates.gemm.emit import Emitter
from compiler.kernels.gpu.templates.skinny_gemm.config import SkinnyConfig, shared_bytes
from compiler.kernels.gpu.templates.skinny_gemm.problem import SkinnyProblem
from compiler.kernels.template import KernelSource
from compiler.schedule.kernels import Launch

ANY_TILE = Tile(16, 32, 16, 32, 1)
"""A tile for the constants of a GEMM, which skinny ones do not use."""


class SkinnyEmitter(Emitter):
    """Writes the CUDA text of a skinny GEMM."""

    def dense(self, problem: SkinnyProblem, config: SkinnyConfig) -> KernelSource:
        """The kernel of a problem by dense weights."""
        buffers = {"b": self._element}
        return self.kernel(problem, config, buffers, {}, "DenseWeights", headers=("skinny_gemm",))

    def kernel(
        self,
        problem: SkinnyProblem,
        config: SkinnyConfig,
        buffers: dict[str, str],
        more: dict[str, int | str],
        weights: str,
        headers: tuple[str, ...],
        exact: bool = False,
    ) -> KernelSource:
        """The kernel of a problem; `buffers` are the weights' with their types.

        The last ones may be no operands of the problem.
        """
        grid = (ceil_div(problem.tiles, config.tiles), 1, config.splits)
        block = config.threads
        shared = shared_bytes(problem, config)
        launch = Launch(f"{self.group.name}_0", (), grid, (block, 1, 1), shared)
        left, *others = problem.reads
        given = dict(zip(buffers, others, strict=False))
        parameters = [Parameter(f"const {self._element}* __restrict__", "a", left)]
        parameters += [
            Parameter(f"const {buffers[own]}* __restrict__", own, read)
            for own, read in given.items()
        ]
        operands = ", ".join(own if own in given else "nullptr" for own in buffers)
        passed = f"a, Skinny<Problem>{{{operands}}}, {self._store_object()}"
        call = f"skinny_gemm<Problem, {weights}<Problem>>({passed})"
        kernel, launch = self._kernel(launch, parameters, call, cluster=config.splits)
        # The specialisation with the constants and the buffers of the weights.
        head = "  static __device__ __forceinline__ void"
        release = "launch_dependents();" if config.release else ""
        lines = constants(_constants(problem, config) | more)
        for own, kind in buffers.items():
            lines += [f"  using {own.capitalize()} = {kind};", f"  const {kind}* {own};"]
        lines += [
            f"{head} wait() {{ grid_dependency_wait(); }}",
            f"{head} release() {{ {release} }}",
        ]
        text = self._text(headers, ANY_TILE, struct("Skinny", lines, specialised=True) + kernel)
        return self._result(text, (launch,), (), exact)

    @property
    def _element(self) -> str:
        """The C type of an element of A, by its size."""
        return "float" if self.problem.element_bytes == 4 else "uint16_t"


def _constants(problem: SkinnyProblem, config: SkinnyConfig) -> dict[str, int | str]:
    runs, run = problem.runs
    return {
        "RUNS": runs,
        "RUN": run,
        "CHUNKS": problem.chunks,
        "TILES": config.tiles,
        "WARPS": config.warps,
        "SPLITS": config.splits,
        "STAGES": min(config.stages, config.turns(problem)),
        "PREFETCH": int(config.prefetch),
    }
