"""Preparing a module once, and launching its kernels over checked memory, many blocks in lock step."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from leap_jax.kernels.emulator import ir
from leap_jax.kernels.emulator.checks import Fault
from leap_jax.kernels.emulator.control import (
    active_mask_step,
    control,
    guarded_step,
    is_control,
    no_operation,
    runtime_call_step,
)
from leap_jax.kernels.emulator.copies import copy_step
from leap_jax.kernels.emulator.counters import LaunchCounters
from leap_jax.kernels.emulator.isa import UnsupportedOpcode, arithmetic
from leap_jax.kernels.emulator.matrices import matrix_step
from leap_jax.kernels.emulator.mbarriers import barrier_object_step
from leap_jax.kernels.emulator.memory import Allocation, GlobalMemory, Pointer, function_address, source_name
from leap_jax.kernels.emulator.memory_ops import conversion_step, memory_step
from leap_jax.kernels.emulator.operands import Layout, arithmetic_step, clock_step, flatten
from leap_jax.kernels.emulator.wave import IMPATIENCE, Control, Step, Wave

__all__ = ["Fault", "Limits", "Program", "UnsupportedOpcode", "launch", "prepare"]

_LANES_IN_FLIGHT = 1 << 15
_BYTES_IN_FLIGHT = 1 << 26  # of shared and local memory
_NO_OPERATIONS = frozenset({"membar", "fence", "prefetch", "prefetchu", "nanosleep", "pmevent", "discard"})
_DEVICE_SCOPES = frozenset({"gl", "gpu", "sys"})
_WORKSPACE, _WORKSPACE_BYTES = frozenset({"envreg1", "envreg2"}), 16
_SPINNING = frozenset({"volatile", "acquire", "relaxed", "cas", "exch"})


@dataclass(frozen=True, slots=True)
class Limits:
    """What a launch may use: instructions of any one thread, and wall-clock seconds."""

    instructions_per_thread: int
    seconds: float


@dataclass(frozen=True, slots=True)
class SharedVariable:
    """A block's shared array, and the symbols that name it."""

    symbols: tuple[str, ...]
    size_bytes: int


class Code:
    """One function, prepared: where its instructions begin, and what its frames hold.

    `named`: the functions and variables of the module that have an address.
    """

    def __init__(self, function: ir.Function, start: int, named: Iterable[str]):
        self.function, self.name, self.start = function, function.name, start
        self.callees: set[str] = set()
        self.param_sizes = {v.name: v.size_bytes for v in (*function.params, *function.returns)}
        self.param_sizes |= {v.name: v.size_bytes for v in function.variables if v.space == "param"}
        variables = {v.name for v in function.variables if v.space != "param"}
        own = {v.name for v in function.params} if function.is_entry else set()  # others have no address
        self.layout = Layout(function, {*named, *variables, *own})
        self._locals = {v.name: v.size_bytes for v in function.variables if v.space == "local"}

    @property
    def params(self) -> frozenset[str]:
        """Names in the frame's parameter space."""
        return frozenset(self.param_sizes)

    def initial_registers(self, wave: Wave, depth: int) -> list[np.ndarray]:
        """The slots of a new frame. Local variables get their memory here."""
        registers = list(self.layout.template)
        for slot, name, dtype in self.layout.specials:
            registers[slot] = wave.special(name).astype(dtype)
        addresses = {name: wave.local_variable(source_name(name), size) for name, size in self._locals.items() if size}
        for slot, symbol, dtype in self.layout.symbols:
            address = addresses.get(symbol.name)
            if address is None:
                address = wave.address_of(symbol.name)
            registers[slot] = np.array([(address + symbol.offset) & ((1 << dtype.itemsize * 8) - 1)], dtype)
        return registers

    def initial_params(self, wave: Wave, depth: int) -> dict[str, np.ndarray]:
        """Parameter space of a new frame: (1, bytes) for the kernel's own, else (lanes, bytes)."""
        given = wave.plan.params if depth == 0 else {}
        return {
            name: given[name] if name in given else np.zeros((wave.lanes, size), np.uint8)
            for name, size in self.param_sizes.items()
        }


