"""Model text -> CUDA source and launch plan.

A response holds one fenced block: a whole translation unit whose comments say how its kernels are launched.

    // scratch: partial float ceil_div(n, 1024)
    // launch: reduce_partial grid=(ceil_div(n, 1024)) block=(256) shared=1024 args=(x, partial, n)
    // launch: reduce_final grid=(1) block=(256) args=(partial, y, ceil_div(n, 1024))

`parse_answer` reads the text; `plan` gives every launch its numbers at one shape and checks them against the
kernels the compiler made. Expressions are integers over the task's integer scalars (see `expressions`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from leap_jax.kernels.devices import DEVICES, WARP_THREADS
from leap_jax.kernels.expressions import ExpressionError, evaluate
from leap_jax.kernels.fences import code_blocks
from leap_jax.kernels.includes import blank
from leap_jax.kernels.task import C_TYPES, NUMPY_DTYPES, Scalars, Task
from leap_jax.kernels.verdict import KernelResources

MAX_SOURCE_BYTES = 64 * 1024
MAX_LAUNCHES = 16
MAX_SCRATCH = 8
MAX_SCRATCH_BYTES = 64 * 1024**2
TARGET = DEVICES["h100"]  # of the architecture that the compiler builds for
MAX_THREADS = TARGET.threads_per_block
MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_SHARED_BYTES = TARGET.shared_per_block
MAX_REGISTERS = TARGET.registers_per_multiprocessor  # of one block as well

_DTYPE_OF_C = {c_type: dtype for dtype, c_type in C_TYPES.items()} | {
    "unsigned": "u32",
    "uint32_t": "u32",
    "int32_t": "i32",
    "int64_t": "i64",
    "uint64_t": "u64",
}
_LAUNCH = re.compile(r"^[ \t]*//[ \t]*launch[ \t]*:(.*)$", re.MULTILINE)
_SCRATCH = re.compile(r"^[ \t]*//[ \t]*scratch[ \t]*:(.*)$", re.MULTILINE)
_KEY = re.compile(r"\b(grid|block|shared|args)\s*=")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_CALLED = re.compile(r"\b([A-Za-z_]\w*)\s*\(", re.ASCII)
_ATTRIBUTES = {"__launch_bounds__", "__attribute__", "__cluster_dims__", "__maxnreg__"}


class AnswerError(ValueError):
    """The response holds no answer that can be read; one clear line."""


class LaunchError(ValueError):
    """The answer's launch plan cannot be carried out at this shape; one clear line."""


@dataclass(frozen=True)
class Launch:
    """One `// launch:` line: texts of expressions. `args` None stands for the task's own parameters.

    `line` and `columns` (of the items of each key) say where it stands in the source, from 1.
    """

    kernel: str
    grid: tuple[str, str, str]
    block: tuple[str, str, str]
    shared: str
    args: tuple[str, ...] | None
    line: int = field(default=0, compare=False)
    columns: Mapping[str, tuple[int, ...]] = field(default_factory=dict, compare=False)

    def place(self, key: str, index: int = 0) -> str:
        """`line 2, column 17: ` of an item, or of the line where the item has no text."""
        columns = self.columns.get(key, ())
        return f"line {self.line}, column {columns[index] if index < len(columns) else 1}: "


@dataclass(frozen=True)
class Scratch:
    """One `// scratch:` line: a device buffer of `size` elements of a task dtype ("f32")."""

    name: str
    dtype: str
    size: str


@dataclass(frozen=True)
class Answer:
    source: str
    launches: tuple[Launch, ...]
    scratch: tuple[Scratch, ...]


@dataclass(frozen=True)
class ScalarArgument:
    """A value passed to a kernel, of a task dtype."""

    dtype: str
    value: int | float


Argument = str | ScalarArgument  # a str names a buffer: an in or out param, or scratch


@dataclass(frozen=True)
class PlannedLaunch:
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    args: tuple[Argument, ...]

    @property
    def threads(self) -> int:
        return math.prod(self.grid) * math.prod(self.block)


