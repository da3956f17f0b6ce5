"""Responses become answers, answers become launches, and every mistake is named."""

from __future__ import annotations

import time

import pytest
from hand_tasks import ADD, KERNEL, respond

from leap_jax.kernels.answer import (
    AnswerError,
    LaunchError,
    PlannedLaunch,
    ScalarArgument,
    Scratch,
    check_launch_bounds,
    check_resources,
    check_types,
    extract_source,
    kernel_names,
    parse_answer,
    plan,
    scratch_sizes,
)
from leap_jax.kernels.verdict import KernelResources

SIGNATURES = {"kernel": (8, 8, 8, 4)}
LAUNCH = "// launch: grid=(ceil_div(n, 256)) block=(256)"


def _plan(lines: str, n: int = 257, signatures=SIGNATURES) -> tuple[PlannedLaunch, ...]:
    return plan(parse_answer(respond(lines), ADD), ADD, {"n": n}, signatures)


def test_a_plain_answer():
    answer = parse_answer(f"First I think.\n{respond(LAUNCH)}Done.", ADD)
    assert answer.launches[0].kernel == "kernel"
    assert answer.launches[0].args is None
    (planned,) = plan(answer, ADD, {"n": 257}, SIGNATURES)
    assert planned == PlannedLaunch("kernel", (2, 1, 1), (256, 1, 1), 0, ("x", "y", "z", ScalarArgument("i32", 257)))
    assert planned.threads == 512


def test_two_kernels_scratch_and_arguments():
    text = """// scratch: partial float ceil_div(n, 1024)
// scratch: ticket unsigned long long 1
// launch: first grid=(ceil_div(n, 1024), 2) block=(16, 8, 2) shared=4 * n args=(x, partial, n)
// launch: last grid=(1) block=(n % 256) args=(partial, z, ceil_div(n, 1024), -1)
"""
    answer = parse_answer(respond(text), ADD)
    assert answer.scratch == (
        Scratch("partial", "f32", "ceil_div(n, 1024)"),
        Scratch("ticket", "u64", "1"),
    )
    first, last = plan(answer, ADD, {"n": 3000}, {"first": (8, 8, 4), "last": (8, 8, 8, 4)})
    assert (first.grid, first.block, first.shared_bytes) == ((3, 2, 1), (16, 8, 2), 12000)
    assert first.args == ("x", "partial", ScalarArgument("i32", 3000))
    assert last.args == ("partial", "z", ScalarArgument("i64", 3), ScalarArgument("i32", -1))
    assert scratch_sizes(answer, {"n": 3000}) == {"partial": 3, "ticket": 1}


@pytest.mark.parametrize("grid", ["grid=ceil_div(n, 256)", "grid=(ceil_div(n,256), 1)", "grid = ((n + 255) / 256)"])
def test_spellings_of_a_grid(grid):
    assert _plan(f"//launch: {grid} block=256,")[0].grid == (2, 1, 1)


@pytest.mark.parametrize("fence", ["```cuda", "```cpp", "```c++", "```", "  ```CUDA title=x"])
def test_fences(fence):
    assert extract_source(f"text\n{fence}\n__global__ int\n```\n") == "__global__ int\n"


def test_windows_line_ends_and_the_last_block_with_a_kernel():
    response = "```\r\n__global__ A\r\n```\r\n```cuda\r\n__global__ B\r\n```\r\n```sh\r\nnvcc\r\n```"
    assert extract_source(response) == "__global__ B\n"