class Program:
    """A module with every instruction resolved.

    Instructions of all functions share one index. steps, controls: what to do there, one of them; stops: the next
    control; lines: source lines; impatience: for a control, how much a loop through it tries the scheduler's patience.
    """

    def __init__(self, module: ir.Module):
        self.module = module
        self.codes: dict[str, Code] = {}
        self.functions = {name: function_address(i) for i, name in enumerate(module.functions)}
        self.entry_of_address = {address: name for name, address in self.functions.items()}
        self.steps: list[Step | None] = []
        self.controls: list[Control | None] = []
        self.stops: list[int] = []
        self.lines: list[int] = []
        self.impatience: list[int] = []
        self.call_returns: dict[int, tuple[str, ...]] = {}
        self._owners: list[Code] = []
        start = 0
        named = {v.name for v in module.variables.values() if v.space in ("global", "const", "shared")}
        named |= self.functions.keys()
        for function in module.functions.values():
            self.codes[function.name] = Code(function, start, named)
            start += len(function.instructions) + 1
        self.size = start
        for code in self.codes.values():
            self._prepare(code)

    def code_at(self, pc: int) -> Code:
        """The function that an instruction belongs to."""
        return self._owners[pc]

    def _prepare(self, code: Code) -> None:
        function = code.function
        instructions = [*function.instructions, _implicit_return(function)]
        uses = _register_uses(function)
        for pc, instruction in enumerate(instructions, code.start):
            try:
                step, run = self._resolve(instruction, code, pc, uses)
            except (ValueError, LookupError, AttributeError, TypeError, StopIteration) as error:
                raise UnsupportedOpcode(instruction) from error  # operands that its form does not have
            self.steps.append(step)
            self.controls.append(run)
            self.lines.append(instruction.line)
            self._owners.append(code)
            self.impatience.append(_impatience(instruction, function, pc - code.start))
        stop = 0
        stops = []
        for pc in reversed(range(code.start, code.start + len(instructions))):
            stop = pc if self.controls[pc] is not None else stop
            stops.append(stop)
        self.stops.extend(reversed(stops))

    def _resolve(
        self, instruction: ir.Instruction, code: Code, pc: int, uses: dict[str, int]
    ) -> tuple[Step | None, Control | None]:
        """What to do at an instruction: one of the two."""
        if is_control(instruction):
            if instruction.opcode == "call":
                code.callees |= self._callees(instruction)
            return None, control(instruction, code, self, code.layout, pc)
        step = _step(instruction, code, pc, uses)
        if instruction.guard is not None:
            step = guarded_step(step, code.layout.predicate(instruction.guard), instruction.guard_negated)
        return step, None

    def _callees(self, instruction: ir.Instruction) -> set[str]:
        """The functions that a call may reach."""
        callee = instruction.operands[1]
        if isinstance(callee, ir.Symbol):
            return {callee.name}
        return {name for name, function in self.module.functions.items() if not function.is_entry}

    def reachable(self, kernel: str) -> list[Code]:
        """The kernel and every function it may call."""
        found, todo = {}, [kernel]
        while todo:
            name = todo.pop()
            if name not in found:
                found[name] = self.codes[name]
                todo.extend(self.codes[name].callees)
        return list(found.values())


def prepare(module: ir.Module) -> Program:
    """Resolves every instruction of a module. Raises UnsupportedOpcode."""
    return Program(module)


