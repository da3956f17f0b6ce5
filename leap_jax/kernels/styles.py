"""Correct answers to composed tasks in several programming styles.

A style is a function of a composition that returns a response: one kernel and its launch line.
"""

from __future__ import annotations

from collections.abc import Callable

from leap_jax.kernels.composition import Composition, Step, parameters
from leap_jax.kernels.operations import Stage
from leap_jax.kernels.task import C_TYPES, c_parameter

INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
ROW = "int row = blockIdx.x * blockDim.x + threadIdx.x;"
ROW_OF_BLOCK = "int row = blockIdx.x, t = threadIdx.x;"
FUSED_CHARACTERS = 100  # a longer expression is not written in one line
INITIAL = {
    "f32": {"sum": "0.0f", "max": "-INFINITY", "min": "INFINITY"},
    "i32": {"sum": "0", "max": "INT_MIN", "min": "INT_MAX"},
}
COMBINE = {
    "f32": {"sum": "{a} += {b};", "max": "{a} = fmaxf({a}, {b});", "min": "{a} = fminf({a}, {b});"},
    "i32": {"sum": "{a} += {b};", "max": "{a} = max({a}, {b});", "min": "{a} = min({a}, {b});"},
}


def answers(composition: Composition) -> dict[str, str]:
    """A correct response in every style that fits the composition, by the name of the style."""
    return {style.__name__: style(composition) for style in styles(composition)}


def styles(composition: Composition) -> tuple[Callable[[Composition], str], ...]:
    """The styles that fit a composition: at least four, the plainest first."""
    if composition.row:
        return (row_per_thread, row_per_block, row_per_warp, rows_per_block)
    anywhere = (guarded, grid_stride, helper, two_per_thread, unrolled, named)
    optional = ((tiled, composition.matrix), (fused, len(_fused(composition, "x[i]", "y[i]")) <= FUSED_CHARACTERS))
    return (*anywhere, *(style for style, fits in optional if fits))


def baseline(composition: Composition) -> str:
    """The plainest correct response."""
    return styles(composition)[0](composition)


def guarded(composition: Composition) -> str:
    """One thread per element."""
    n = _elements(composition)
    body = [INDEX, *_block(f"if (i < {n})", _element(composition, "i"))]
    return _response(composition, f"grid=(ceil_div({n}, 256)) block=(256)", body)


def grid_stride(composition: Composition) -> str:
    """A fixed grid; every thread strides over the elements."""
    loop = f"for ({INDEX} i < {_elements(composition)}; i += gridDim.x * blockDim.x)"
    return _response(composition, "grid=(8) block=(64)", _block(loop, _element(composition, "i")))


def helper(composition: Composition) -> str:
    """The chain in a device function, early return."""
    n, c_type = _elements(composition), C_TYPES[composition.dtype]
    inputs = {"v": "x[i]"} | ({"y": _second(composition, "i")} if composition.second != "none" else {})
    signature = ", ".join(f"{c_type} {name}" for name in inputs)
    chain = _chain(composition, composition.before, "y")
    function = _block(f"__device__ {c_type} f({signature})", [*chain, "return v;"])
    body = [INDEX, f"if (i >= {n}) return;", f"out[i] = f({', '.join(inputs.values())});"]
    return _response(composition, f"grid=(ceil_div({n}, 128)) block=(128)", body, function)


def two_per_thread(composition: Composition) -> str:
    """Two neighbouring elements per thread."""
    n = _elements(composition)
    start = "int start = (blockIdx.x * blockDim.x + threadIdx.x) * 2;"
    loop = f"for (int i = start; i < min(start + 2, {n}); i++)"
    body = [start, *_block(loop, _element(composition, "i"))]
    return _response(composition, f"grid=(ceil_div({n}, 256)) block=(128)", body)


def unrolled(composition: Composition) -> str:
    """Two elements per thread, a grid apart, written out."""
    n = _elements(composition)
    body = [INDEX, "int k = i + gridDim.x * blockDim.x;"]
    for i in ("i", "k"):
        body += _block(f"if ({i} < {n})", _element(composition, i))
    return _response(composition, f"grid=(ceil_div({n}, 512)) block=(256)", body)