@pytest.mark.parametrize(
    ("response", "words"),
    [
        ("", "no fenced code block"),
        ("__global__ void f() {}", "no fenced code block"),
        ("```cuda\n__global__ void f(", "not closed"),
        ("```\n \n```", "empty"),
        (respond("// launch: grid=(1) block=(1)\n\0"), "NUL"),
        (respond(f"{LAUNCH}\n//{'x' * 70_000}"), "longer than 65536 bytes"),
        (respond(""), "no launch line"),
        (respond("// launch: grid=(1)"), "needs block="),
        (respond("// launch: block=(1)"), "needs grid="),
        (respond("// launch: kernel"), "needs grid="),
        (respond("// launch: grid=(1, 2, 3, 4) block=(1)"), "needs grid="),
        (respond("// launch: grid=(1) grid=(1) block=(1)"), "grid twice"),
        (respond("// launch: grid=(1 block=(1)"), "unbalanced parentheses in grid"),
        (respond("// launch: grid=(1,,1) block=(1)"), "empty value in grid"),
        (respond("// launch: a b grid=(1) block=(1)"), "names no kernel: 'a b'"),
        (respond("// launch: grid=(1) block=(1)\n__global__ void other() {}"), "has 2 __global__ kernels"),
        (respond("// scratch: x float n\n" + LAUNCH), "scratch name 'x' is taken"),
        (respond("// scratch: p half n\n" + LAUNCH), "name type size"),
        (respond("// scratch: p float\n" + LAUNCH), "name type size"),
        (respond("// scratch:\n" + LAUNCH), "name type size"),
        (respond((LAUNCH + "\n") * 17), "more than 16 launches"),
    ],
)
def test_responses_without_an_answer(response, words):
    with pytest.raises(AnswerError) as caught:
        parse_answer(response, ADD)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("// launch: other grid=(1) block=(1)", "no kernel 'other' (compiled: kernel)"),
        ("// launch: grid=(n / 256 - 1) block=(1)", "kernel: grid x is 0, must be 1 to 2147483647"),
        ("// launch: grid=(1, 65536) block=(1)", "kernel: grid y is 65536, must be 1 to 65535"),
        ("// launch: grid=(1) block=(1025)", "kernel: block x is 1025, must be 1 to 1024"),
        ("// launch: grid=(1) block=(1, 1, 65)", "kernel: block z is 65, must be 1 to 64"),
        ("// launch: grid=(1) block=(64, 32)", "kernel: block has 2048 threads, at most 1024"),
        ("// launch: grid=(1) block=(1) shared=232449", "232449 bytes of shared memory"),
        ("// launch: grid=(1) block=(1) shared=-1", "-1 bytes of shared memory"),
        ("// launch: grid=(m) block=(1)", "kernel: grid: unknown name 'm'"),
        ("// launch: grid=(1) block=(1) args=(x, y, z)", "takes 4 parameters, 3 given"),
        ("// launch: grid=(1) block=(1) args=()", "takes 4 parameters, 0 given"),
        ("// launch: grid=(1) block=(1) args=(x, y, z, x)", "parameter 4 takes 4 bytes, x is a pointer of 8"),
        ("// launch: grid=(1) block=(1) args=(x, y, n, n)", "parameter 3 takes 8 bytes, n is int of 4"),
        ("// launch: grid=(1) block=(1) args=(x, y, z, 3000000000)", "does not fit in 4 bytes"),
        ("// launch: grid=(1) block=(1) args=(x, y, z, w)", "parameter 4: unknown name 'w'"),
    ],
)
def test_launches_that_cannot_be(lines, words):
    with pytest.raises(LaunchError) as caught:
        _plan(lines)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_single_mangled_kernel_is_found_and_one_of_several_asks_for_extern_c():
    mangled = {"_ZN4mine6kernelEPKfS0_Pfi": (8, 8, 8, 4)}
    assert _plan(LAUNCH, signatures=mangled)[0].kernel == "_ZN4mine6kernelEPKfS0_Pfi"
    with pytest.raises(LaunchError, match='extern "C" is missing'):
        _plan(LAUNCH, signatures=mangled | {"other": ()})
    with pytest.raises(LaunchError, match="no kernel 'kernel'"):
        _plan(LAUNCH, signatures={"_Z9my_kernelPf": (8, 8, 8, 4)})


@pytest.mark.parametrize(
    ("response", "source"),
    [
        ("\ufeff```cuda\n\ufeff__global__ A\n```", "__global__ A\n"),
        ("```cuda\n__global__ A\n```\n```cuda\n__global__ cut off", "__global__ A\n"),
        ("```cuda\n__global__ draft\n```cuda\n__global__ B\n```", "__global__ B\n"),
        ("````markdown\nlike this:\n```cuda\n__global__ A\n```\ndone\n````", "__global__ A\n"),
        ("```\n```cuda\n__global__ A\n```\n```", "__global__ A\n"),
        ("~~~cuda\n__global__ A\n```\n~~~", "__global__ A\n```\n"),
        ("````cuda\n__global__ A\n```\n````", "__global__ A\n```\n"),
        (
            "use `__global__` or ```x```\n\t```cuda\n\t__global__ A // \U0001f600\n\t```",
            "\t__global__ A // \U0001f600\n",
        ),
        ("```cuda\r__global__ A\r```\r", "__global__ A\n"),
    ],
)
def test_the_last_closed_block_wins(response, source):
    assert extract_source(response) == source