def _step(instruction: ir.Instruction, code: Code, pc: int, uses: dict[str, int]) -> Step:
    opcode, layout = instruction.opcode, code.layout
    if opcode in ("ld", "ldu", "st", "atom", "red"):
        result = instruction.operands[0]
        used = not isinstance(result, ir.Register) or uses[result.name] > 1
        return memory_step(instruction, layout, pc, code.params, used)
    if opcode in ("cvta", "isspacep"):
        return conversion_step(instruction, layout)
    if opcode == "wmma":
        return matrix_step(instruction, layout, pc)
    if opcode == "cp":
        return copy_step(instruction, layout, pc)
    if opcode == "mbarrier":
        return barrier_object_step(instruction, layout, pc)
    if opcode in _NO_OPERATIONS:
        return no_operation
    if opcode == "activemask":
        return active_mask_step(instruction, layout)
    if opcode == "call":
        return runtime_call_step(instruction)
    if opcode == "mov":
        step = clock_step(instruction, layout)
        if step is not None:
            return step
    operation = arithmetic(instruction)
    if operation is None:
        raise UnsupportedOpcode(instruction)
    return arithmetic_step(instruction, operation, layout)


def _implicit_return(function: ir.Function) -> ir.Instruction:
    line = function.instructions[-1].line if function.instructions else 0
    return ir.Instruction("ret", (), (), None, False, line, "ret;")


def _register_uses(function: ir.Function) -> dict[str, int]:
    """How often each register is named."""
    uses: dict[str, int] = {}
    for instruction in function.instructions:
        names = [instruction.guard] if instruction.guard else []
        for operand in flatten(instruction.operands):
            if isinstance(operand, ir.Address):
                operand = operand.base
            if isinstance(operand, ir.Register):
                names.append(operand.name)
        for name in names:
            uses[name] = uses.get(name, 0) + 1
    return uses


def _impatience(instruction: ir.Instruction, function: ir.Function, position: int) -> int:
    """More than 1 for a backward branch around an access that may wait for other threads."""
    if instruction.opcode != "bra":
        return 1
    target = function.labels.get(instruction.operands[0].name, position)
    loop = function.instructions[target : position + 1]
    return IMPATIENCE if any(i.opcode == "mbarrier" or _SPINNING & set(i.modifiers) for i in loop) else 1


@dataclass
class LaunchPlan:
    """What all waves of a launch share."""

    program: Program
    memory: GlobalMemory
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    shared_variables: list[SharedVariable]
    params: dict[str, np.ndarray]  # name -> (1, bytes)
    limits: Limits
    deadline: float  # of time.perf_counter
    fences: bool  # the kernel orders its blocks with device-wide fences
    workspace: int = 0  # the address of what grid.sync() counts in; 0: not a cooperative launch
    counters: LaunchCounters = field(default_factory=LaunchCounters)
    launch_shadows: list[Allocation] = field(default_factory=list)  # global allocations tracked in this launch
    param_addresses: dict[str, int] = field(default_factory=dict)

    def param_address(self, name: str) -> int:
        """The address of a kernel parameter, which gets memory when it is first asked for. Raises KeyError."""
        if name not in self.param_addresses:
            raw = self.params[name].reshape(-1)
            allocation = self.memory.space.allocate(name, raw.size, writable=False, defined=True)
            allocation.data[: raw.size] = raw
            self.param_addresses[name] = allocation.generic
        return self.param_addresses[name]

    @property
    def threads(self) -> int:
        return int(np.prod(self.block))

    @property
    def blocks(self) -> int:
        return int(np.prod(self.grid))


