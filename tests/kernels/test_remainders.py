"""Which remainders keep LLVM's vectorisers from a kernel."""

import pytest

from compiler.kernels.remainders import wraps_index

TAKE = "  %part = and i32 %i, 3"
PRODUCT = "  %p = call float @llvm.fmuladd.f32(float %a, float %b, float %c)"
COPY = "  store float %a, ptr %to, align 4"


def kernel(*around: str, inside: str = PRODUCT, extent: int = 2048) -> str:
    """A loop with some lines in it, around one of `extent` times the line inside."""
    return "\n".join(
        [
            "define void @kernel(i32 %first, i32 %last) {",
            "entry:",
            "  br label %for_begin_i",
            "for_begin_i:                    ; preds = %for_next_i, %entry",
            "  %i = phi i32 [ %first, %entry ], [ %1, %for_next_i ]",
            "  %2 = icmp slt i32 %i, %last",
            "  br i1 %2, label %for_body_i, label %for_end_i, !prof !24",
            "for_body_i:",
            *around,
            "  br label %for_begin_k",
            "for_begin_k:",
            "  %k = phi i32 [ 0, %for_body_i ], [ %3, %for_next_k ]",
            f"  %4 = icmp slt i32 %k, {extent}",
            "  br i1 %4, label %for_body_k, label %for_end_k, !prof !24",
            "for_body_k:",
            inside,
            "  br label %for_next_k",
            "for_next_k:",
            "  %3 = add nsw i32 %k, 1",
            "  br label %for_begin_k",
            "for_end_k:",
            "  br label %for_next_i",
            "for_next_i:",
            "  %1 = add nsw i32 %i, 1",
            "  br label %for_begin_i",
            "for_end_i:",
            "  ret void",
            "}",
        ]
    )


def test_a_loop_around_many_products_is_not_vectorised():
    assert not wraps_index(kernel(TAKE))


@pytest.mark.parametrize("take", [
    "  %part = and i32 %k, 3",
    "  %part = srem i32 %k, 8",
    "  %x = add nsw i32 %k, %i\n  %part = urem i32 %x, 2",
])  # fmt: skip
def test_an_innermost_counter_is_wrapped(take: str):
    assert wraps_index(kernel(inside=f"{PRODUCT}\n{take}"))


@pytest.mark.parametrize("take", [
    "  %part = srem i32 %k, 3", "  %part = and i32 %k, 6", "  %part = and i32 %k, 0",
    "  %part = and i32 %first, 3",
])  # fmt: skip
def test_other_remainders_are_harmless(take: str):
    assert not wraps_index(kernel(inside=f"{PRODUCT}\n{take}"))


def test_what_a_counter_led_to_is_wrapped_too():
    assert wraps_index(kernel(inside="  %x = mul i32 %k, 5\n  %y = add i32 %x, 1\n"
                                     "  %part = and i32 %y, 1"))  # fmt: skip


def test_a_short_loop_may_be_unrolled_so_that_the_outer_is_vectorised():
    assert wraps_index(kernel(TAKE, extent=64))


def test_a_loop_that_copies_may_become_a_call():
    assert wraps_index(kernel(TAKE, inside=COPY))


def test_nothing_is_known_of_what_is_merged():
    merged = "  %m = phi i32 [ 0, %then ], [ %i, %for_body_i ]\n  %part = and i32 %m, 3"
    assert wraps_index(kernel(merged.replace("%i, %for_body_i", "7, %for_body_i")))


def test_functions_are_read_apart():
    """Labels and numbers of one function say nothing of another's."""
    short, long = kernel(TAKE, extent=4), kernel()
    assert wraps_index(f"{short}\n{long}")
    assert wraps_index(f"{long}\n{short}")
    assert not wraps_index(f"{long}\n{kernel(TAKE)}")