def test_a_draft_gives_way_but_not_to_a_kernel_that_cannot_be_launched():
    draft, final = respond(LAUNCH, KERNEL.replace("+", "-")), respond(LAUNCH)
    excerpt = "```cuda\nif (i < n) z[i] = x[i] + y[i];\n```\n"
    assert extract_source(f"{draft}No, it adds.\n{final}{excerpt}") == extract_source(final)
    unlaunched = f"```cuda\n{KERNEL}\n```\n"
    with pytest.raises(AnswerError, match="two blocks compete"):
        extract_source(f"{draft}{unlaunched}")
    assert "__global__" in extract_source(f"{unlaunched}{unlaunched}")


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ("\n// launch: grid=(1) block=(m)", "line 2, column 28: kernel: block: unknown name 'm'"),
        ("// launch: grid=(1, 65536) block=(1)", "line 1, column 21: kernel: grid y"),
        ("//\tlaunch:grid=(1) block = 1 args=(x, y, z, max(1, w))", "line 1, column 45: kernel: parameter 4"),
        ("// launch: grid=(1) block=(1) args=(x)", "line 1, column 37: kernel: takes 4 parameters, 1 given"),
    ],
)
def test_launch_errors_name_line_and_column(lines, place):
    with pytest.raises(LaunchError) as caught:
        _plan(lines)
    assert str(caught.value).startswith(place)


def test_unreadable_launch_and_scratch_lines_are_placed():
    for lines, place in (
        ("\n// launch: grid=(1 block=(1)", "line 2, column 17: launch line has unbalanced"),
        ("\n\n  // scratch: p half n\n" + LAUNCH, "line 3, column 14: scratch line"),
        ("// launch: grid=(1) block=(1) block=(1)", "line 1, column 31: launch line has block twice"),
    ):
        with pytest.raises(AnswerError) as caught:
            parse_answer(respond(lines), ADD)
        assert str(caught.value).startswith(place)


def test_scratch_sizes_are_bounded():
    for size, words in (("n - 257", "has 0 elements"), ("16777217", "at most")):
        answer = parse_answer(respond(f"// scratch: p float {size}\n{LAUNCH}"), ADD)
        with pytest.raises(LaunchError, match=words):
            scratch_sizes(answer, {"n": 257})


def test_resources_of_a_block():
    (planned,) = _plan("// launch: grid=(1) block=(1024) shared=200000")
    check_resources(planned, KernelResources(64, 0, 0, 0, 0))
    with pytest.raises(LaunchError, match="65 registers x 1024 threads"):
        check_resources(planned, KernelResources(65, 0, 0, 0, 0))
    with pytest.raises(LaunchError, match="232449 bytes of shared"):
        check_resources(planned, KernelResources(32, 32449, 0, 0, 0))


def test_kinds_of_arguments():
    args = "// launch: grid=(1) block=(1) args=(x, y, z, n)"
    answer = parse_answer(respond(args), ADD)
    (line,), (planned,) = answer.launches, _plan(args)
    check_types(line, planned, [False] * 4)
    with pytest.raises(LaunchError) as caught:
        check_types(line, planned, [False, False, False, True])
    assert str(caught.value) == ("line 1, column 46: kernel: parameter 4 is a floating-point number, int is passed")
    with pytest.raises(LaunchError, match="parameter 2 is a floating-point number, the pointer y is passed"):
        check_types(line, planned, [False, True, False, False])
    scaled = PlannedLaunch("kernel", (1, 1, 1), (1, 1, 1), 0, (ScalarArgument("f32", 0.5),))
    check_types(line, scaled, [True])
    with pytest.raises(LaunchError, match="parameter 1 is an integer or a pointer, float is passed"):
        check_types(line, scaled, [False])


def test_launch_bounds():
    (planned,) = _plan(LAUNCH)
    check_launch_bounds(planned, {"maxntid": (256,)})
    with pytest.raises(LaunchError, match="256 threads, __launch_bounds__ allows 128"):
        check_launch_bounds(planned, {"maxntid": (128, 1, 1)})
    with pytest.raises(LaunchError, match="requires"):
        check_launch_bounds(planned, {"reqntid": (64,)})


def test_kernel_names():
    source = f"""{KERNEL}
    // __global__ void in_a_comment() {{}}
    const char* s = "__global__ void in_a_string() {{}}";
    const char* r = R"x(" /* __global__ void in_a_raw_string() {{}} )x";
    __global__ void __launch_bounds__(256) second(int n);
    template <int T> static __global__ void third(float* y) {{ helper(y); }}
    __global__ void second(int n) {{}}
    """
    assert kernel_names(source) == ["kernel", "second", "third"]


@pytest.mark.parametrize("piece", ["`", "~", " ", "``` ", "```\n", "```x\n", "~~~ `\n"])
def test_long_responses_take_no_time(piece):
    start = time.process_time()
    with pytest.raises(AnswerError):
        extract_source("```" + piece * 50_000 + "`")
    assert time.process_time() - start < 2
