"""What a composed task computes: a chain of operations, perhaps with one along the rows in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from leap_jax.kernels.operations import Operation, RowOperation
from leap_jax.kernels.task import Param


@dataclass(frozen=True)
class Step:
    """An operation of a chain and its constant, as written in a prompt."""

    operation: Operation
    constant: str | None = None

    @property
    def phrase(self) -> str:
        return self.operation.phrase.format(a=self.constant)


@dataclass(frozen=True)
class Composition:
    """`before` on every x, then `row` along each row, then `after`.

    matrix: x is (rows, cols), else (n). second: what y is: `none`, `same` (x's shape) or `column` (cols).
    """

    seed: int
    dtype: str
    matrix: bool
    second: str
    before: tuple[Step, ...]
    row: RowOperation | None = None
    after: tuple[Step, ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.before + self.after

    @property
    def reduces(self) -> bool:
        """Whether the result has one value per row."""
        return self.row is not None and self.row.expression is None

    @property
    def level(self) -> int:
        """The number of operations, the row operation included."""
        return len(self.steps) + (self.row is not None)


def evaluate(composition: Composition, xp: Any, x: Any, y: Any = None, **_: Any) -> Any:
    """The result in the dtype of x; x is (n) or (rows, cols), y of that shape or (cols)."""
    v = apply_steps(composition.before, xp, x, y)
    if composition.row:
        v = composition.row.reference(xp, v)
    v = apply_steps(composition.after, xp, v, y)
    return v[..., 0] if composition.reduces else v


def apply_steps(steps: tuple[Step, ...], xp: Any, v: Any, y: Any = None) -> Any:
    """Runs a chain on `v`, elementwise."""
    number = float if v.dtype.kind == "f" else int
    for step in steps:
        argument = y if step.constant is None else number(step.constant)
        v = step.operation.reference(xp, v, argument)
    return v


def parameters(composition: Composition) -> tuple[Param, ...]:
    """x, y if there is one, out, then n or rows and cols."""
    dtype = composition.dtype
    shape = ("rows", "cols") if composition.matrix else ("n",)
    second = {"none": (), "same": (shape,), "column": (("cols",),)}[composition.second]
    return (
        Param("x", dtype, "in", shape),
        *(Param("y", dtype, "in", y_shape) for y_shape in second),
        Param("out", dtype, "out", ("rows",) if composition.reduces else shape),
        *(Param(size, "i32", "scalar") for size in shape),
    )


def describe(composition: Composition) -> str:
    """One sentence: the inputs with their shapes, then the operations by name, numbered in order."""
    inputs = [p for p in parameters(composition) if p.role == "in"]
    operands = ", ".join(f"{p.name} ({', '.join(p.shape)})" for p in inputs)
    row = [composition.row.phrase] if composition.row else []
    phrases = [s.phrase for s in composition.before] + row + [s.phrase for s in composition.after]
    numbered = (f"{number}) {phrase}" for number, phrase in enumerate(phrases, 1))
    return f"Apply to {operands} in order: {', '.join(numbered)}."
