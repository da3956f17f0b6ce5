"""Which tasks an evaluation asks for, and into which kinds they fall."""

from __future__ import annotations

from leap_jax.kernels import generator
from leap_jax.kernels.catalog import COMPOSED, load_task
from leap_jax.kernels.suite import SUITE

GRAMMAR = "heldout:COUNT, train:COUNT, suite or suite:NAME,NAME,..."


def task_names(which: str) -> list[str]:
    """The tasks of `heldout:256`, `train:64`, `suite` or `suite:relu,softmax`.

    A count takes the first compositions of a split; those of the train split are what the cold start imitates.
    Raises ValueError with one line that says what is wrong.
    """
    kind, colon, rest = which.partition(":")
    if kind in ("heldout", "train"):
        if not rest.isascii() or not rest.isdigit() or int(rest) == 0:
            raise ValueError(f"tasks {which!r}: how many? As in {kind}:256")
        return [f"{COMPOSED}{seed}" for seed in generator.seeds(kind, int(rest))]
    if kind != "suite":
        raise ValueError(f"tasks {which!r} are unknown: use {GRAMMAR}")
    names = rest.split(",") if colon else list(SUITE)
    if unknown := [name for name in names if name not in SUITE]:
        raise ValueError(f"tasks {which!r}: the suite has no {unknown[0]!r}, it has {', '.join(SUITE)}")
    if len(set(names)) < len(names):
        raise ValueError(f"tasks {which!r}: a task is named twice")
    return names


def kinds(name: str) -> dict[str, str]:
    """What kinds a task is of: {"level": "2", "family": "reductions"}.

    A composed task has its number of operations as level and as difficulty, here `operations`; its family is
    elementwise, reduction or normalisation, by its row operation.
    """
    task = load_task(name)
    if not name.startswith(COMPOSED):
        return {"level": str(task.level), "family": task.family}
    composition = generator.compose(int(name.removeprefix(COMPOSED)))
    across_rows = "reduction" if composition.reduces else "normalisation"
    return {
        "operations": str(composition.level),
        "family": across_rows if composition.row else "elementwise",
        "dtype": composition.dtype,
    }