def named(composition: Composition) -> str:
    """Every value of the chain has its own name."""
    c_type, y = C_TYPES[composition.dtype], _second(composition, "i")
    body = [INDEX, f"if (i >= {_elements(composition)}) return;", f"{c_type} v0 = x[i];"]
    for k, step in enumerate(composition.before):
        body.append(f"{c_type} v{k + 1} = {_expression(composition, step, f'v{k}', y)};")
    body.append(f"out[i] = v{len(composition.before)};")
    return _response(composition, f"grid=(ceil_div({_elements(composition)}, 256)) block=(256)", body)


def fused(composition: Composition) -> str:
    """The chain as one expression."""
    n = _elements(composition)
    body = [INDEX, f"if (i < {n}) out[i] = {_fused(composition, 'x[i]', _second(composition, 'i'))};"]
    return _response(composition, f"grid=(ceil_div({n}, 256)) block=(256)", body)


def tiled(composition: Composition) -> str:
    """A two-dimensional grid over the matrix."""
    body = [
        "int j = blockIdx.x * blockDim.x + threadIdx.x;",
        "int row = blockIdx.y * blockDim.y + threadIdx.y;",
        *_block("if (row < rows && j < cols)", ["int i = row * cols + j;", *_element(composition, "i", "j")]),
    ]
    return _response(composition, "grid=(ceil_div(cols, 32), ceil_div(rows, 8)) block=(32, 8)", body)


def row_per_thread(composition: Composition) -> str:
    """One thread walks along a row."""
    body = [ROW, "if (row >= rows) return;", *_row(composition, "0", "j++", _alone)]
    return _response(composition, "grid=(ceil_div(rows, 64)) block=(64)", body)


def row_per_block(composition: Composition) -> str:
    """A block of 128 threads per row; a tree in shared memory combines their shares."""
    shared = f"__shared__ {C_TYPES[composition.dtype]} part[128];"
    body = [shared, ROW_OF_BLOCK, *_row(composition, "t", "j += 128", _by_tree)]
    return _response(composition, "grid=(rows) block=(128)", body)


def row_per_warp(composition: Composition) -> str:
    """A block of one warp per row; shuffles combine the lanes."""
    body = [ROW_OF_BLOCK, *_row(composition, "t", "j += 32", _by_shuffles)]
    return _response(composition, "grid=(rows) block=(32)", body)


def rows_per_block(composition: Composition) -> str:
    """Four warps in a block, each with its own row; shuffles combine the lanes."""
    row = "int row = blockIdx.x * 4 + threadIdx.y, t = threadIdx.x;"
    body = [row, "if (row >= rows) return;", *_row(composition, "t", "j += 32", _by_shuffles)]
    return _response(composition, "grid=(ceil_div(rows, 4)) block=(32, 4)", body)


def _alone(stage: Stage, dtype: str) -> tuple[list[str], str]:
    """How the threads of a row combine their shares (lines) and where the result is then: one thread has it."""
    return [], stage.variable


def _by_shuffles(stage: Stage, dtype: str) -> tuple[list[str], str]:
    combine = _combine(stage, dtype, stage.variable, f"__shfl_xor_sync(0xffffffff, {stage.variable}, k)")
    return [f"for (int k = 16; k > 0; k /= 2) {combine}"], stage.variable


def _by_tree(stage: Stage, dtype: str) -> tuple[list[str], str]:
    combine = _combine(stage, dtype, "part[t]", "part[t + k]")
    loop = _block("for (int k = 64; k > 0; k /= 2)", [f"if (t < k) {combine}", "__syncthreads();"])
    return [f"part[t] = {stage.variable};", "__syncthreads();", *loop], "part[0]"


