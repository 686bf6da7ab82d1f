"""Which loops are kept from LLVM's vectoriser for the remainders in them."""

import re

import llvmlite.binding as llvm
import pytest

from compiler.kernels.cpu.codegen import keep_loops
from compiler.kernels.cpu.remainders import guard_loops

NEVER = '!{!"llvm.loop.vectorize.enable", i1 false}'


def kernel(*around: str, inside: str = "", name: str = "kernel") -> str:
    """A loop that counts `%i` with some lines in it, around one of `%k` with the line inside."""
    return "\n".join(
        [
            f"define void @{name}(i32 %first, i32 %last) {{",
            "entry:",
            "  br label %for_begin_i",
            "for_begin_i:                    ; preds = %for_next_i, %entry",
            "  %i = phi i32 [ %first, %entry ], [ %i1, %for_next_i ]",
            "  %i2 = icmp slt i32 %i, %last",
            "  br i1 %i2, label %for_body_i, label %for_end_i",
            "for_body_i:",
            *around,
            "  br label %for_begin_k",
            "for_begin_k:",
            "  %k = phi i32 [ 0, %for_body_i ], [ %k1, %for_next_k ]",
            "  %k2 = icmp slt i32 %k, 64",
            "  br i1 %k2, label %for_body_k, label %for_end_k",
            "for_body_k:",
            inside,
            "  br label %for_next_k",
            "for_next_k:",
            "  %k1 = add nsw i32 %k, 1",
            "  br label %for_begin_k",
            "for_end_k:",
            "  br label %for_next_i",
            "for_next_i:",
            "  %i1 = add nsw i32 %i, 1",
            "  br label %for_begin_i",
            "for_end_i:",
            "  ret void",
            "}",
            "",
        ]
    )


def guarded(text: str) -> list[str]:
    """The loops that are marked never to be vectorised, once LLVM has taken the code."""
    code = str(llvm.parse_assembly(guard_loops(text)))
    data = dict(re.findall(r"^(!\d+) = (?:distinct )?(!\{.*\})$", code, re.M))
    loops = re.findall(r"br label %for_begin_(\w+), !llvm\.loop (!\d+)$", code, re.M)
    never = {number for number, value in data.items() if value == NEVER}
    return [name for name, mark in loops if never & set(re.findall(r"!\d+", data[mark]))]


def test_the_loop_that_counts_what_is_divided_is_guarded():
    assert guarded(kernel("  %part = and i32 %i, 3")) == ["i"]
    assert guarded(kernel(inside="  %part = and i32 %k, 3")) == ["k"]


@pytest.mark.parametrize("take", ["srem i32 %k, 8", "urem i32 %k, 2", "and i32 %k, 1"])
def test_every_remainder_by_a_power_of_two_counts(take: str):
    assert guarded(kernel(inside=f"  %part = {take}")) == ["k"]


@pytest.mark.parametrize("take", ["srem i32 %k, 3", "and i32 %k, 6", "and i32 %k, 0",
                                  "srem i32 %k, 1", "and i32 %first, 3"])  # fmt: skip
def test_other_remainders_are_harmless(take: str):
    text = kernel(inside=f"  %part = {take}")
    assert guard_loops(text) == text


def test_what_counters_led_to_is_divided_too():
    lines = ["  %x = mul i32 %k, 5", "  %y = add i32 %x, %i", "  %part = and i32 %y, 1"]
    assert guarded(kernel(inside="\n".join(lines))) == ["k", "i"]


def test_nothing_is_known_of_what_is_merged():
    merged = """  br i1 %i2, label %then, label %both
then:
  br label %both
both:
  %m = phi i32 [ 0, %then ], [ 7, %for_body_i ]
  %part = and i32 %m, 3
  br label %on
on:"""
    text = kernel(merged).replace("[ 0, %for_body_i ]", "[ 0, %on ]")
    assert guarded(text) == ["k", "i"]


def test_functions_are_read_apart():
    """Labels and values of one function say nothing of another's."""
    both = kernel("  %part = and i32 %i, 3") + kernel(name="other")
    assert guarded(both) == ["i"]
    both = kernel() + kernel(inside="  %part = and i32 %k, 3", name="other")
    assert guarded(both) == ["k"]


def test_loops_of_one_name_are_kept_in_each_function():
    text = keep_loops(kernel() + kernel(name="other"))
    kept = re.findall(r"^for_next_k:\n.*\n  br label %for_begin_k(, !llvm.loop !\d+)$", text, re.M)
    assert len(set(kept)) == 2
    assert text.count("br label %for_begin_k, ") == 2
    assert "unroll.disable" in str(llvm.parse_assembly(text))


def test_other_marks_of_a_loop_stay():
    text = keep_loops(kernel(inside="  %part = and i32 %k, 3"))
    assert guarded(text) == ["k"]
    assert "llvm.loop.unroll.disable" in str(llvm.parse_assembly(guard_loops(text)))


def test_a_loop_with_an_empty_mark_is_guarded():
    plain = kernel(inside="  %part = and i32 %k, 3")
    back = "add nsw i32 %k, 1\n  br label %for_begin_k"
    assert plain.count(back) == 1
    text = plain.replace(back, f"{back}, !llvm.loop !5") + "!5 = distinct !{!5}\n"
    assert guarded(text) == ["k"]


def test_a_register_hands_a_counter_on():
    lines = (
        "  %slot = alloca i32, i64 1, align 16",
        "  %at = getelementptr inbounds i32, ptr %slot, i32 0",
        "  store i32 %i, ptr %at, align 16",
        "  %from = getelementptr inbounds i32, ptr %slot, i32 0",
        "  %kept = load i32, ptr %from, align 16",
        "  %rest = and i32 %kept, 3",
    )
    assert guarded(kernel(*lines)) == ["i"]


def test_marks_have_the_order_of_the_text():
    inner = "  %a = and i32 %k, 3"
    for number in range(12):  # sets of other labels have other orders
        text = kernel("  %b = srem i32 %i, 4", inside=inner).replace(
            "for_next_", f"for_next{number}_"
        )
        marks = re.findall(r"!llvm\.loop !(\d+)$", guard_loops(text), re.M)
        assert len(marks) == 2
        assert marks == sorted(marks)


def test_the_loops_around_a_division_under_a_condition_are_guarded():
    quotient = "  %part = sdiv i32 %first, %last"
    assert guarded(kernel(quotient)) == []
    assert guarded(kernel(inside=quotient)) == []
    under = f"if_then:\n{quotient}\n  br label %if_end\nif_end:"
    jump = "label %if_then, label %if_end"
    assert sorted(guarded(kernel(inside=f"  br i1 %k2, {jump}\n{under}"))) == ["i", "k"]
    around = kernel(f"  br i1 %i2, {jump}\n{under}").replace("[ 0, %for_body_i", "[ 0, %if_end")
    assert guarded(around) == ["i"]