def extract_source(response: str) -> str:
    """The text of the last closed block with a kernel (else of the last block). Raises AnswerError.

    The last one, because a response often holds a draft and then what has become of it; blocks without a kernel
    (a shell line, an excerpt) compete with none. A last kernel without launch lines after one that has them is no
    choice: to run the draft would judge what its author has replaced, and nothing says how to launch the other.
    """
    blocks, left_open = code_blocks(response.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))
    *drafts, source = [None, *(block for block in blocks if "__global__" in block)]
    if source is not None and not _LAUNCH.search(source) and any(_LAUNCH.search(draft) for draft in drafts[1:]):
        raise AnswerError("two blocks compete: the last kernel has no launch line, an earlier block has one")
    if source is None and left_open:
        raise AnswerError("the code block is not closed")
    if source is None and not blocks:
        raise AnswerError("no fenced code block")
    source = (blocks[-1] if source is None else source).removeprefix("\ufeff")
    if not source.strip():
        raise AnswerError("the code block is empty")
    if "\0" in source:
        raise AnswerError("the code holds a NUL character")
    if len(source.encode("utf-8", "replace")) > MAX_SOURCE_BYTES:
        raise AnswerError(f"the code is longer than {MAX_SOURCE_BYTES} bytes")
    return source


def parse_answer(response: str, task: Task) -> Answer:
    """Source, launches and scratch buffers of a response. Raises AnswerError."""
    source = extract_source(response)
    scratch = tuple(_parse_scratch(match) for match in _SCRATCH.finditer(source))
    names = [p.name for p in task.params] + [s.name for s in scratch]
    for s in scratch:
        if names.count(s.name) > 1:
            raise AnswerError(f"scratch name {s.name!r} is taken")
    kernels = kernel_names(source)
    launches = tuple(_parse_launch(match, kernels) for match in _LAUNCH.finditer(source))
    if not launches:
        raise AnswerError("no launch line")
    if len(launches) > MAX_LAUNCHES or len(scratch) > MAX_SCRATCH:
        raise AnswerError(f"more than {MAX_LAUNCHES} launches or {MAX_SCRATCH} scratch buffers")
    return Answer(source, launches, scratch)


def kernel_names(source: str) -> list[str]:
    """The `__global__` functions of a source, in order, each once."""
    headers = (re.split("[;{]", text, maxsplit=1)[0] for text in blank(source).split("__global__")[1:])
    names = (next((n for n in _CALLED.findall(h) if n not in _ATTRIBUTES), "") for h in headers)
    return list(dict.fromkeys(filter(None, names)))


def scratch_sizes(answer: Answer, scalars: Scalars) -> dict[str, int]:
    """Element count of every scratch buffer at one shape. Raises LaunchError."""
    sizes = {s.name: _value(s.size, scalars, f"scratch {s.name}") for s in answer.scratch}
    for name, size in sizes.items():
        if size < 1:
            raise LaunchError(f"scratch {name} has {size} elements")
    total = sum(sizes[s.name] * NUMPY_DTYPES[s.dtype].itemsize for s in answer.scratch)
    if total > MAX_SCRATCH_BYTES:
        raise LaunchError(f"scratch buffers take {total} bytes, at most {MAX_SCRATCH_BYTES}")
    return sizes


def plan(
    answer: Answer, task: Task, scalars: Scalars, signatures: Mapping[str, tuple[int, ...]]
) -> tuple[PlannedLaunch, ...]:
    """The launches at one shape; `signatures`: kernel -> its parameters' bytes. Raises LaunchError."""
    return tuple(_plan_launch(launch, answer, task, scalars, signatures) for launch in answer.launches)


