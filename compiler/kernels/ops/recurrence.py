"""The lowering of recurrences, of which only templates of GPUs have a kernel."""

from tvm import te

from compiler.kernels.ops.lowering import Context, lowering
from compiler.net.operators import RECURRENCE


@lowering(RECURRENCE)
def lower_recurrence(context: Context) -> list[te.Tensor]:
    """Raises KernelError: one that no template takes is imported unrolled."""
    raise context.fail(
        "only GPUs have kernels of all its steps together, for some sizes: import the model for the"
        " target, which unrolls others"
    )
