"""The instructions that decide where lanes go: branches, calls, exits, barriers and warp operations.

A control is `control(frame, lanes, place) -> next instruction index`, or None once it has put the lanes elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from leap_jax.kernels.emulator import ir
from leap_jax.kernels.emulator.isa import UnsupportedOpcode
from leap_jax.kernels.emulator.matrices import matrix_control
from leap_jax.kernels.emulator.operands import Layout, Source, flatten
from leap_jax.kernels.emulator.warp import active_mask, warp_operation
from leap_jax.kernels.emulator.wave import MAX_DEPTH

if TYPE_CHECKING:
    from leap_jax.kernels.emulator.machine import Code, Program
    from leap_jax.kernels.emulator.wave import Control, Frame, Lanes, Step


def is_control(instruction: ir.Instruction) -> bool:
    """Whether the instruction may send lanes elsewhere or make them wait."""
    if instruction.opcode == "call":
        callee = instruction.operands[1]
        return not (isinstance(callee, ir.Symbol) and callee.name in RUNTIME_CALLS)
    if instruction.opcode == "wmma":
        return "mma" in instruction.modifiers
    return instruction.opcode in _CONTROLS


def control(instruction: ir.Instruction, code: Code, program: Program, layout: Layout, pc: int) -> Control:
    """The control of an instruction at index `pc`, its guard included. Raises UnsupportedOpcode."""
    if instruction.opcode == "bra":
        return _branch(instruction, code, program, layout, pc)
    run = _CONTROLS.get(instruction.opcode, _matrix)(instruction, code, program, layout, pc)
    if instruction.guard is None:
        return run
    slot, negated = layout.predicate(instruction.guard), instruction.guard_negated

    def guarded(frame: Frame, lanes: Lanes, place: int) -> int | None:
        chosen, rest = parted(frame, lanes, slot, negated)
        if chosen is None:
            return pc + 1
        if rest is None:
            return run(frame, lanes, place)
        frame.wave.put(place + 1, rest)
        following = run(frame, frame.wave.lanes_of(chosen), place)
        if following is not None:
            frame.wave.put(place - pc + following, chosen)
        return None

    return guarded


def guarded_step(step: Step, slot: int, negated: bool) -> Step:
    """A step for those lanes only whose guard holds."""

    def run(frame: Frame, lanes: Lanes) -> None:
        chosen, rest = parted(frame, lanes, slot, negated)
        if rest is None:
            step(frame, lanes)
        elif chosen is not None:
            step(frame, frame.wave.lanes_of(chosen))

    return run


def parted(frame: Frame, lanes: Lanes, slot: int, negated: bool) -> tuple[np.ndarray | None, np.ndarray | None]:
    """(lanes whose guard holds, the others)."""
    true, false = lanes.split(frame.registers[slot])
    return (false, true) if negated else (true, false)


def _branch(instruction: ir.Instruction, code: Code, program: Program, layout: Layout, pc: int) -> Control:
    target = _target(instruction, code, instruction.operands[0])
    if instruction.guard is None:
        return lambda frame, lanes, place: target
    slot, negated = layout.predicate(instruction.guard), instruction.guard_negated
    to_exit = code.function.is_entry and _is_exit(code, target)

    def branch(frame: Frame, lanes: Lanes, place: int) -> int | None:
        taken, rest = parted(frame, lanes, slot, negated)
        if rest is None:
            return target
        if taken is None:
            return pc + 1
        wave = frame.wave
        if to_exit:
            wave.leave(taken)
        else:
            wave.put(place - pc + target, taken)
        wave.put(place + 1, rest)
        return None

    return branch


def _target(instruction: ir.Instruction, code: Code, label: ir.Operand | None) -> int:
    if not isinstance(label, ir.Symbol) or label.name not in code.function.labels:
        raise UnsupportedOpcode(instruction)
    return code.start + code.function.labels[label.name]


def _is_exit(code: Code, pc: int) -> bool:
    position = pc - code.start
    if position >= len(code.function.instructions):
        return True
    instruction = code.function.instructions[position]
    return instruction.opcode in ("ret", "exit") and instruction.guard is None


def _indexed_branch(instruction: ir.Instruction, code: Code, program: Program, layout: Layout, pc: int) -> Control:
    if "idx" not in instruction.modifiers:
        raise UnsupportedOpcode(instruction)
    index, table = instruction.operands
    labels = code.function.branch_targets.get(table.name, ())
    targets = np.array([_target(instruction, code, ir.Symbol(name)) for name in labels], np.int64)
    source = layout.source(index, "u32", instruction)
    if not targets.size:
        raise UnsupportedOpcode(instruction)

    def branch(frame: Frame, lanes: Lanes, place: int) -> int | None:
        chosen = source.read(frame, lanes)
        if int(chosen.max()) >= targets.size:
            raise frame.wave.fault(
                "trap", "jump table index out of range", instruction.line, lanes, int(chosen.argmax())
            )
        goals = targets[chosen]
        if (goals == goals[0]).all():
            return int(goals[0])
        for goal in np.unique(goals):
            frame.wave.put(place - pc + int(goal), lanes.index[goals == goal])
        return None

    return branch


def _exit(instruction: ir.Instruction, code: Code, program: Program, layout: Layout, pc: int) -> Control:
    def leave(frame: Frame, lanes: Lanes, place: int) -> None:
        frame.wave.leave(lanes.index)

    return leave


def _return(instruction: ir.Instruction, code: Code, program: Program, layout: Layout, pc: int) -> Control:
    if code.function.is_entry:
        return _exit(instruction, code, program, layout, pc)

    def go_back(frame: Frame, lanes: Lanes, place: int) -> None:
        wave = frame.wave
        places = frame.return_place[lanes.index]
        for back in np.unique(places):
            index = lanes.index[places == back]
            call = (int(back) - 1) % program.size
            caller = wave.frame(frame.depth - 1, program.code_at(call))
            for here, there in zip(code.function.returns, program.call_returns[call], strict=True):
                caller.params[there][index, : here.size_bytes] = frame.params[here.name][index]
            wave.put(int(back), index)

    return go_back


def _call(instruction: ir.Instruction, code: Code, program: Program, layout: Layout, pc: int) -> Control:
    returns, name, arguments = instruction.operands
    if not all(isinstance(o, ir.Symbol) for o in (*returns.elements, *arguments.elements)):
        raise UnsupportedOpcode(instruction)
    program.call_returns[pc] = tuple(o.name for o in returns.elements)

    def enter(frame: Frame, lanes: Lanes, place: int, callee: Code) -> None:
        wave, depth = frame.wave, frame.depth + 1
        passed = zip(arguments.elements, callee.function.params, strict=True)
        if depth > MAX_DEPTH:
            raise wave.fault("stack", f"more than {MAX_DEPTH} nested calls, in {callee.name}", instruction.line, lanes)
        inner = wave.frame(depth, callee)
        index = lanes.index
        for argument, parameter in passed:
            inner.params[parameter.name][index] = frame.params[argument.name][index, : parameter.size_bytes]
        inner.return_place[index] = place + 1
        wave.put((MAX_DEPTH - depth) * program.size + callee.start, index)

    if isinstance(name, ir.Symbol):
        callee = program.codes.get(name.name)
        if callee is None or not _fits(callee.function, code, returns, arguments):
            raise UnsupportedOpcode(instruction)
        return lambda frame, lanes, place: enter(frame, lanes, place, callee)
    pointer = layout.source(name, "u64", instruction)

    def call_each(frame: Frame, lanes: Lanes, place: int) -> None:
        """Lanes part by where their pointers lead."""
        targets = np.broadcast_to(pointer.read(frame, lanes), lanes.count)
        for address in np.unique(targets):
            part = lanes.subset(targets == address)
            callee = program.codes.get(program.entry_of_address.get(int(address), ""))
            if callee is None or not _fits(callee.function, code, returns, arguments):
                text = "null pointer" if address == 0 else f"address {int(address):#x}"
                raise frame.wave.fault(
                    "memory_fault", f"invalid call: {text} is not a function of that type", instruction.line, part
                )
            enter(frame, part, place, callee)

    return call_each


def _fits(function: ir.Function, caller: Code, returns: ir.Vector, arguments: ir.Vector) -> bool:
    """Whether a call passes and takes the values that the function has."""
    given = [caller.param_sizes.get(o.name, -1) for o in (*returns.elements, *arguments.elements)]
    wanted = [v.size_bytes for v in (*function.returns, *function.params)]
    if function.is_entry or len(returns.elements) != len(function.returns) or len(given) != len(wanted):
        return False
    return all(g >= w for g, w in zip(given, wanted, strict=True))


def _trap(instruction: ir.Instruction, code: Code, program: Program, layout: Layout, pc: int) -> Control:
    def trap(frame: Frame, lanes: Lanes, place: int) -> None:
        raise frame.wave.fault("trap", f"the kernel ran a {instruction.opcode} instruction", instruction.line, lanes)

    return trap


# Barriers and warp operations


def _barrier(instruction: ir.Instruction, code: Code, program: Program, layout: Layout, pc: int) -> Control:
    modifiers = instruction.modifiers
    if "warp" in modifiers:
        return _warp(instruction, code, program, layout, pc)
    kind = next((m for m in modifiers if m in ("sync", "red", "arrive")), None)
    operands = list(instruction.operands)
    reduction, vote = None, None
    if kind is None or "cluster" in modifiers:
        raise UnsupportedOpcode(instruction)
    if kind == "red":
        operation = next(m for m in modifiers if m in ("popc", "and", "or"))
        target = layout.destination(operands.pop(0), "u32" if operation == "popc" else "pred", instruction)
        vote = layout.source(operands.pop(), "pred", instruction)
        reduction = target.slot, operation
    barrier = layout.source(operands[0], "u32", instruction)
    threads = layout.source(operands[1], "u32", instruction) if len(operands) > 1 else None
    aligned = instruction.opcode == "bar" or "aligned" in modifiers

    def wait(frame: Frame, lanes: Lanes, place: int) -> int | None:
        wave = frame.wave
        which = _one_value(frame, lanes, barrier, instruction)
        count = _one_value(frame, lanes, threads, instruction) if threads is not None else 0
        if which >= 16 or count % 32:
            raise wave.fault("barrier", f"invalid barrier {which} with {count} threads", instruction.line, lanes)
        if kind == "arrive":
            wave.barriers.arrive(lanes, which)
            return pc + 1
        votes = vote.read(frame, lanes) if vote is not None else None
        if lanes.count == wave.alive_count and count == 0:
            wave.barriers.pass_all(frame, lanes, reduction, votes)
            return pc + 1
        result = (frame, *reduction) if reduction is not None else None
        wave.barriers.wait(lanes, place + 1, which, count, aligned, result, votes)
        return None

    return wait


def _one_value(frame: Frame, lanes: Lanes, source: Source, instruction: ir.Instruction) -> int:
    values = source.read(frame, lanes)
    if values.size > 1 and (values != values[0]).any():
        raise frame.wave.fault("barrier", "threads name different barriers in one instruction", instruction.line, lanes)
    return int(values[0])


def _warp(instruction: ir.Instruction, code: Code, program: Program, layout: Layout, pc: int) -> Control:
    operation = warp_operation(instruction)
    operands = list(instruction.operands)
    results = [] if instruction.opcode == "bar" else flatten([operands.pop(0)])
    mask = layout.source(operands.pop(), "u32", instruction)
    sources = [layout.source(o, c, instruction) for o, c in zip(operands, operation.sources, strict=True)]
    codes = {"shfl": ("b32", "pred"), "match": ("b32", "pred"), "redux": ("b32",), "elect": ("b32", "pred")}
    kinds = codes.get(instruction.opcode) or (("b32",) if "ballot" in instruction.modifiers else ("pred",))
    if instruction.opcode == "match" and "any" in instruction.modifiers:
        kinds = kinds[:1]
    if instruction.opcode == "bar":
        kinds = ()
    targets = [layout.destination(o, k, instruction) for o, k in zip(results, kinds, strict=False)]
    slots = [None if target is None else target.slot for target in targets]
    slots += [None] * (len(kinds) - len(slots))

    def meet(frame: Frame, lanes: Lanes, place: int) -> int | None:
        values = [source.read(frame, lanes) for source in sources]
        masks = mask.read(frame, lanes)
        done = frame.wave.meetings.meet(operation, frame, lanes, place, values, masks, slots, instruction.line)
        return pc + 1 if done else None

    return meet


def _matrix(instruction: ir.Instruction, code: Code, program: Program, layout: Layout, pc: int) -> Control:
    return matrix_control(instruction, layout, pc)


def active_mask_step(instruction: ir.Instruction, layout: Layout) -> Step:
    """activemask."""
    target = layout.destination(instruction.operands[0], "b32", instruction)

    def step(frame: Frame, lanes: Lanes) -> None:
        frame.write(target.slot, active_mask(lanes), lanes)

    return step


# Calls into the runtime: printf has no effect, a failed assertion is a fault


def runtime_call_step(instruction: ir.Instruction) -> Step:
    """The step of a call to a function of RUNTIME_CALLS."""
    arguments = [o.name for o in instruction.operands[2].elements]
    if instruction.operands[1].name == "vprintf":
        return no_operation

    def failed(frame: Frame, lanes: Lanes) -> None:
        lane = int(lanes.index[0])
        message, line = (
            int.from_bytes(frame.params[name][lane].tobytes(), "little") for name in (arguments[0], arguments[2])
        )
        text = _string(frame, message)
        raise frame.wave.fault("trap", f"assertion `{text}` failed", line or instruction.line, lanes)

    return failed


def _string(frame: Frame, address: int) -> str:
    allocation = frame.wave.find("generic", address)
    if allocation is None:
        return "?"
    text = allocation.data[address - allocation.generic : allocation.size].tobytes()
    return text.split(b"\0")[0].decode("utf-8", "replace")[:200]


def no_operation(frame: Frame, lanes: Lanes) -> None:
    """Fences, prefetches, sleeps: nothing to do in lock step."""


RUNTIME_CALLS = frozenset({"vprintf", "__assertfail"})
_CONTROLS = {
    "bra": _branch,
    "brx": _indexed_branch,
    "call": _call,
    "ret": _return,
    "exit": _exit,
    "trap": _trap,
    "brkpt": _trap,
    "bar": _barrier,
    "barrier": _barrier,
    "shfl": _warp,
    "vote": _warp,
    "match": _warp,
    "redux": _warp,
    "elect": _warp,
    "mma": _matrix,
    "ldmatrix": _matrix,
    "stmatrix": _matrix,
    "movmatrix": _matrix,
}