def check_resources(launch: PlannedLaunch, resources: KernelResources) -> None:
    """Registers and shared memory of one block against the device's limits. Raises LaunchError."""
    warps = -(-math.prod(launch.block) // WARP_THREADS)
    registers = warps * -(-resources.registers * WARP_THREADS // TARGET.register_unit) * TARGET.register_unit
    if registers > MAX_REGISTERS:
        raise LaunchError(
            f"{launch.kernel}: {resources.registers} registers x {math.prod(launch.block)} threads "
            f"exceed {MAX_REGISTERS}"
        )
    shared = launch.shared_bytes + resources.static_shared_bytes
    if shared > MAX_SHARED_BYTES:
        raise LaunchError(f"{launch.kernel}: {shared} bytes of shared memory, at most {MAX_SHARED_BYTES}")


def check_launch_bounds(launch: PlannedLaunch, directives: Mapping[str, tuple[int, ...]]) -> None:
    """The block against `__launch_bounds__` (PTX .maxntid) and .reqntid. Raises LaunchError."""
    threads = math.prod(launch.block)
    most = math.prod(directives.get("maxntid", (MAX_THREADS,)))
    if threads > most:
        raise LaunchError(f"{launch.kernel}: block has {threads} threads, __launch_bounds__ allows {most}")
    required = (*directives.get("reqntid", launch.block), 1, 1)[:3]
    if required != launch.block:
        raise LaunchError(f"{launch.kernel}: block is {launch.block}, the kernel requires {required}")


def check_types(launch: Launch, planned: PlannedLaunch, floating: Sequence[bool]) -> None:
    """The kind of each argument against its parameter's; `plan` has seen to the sizes. Raises LaunchError.

    floating: whether the parameters are floating-point numbers, all that PTX tells apart among those of one size.
    """
    for i, (argument, is_floating) in enumerate(zip(planned.args, floating, strict=True)):
        given = C_TYPES[argument.dtype] if isinstance(argument, ScalarArgument) else f"the pointer {argument}"
        if is_floating != (given in ("float", "double")):
            kind = "a floating-point number" if is_floating else "an integer or a pointer"
            place = launch.place("args", i)
            raise LaunchError(f"{place}{launch.kernel}: parameter {i + 1} is {kind}, {given} is passed")


def resolve_kernel(name: str, compiled: Collection[str]) -> str:
    """The compiled name of the kernel `name`: a single one may lack `extern "C"`. Raises LaunchError."""
    if name in compiled:
        return name
    mangled = [other for other in compiled if other.startswith("_Z") and f"{len(name)}{name}" in other]
    if mangled and len(compiled) == 1:
        return mangled[0]
    hint = ': extern "C" is missing' if mangled else f" (compiled: {', '.join(compiled) or 'none'})"
    raise LaunchError(f"no kernel {_shown(name)}{hint}")


def _parse_scratch(match: re.Match[str]) -> Scratch:
    text = match[1]
    words = text.split()
    for count in (3, 2, 1):  # "unsigned long long" before "unsigned"
        dtype = _DTYPE_OF_C.get(" ".join(words[1 : 1 + count]))
        size = " ".join(words[1 + count :])
        if dtype and size and _NAME.fullmatch(words[0]):
            return Scratch(words[0], dtype, size)
    raise AnswerError(f"{_place(match, 0)}scratch line {_shown(text)} is not: name type size")


def _parse_launch(match: re.Match[str], kernels: list[str]) -> Launch:
    text = match[1]
    keys = list(_KEY.finditer(text))
    name = text[: keys[0].start()].strip() if keys else text.strip()
    values: dict[str, tuple[str, ...]] = {}
    columns: dict[str, tuple[int, ...]] = {}
    ends = [key.start() for key in keys[1:]] + [len(text)]
    for key, end in zip(keys, ends, strict=False):
        if key[1] in values:
            raise AnswerError(f"{_place(match, key.start())}launch line has {key[1]} twice")
        try:
            items = _items(text[key.end() : end])
        except ValueError as error:
            raise AnswerError(f"{_place(match, key.end())}launch line has {error} in {key[1]}") from None
        values[key[1]] = tuple(item for _, item in items)
        columns[key[1]] = tuple(_column(match, key.end() + offset) for offset, _ in items)
    for key in ("grid", "block"):
        if not 1 <= len(values.get(key, ())) <= 3:
            raise AnswerError(f"{_place(match, 0)}launch line needs {key}=(x), (x, y) or (x, y, z)")
    if len(values.get("shared", ("0",))) != 1:
        raise AnswerError(f"{_place(match, 0)}launch line takes one value for shared")
    if name and not _NAME.fullmatch(name):
        raise AnswerError(f"{_place(match, 0)}launch line names no kernel: {_shown(name)}")
    if not name and len(kernels) != 1:
        raise AnswerError(
            f"{_place(match, 0)}launch line must name its kernel: the code has {len(kernels)} __global__ kernels"
        )
    return Launch(
        kernel=name or kernels[0],
        grid=_triple(values["grid"]),
        block=_triple(values["block"]),
        shared=values.get("shared", ("0",))[0],
        args=values.get("args"),
        line=_line(match),
        columns=columns,
    )


def _line(match: re.Match[str]) -> int:
    return match.string.count("\n", 0, match.start(1)) + 1


def _column(match: re.Match[str], offset: int) -> int:
    """The column, from 1, of the text `offset` characters into the matched line's content."""
    return match.start(1) + offset - match.string.rfind("\n", 0, match.start(1))


def _place(match: re.Match[str], offset: int) -> str:
    return f"line {_line(match)}, column {_column(match, offset)}: "


def _items(text: str) -> list[tuple[int, str]]:
    """`(a, f(b, c))` -> "a" and "f(b, c)" with their offsets; the outer parentheses may be missing.

    Raises ValueError with what is wrong.
    """
    text = text.rstrip().rstrip(",;").rstrip()
    start = len(text) - len(text.lstrip())
    depth, enclosed = 0, text.startswith("(", start)
    for i in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth < 0:
            break
        if depth == 0 and i < len(text) - 1:
            enclosed = False
    if depth != 0:
        raise ValueError("unbalanced parentheses")
    if enclosed:
        start, text = start + 1, text[:-1]
    items = []
    for i in range(start, len(text) + 1):
        character = text[i : i + 1] or ","
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            item = text[start:i]
            items.append((start + len(item) - len(item.lstrip()), item.strip()))
            start = i + 1
    if [item for _, item in items] == [""]:
        return []
    if any(not item for _, item in items):
        raise ValueError("an empty value")
    return items


def _triple(values: tuple[str, ...]) -> tuple[str, str, str]:
    x, y, z = (*values, "1", "1")[:3]
    return x, y, z


def _plan_launch(
    launch: Launch,
    answer: Answer,
    task: Task,
    scalars: Scalars,
    signatures: Mapping[str, tuple[int, ...]],
) -> PlannedLaunch:
    kernel = resolve_kernel(launch.kernel, signatures)
    grid = _dimensions(launch, "grid", MAX_GRID, scalars)
    block = _dimensions(launch, "block", MAX_BLOCK, scalars)
    if math.prod(block) > MAX_THREADS:
        raise LaunchError(
            f"{launch.place('block')}{launch.kernel}: block has {math.prod(block)} threads, at most {MAX_THREADS}"
        )
    shared_bytes = _value(launch.shared, scalars, f"{launch.place('shared')}{launch.kernel}: shared")
    if not 0 <= shared_bytes <= MAX_SHARED_BYTES:
        place = launch.place("shared")
        raise LaunchError(f"{place}{launch.kernel}: {shared_bytes} bytes of shared memory, at most {MAX_SHARED_BYTES}")
    given = launch.args if launch.args is not None else tuple(p.name for p in task.params)
    sizes = signatures[kernel]
    if len(given) != len(sizes):
        raise LaunchError(f"{launch.place('args')}{launch.kernel}: takes {len(sizes)} parameters, {len(given)} given")
    args = tuple(
        _argument(text, size, answer, task, scalars, f"{launch.place('args', i)}{launch.kernel}: parameter {i + 1}")
        for i, (text, size) in enumerate(zip(given, sizes, strict=True))
    )
    return PlannedLaunch(kernel, grid, block, shared_bytes, args)


def _dimensions(launch: Launch, key: str, limits: tuple[int, int, int], scalars: Scalars) -> tuple[int, int, int]:
    values = []
    for i, (text, limit) in enumerate(zip(getattr(launch, key), limits, strict=True)):
        what = f"{launch.place(key, i)}{launch.kernel}: {key}"
        value = _value(text, scalars, what)
        if not 1 <= value <= limit:
            raise LaunchError(f"{what} {'xyz'[i]} is {value}, must be 1 to {limit}")
        values.append(value)
    x, y, z = values
    return x, y, z


def _argument(text: str, size_bytes: int, answer: Answer, task: Task, scalars: Scalars, what: str) -> Argument:
    params = {p.name: p for p in task.params}
    if text in (s.name for s in answer.scratch) or (text in params and params[text].role != "scalar"):
        if size_bytes != 8:
            raise LaunchError(f"{what} takes {size_bytes} bytes, {text} is a pointer of 8")
        return text
    if text in params:
        dtype = params[text].dtype
        own_bytes = NUMPY_DTYPES[dtype].itemsize
        if own_bytes != size_bytes:
            raise LaunchError(f"{what} takes {size_bytes} bytes, {text} is {C_TYPES[dtype]} of {own_bytes}")
        return ScalarArgument(dtype, scalars[text])
    dtype = {4: "i32", 8: "i64"}.get(size_bytes)
    value = _value(text, scalars, what)
    if dtype is None:
        raise LaunchError(f"{what} takes {size_bytes} bytes: only int and long long take an expression")
    if dtype == "i32" and not -(2**31) <= value < 2**31:
        raise LaunchError(f"{what}: {value} does not fit in 4 bytes")
    return ScalarArgument(dtype, value)


def _value(text: str, scalars: Scalars, what: str) -> int:
    try:
        return evaluate(text, {name: value for name, value in scalars.items() if isinstance(value, int)})
    except ExpressionError as error:
        raise LaunchError(f"{what}: {error}") from None


def _shown(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