def _row(
    composition: Composition, first: str, advance: str, merge: Callable[[Stage, str], tuple[list[str], str]]
) -> list[str]:
    """The passes of a row operation; a thread takes the columns from `first` on, `merge` joins the threads.

    A chain before the row operation is computed once and kept in `out` for the later passes of a
    normalisation; each thread reads back only what it wrote.
    """
    row, dtype, c_type = composition.row, composition.dtype, C_TYPES[composition.dtype]
    loop = f"for (int j = {first}; j < cols; {advance})"
    before, after = (_chain(composition, steps, "y[j]") for steps in (composition.before, composition.after))
    lines = ["x += row * cols;"]
    lines += ["y += row * cols;"] if composition.second == "same" else []
    lines += [] if composition.reduces else ["out += row * cols;"]
    kept = "x[j]"
    for stage in row.stages:
        lines.append(f"{c_type} {stage.variable} = {INITIAL[dtype][stage.combine]};")
        if before and kept == "x[j]":
            keep = [] if composition.reduces else ["out[j] = v;"]
            fold = _combine(stage, dtype, stage.variable, stage.element.format(v="v"))
            lines += _block(loop, [f"{c_type} v = x[j];", *before, *keep, fold])
            kept = "out[j]"
        else:
            lines.append(f"{loop} {_combine(stage, dtype, stage.variable, stage.element.format(v=kept))}")
        merging, value = merge(stage, dtype)
        lines += merging
        result = stage.finish.format(a=value)
        if not composition.reduces and result != stage.variable:
            lines.append(f"{stage.variable} = {result};")
        if value == "part[0]" and stage is not row.stages[-1]:
            lines.append("__syncthreads();")  # the next stage overwrites what others may still have to read
    if composition.reduces:
        store = "out[row] = " if first == "0" else "if (t == 0) out[row] = "
        return [
            *lines,
            *([f"{c_type} v = {result};", *after, f"{store}v;"] if after else [f"{store}{result};"]),
        ]
    value = row.expression.format(v=kept)
    if after:
        return [*lines, *_block(loop, [f"{c_type} v = {value};", *after, "out[j] = v;"])]
    return [*lines, f"{loop} out[j] = {value};"]


def _combine(stage: Stage, dtype: str, into: str, value: str) -> str:
    return COMBINE[dtype][stage.combine].format(a=into, b=value)


def _element(composition: Composition, i: str, column: str = "") -> list[str]:
    """Load, chain, store of element `i`."""
    y = _second(composition, i, column)
    chain = _chain(composition, composition.before, y)
    return [f"{C_TYPES[composition.dtype]} v = x[{i}];", *chain, f"out[{i}] = v;"]


def _chain(composition: Composition, steps: tuple[Step, ...], y: str) -> list[str]:
    """One assignment to v per step."""
    return [f"v = {_expression(composition, step, 'v', y)};" for step in steps]


def _fused(composition: Composition, x: str, y: str) -> str:
    """The chain of an elementwise composition as one expression."""
    value = x
    for step in composition.before:
        value = _expression(composition, step, value if value == x else f"({value})", y)
    return value


def _expression(composition: Composition, step: Step, v: str, y: str) -> str:
    """A step in C, of the value `v` and the second operand `y`."""
    literal = {"f32": _float_literal, "i32": str}[composition.dtype]
    return step.operation.expression.format(v=v, a=y if step.constant is None else literal(step.constant))


def _second(composition: Composition, i: str, column: str = "") -> str:
    """The element of y that belongs to element `i` of x."""
    return f"y[{column or f'{i} % cols'}]" if composition.second == "column" else f"y[{i}]"


def _elements(composition: Composition) -> str:
    return "rows * cols" if composition.matrix else "n"


def _float_literal(number: str) -> str:
    """`0.5f`, `2.0f`, `-1.0f`."""
    return f"{number if '.' in number else number + '.0'}f"


def _block(header: str, body: list[str]) -> list[str]:
    return [header + " {", *("    " + line for line in body), "}"]


def _response(composition: Composition, launch: str, body: list[str], functions: list[str] = ()) -> str:
    """The fenced block: launch line, device functions, kernel."""
    signature = ", ".join(map(c_parameter, parameters(composition)))
    kernel = _block(f'extern "C" __global__ void kernel({signature})', body)
    return "\n".join(["```cuda", f"// launch: {launch}", *functions, *kernel, "```"])