def launch(
    program: Program,
    memory: GlobalMemory,
    kernel: str,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared_bytes: int,
    args: Sequence[np.generic | Pointer],
    *,
    limits: Limits,
) -> LaunchCounters:
    """Runs a kernel to its end. Raises Fault for what the kernel did wrong, ValueError for a wrong launch."""
    entry = program.codes.get(kernel)
    if entry is None or not entry.function.is_entry:
        raise ValueError(f"no kernel {kernel!r}")
    codes = program.reachable(kernel)
    plan = LaunchPlan(
        program,
        memory,
        kernel,
        grid,
        block,
        shared_bytes,
        _shared_variables(program, codes, shared_bytes),
        _param_bytes(entry.function, args),
        limits,
        time.perf_counter() + limits.seconds,
        any(_orders_blocks(i) for code in codes for i in code.function.instructions),
    )
    cooperative = any(name in _WORKSPACE for code in codes for _, name, _ in code.layout.specials)
    if cooperative:  # a kernel that asks for the grid's workspace is launched so that it has one
        workspace = memory.space.allocate("(grid workspace)", _WORKSPACE_BYTES, defined=True)
        plan.workspace = workspace.generic
    if program not in memory.modules:
        _load_module(program, memory)
    plan.counters.blocks, plan.counters.threads = plan.blocks, plan.blocks * plan.threads
    stack = sum(v.size_bytes for code in codes for v in code.function.variables if v.space == "local")
    per_block = sum(v.size_bytes for v in plan.shared_variables) + stack * plan.threads
    in_flight = max(1, min(_LANES_IN_FLIGHT // plan.threads, _BYTES_IN_FLIGHT // max(per_block, 1)))
    if cooperative:  # all blocks of the grid wait for each other
        in_flight = plan.blocks
    try:
        with np.errstate(all="ignore"):
            for first in range(0, plan.blocks, in_flight):
                Wave(plan, first, min(in_flight, plan.blocks - first)).run(entry)
    finally:
        for allocation in plan.launch_shadows:
            allocation.shadow = None
    for allocation in memory.space.slots.values():
        allocation.settle()
    return plan.counters


def _param_bytes(function: ir.Function, args: Sequence[np.generic | Pointer]) -> dict[str, np.ndarray]:
    if len(args) != len(function.params):
        raise ValueError(f"{function.name} takes {len(function.params)} arguments, got {len(args)}")
    params = {}
    for variable, value in zip(function.params, args, strict=True):
        raw = np.frombuffer(
            value.address.to_bytes(8, "little") if isinstance(value, Pointer) else value.tobytes(), np.uint8
        )
        if raw.size != variable.size_bytes:
            raise ValueError(f"{variable.name} holds {variable.size_bytes} bytes, got {raw.size}")
        params[variable.name] = raw.reshape(1, -1)
    return params


def _shared_variables(program: Program, codes: list[Code], shared_bytes: int) -> list[SharedVariable]:
    """Shared variables that the kernel may use. Those without a size all name the one dynamic array."""
    own = {v.name: v for code in codes for v in code.function.variables if v.space == "shared"}
    named = {symbol.name for code in codes for _, symbol, _ in code.layout.symbols}
    module = {v.name: v for v in program.module.variables.values() if v.space == "shared" and v.name in named}
    sized, dynamic = [], []
    for variable in (*own.values(), *module.values()):
        if variable.size_bytes:
            sized.append(SharedVariable((variable.name,), variable.size_bytes))
        else:
            dynamic.append(variable.name)
    return [*sized, SharedVariable(tuple(dynamic), shared_bytes)] if dynamic else sized


def _orders_blocks(instruction: ir.Instruction) -> bool:
    """Device-wide fences, and accesses with acquire or release at that scope."""
    modifiers = set(instruction.modifiers)
    if instruction.opcode in ("membar", "fence"):
        return bool(modifiers & _DEVICE_SCOPES)
    return bool(modifiers & {"acquire", "release", "acq_rel"}) and bool(modifiers & _DEVICE_SCOPES)


def _load_module(program: Program, memory: GlobalMemory) -> None:
    """Places the module's own variables, with their initial values."""
    addresses = memory.modules[program] = {}
    variables = [v for v in program.module.variables.values() if v.space in ("global", "const")]
    for code in program.codes.values():
        variables += [v for v in code.function.variables if v.space in ("global", "const")]
    placed = []
    for variable in variables:
        allocation = memory.space.allocate(
            source_name(variable.name),
            variable.size_bytes,
            max(variable.element_bits // 8, 1),
            writable=variable.space == "global",
            defined=True,
        )
        addresses[variable.name] = allocation.generic
        placed.append((variable, allocation))
    for variable, allocation in placed:
        allocation.data[: len(variable.initial)] = np.frombuffer(variable.initial, np.uint8)
        for offset, symbol in variable.relocations:
            address = (addresses.get(symbol.name) or program.functions.get(symbol.name, 0)) + symbol.offset
            allocation.data[offset : offset + 8] = np.frombuffer(address.to_bytes(8, "little"), np.uint8)
