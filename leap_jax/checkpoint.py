"""Checkpoints of a run (Orbax, asynchronous, complete or absent) and saved parameters.

Arrays are stored flat, each under its path in the state ('params/layers/0/kernel'). What is restored must
have the template's names, shapes and dtypes exactly: nothing is cast, dropped or made up.
"""

from __future__ import annotations

import logging as python_logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp
from absl import logging
from orbax.checkpoint import checkpoint_managers

_ARRAYS, _EXTRA = "arrays", "extra"
# What is no longer kept is renamed to here, then deleted: a killed deletion leaves no half checkpoint.
_REMOVED = "removed"


class CheckpointError(RuntimeError):
    """A checkpoint cannot be written, or is not of this run. One line, which says what to do."""


class Restored(NamedTuple):
    """A checkpoint read back."""

    step: int
    state: Any  # the template's structure
    extra: dict[str, Any]


class Checkpoints:
    """The checkpoints in one folder: the last `keep_last`, and the best by `best_metric` (higher is better).

    Opened for writing, it removes what a killed save left behind; only one process may have it open for that.
    Raises CheckpointError where the folder cannot be made or written.
    """

    def __init__(
        self, directory: Path, *, keep_last: int, best_metric: str | None = None, read_only: bool = False
    ) -> None:
        _silence_orbax()
        self._directory = Path(directory).absolute()
        self._best_metric = best_metric
        self._read_only = read_only
        keep: list[checkpoint_managers.PreservationPolicy] = [checkpoint_managers.LatestN(keep_last)]
        if best_metric is not None:
            keep.append(
                checkpoint_managers.BestN(get_metric_fn=self._score, n=1, keep_checkpoints_without_metrics=False)
            )
        with _write_errors(self._directory):
            if not read_only:
                _remove_leftovers(self._directory)
            self._manager = ocp.CheckpointManager(
                self._directory,
                options=ocp.CheckpointManagerOptions(
                    create=not read_only,
                    read_only=read_only,
                    todelete_subdir=_REMOVED,
                    best_fn=None if best_metric is None else self._score,  # without it no metric is stored
                    preservation_policy=checkpoint_managers.AnyPreservationPolicy(keep),
                ),
                item_handlers={_ARRAYS: ocp.StandardCheckpointHandler(), _EXTRA: ocp.JsonCheckpointHandler()},
            )

    def steps(self) -> list[int]:
        """Return the steps that have a checkpoint, in order."""
        return sorted(self._manager.all_steps())

    def save(
        self,
        step: int,
        state: Any,
        *,
        extra: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Copy `state` (a pytree of arrays) and go on; files are written in the background.

        `extra` is a small JSON-able dict; `metrics` may hold the one that decides which checkpoint is best. A
        step that is saved already is left as it is. Raises CheckpointError, also for the previous save's
        failure.
        """
        self.wait()
        if step in self.steps():
            return
        score = None
        if metrics is not None and self._best_metric in metrics:
            score = {self._best_metric: float(metrics[self._best_metric])}
        with _write_errors(self._directory):
            self._manager.save(
                step,
                args=ocp.args.Composite(
                    arrays=ocp.args.StandardSave(_by_name(state)), extra=ocp.args.JsonSave(dict(extra or {}))
                ),
                metrics=score,
            )

    def restore_latest(self, template: Any) -> Restored | None:
        """Return the newest complete checkpoint, or None. `template`: arrays, or shapes, like the state."""
        steps = self.steps()
        return self.restore(steps[-1], template) if steps else None

    def restore(self, step: int, template: Any) -> Restored:
        """Return the checkpoint of `step`, placed as the template is. CheckpointError where they differ."""
        expected, where = _by_name(template), str(self._directory / str(step))
        with _read_errors(where):
            _check(self._manager.item_metadata(step).get(_ARRAYS), expected, where)
            args = {_ARRAYS: ocp.args.StandardRestore(_abstract(expected)), _EXTRA: ocp.args.JsonRestore()}
            items = self._manager.restore(step, args=ocp.args.Composite(**args))
        return Restored(step, _like(template, items[_ARRAYS]), items[_EXTRA])

    @property
    def best_step(self) -> int | None:
        """The step whose `best_metric` is highest, the later one of equals; None where no step has it."""
        return None if self._best_metric is None else self._manager.best_step()

    def wait(self) -> None:
        """Wait until the last save is on disk. Raises CheckpointError where it failed."""
        try:
            with _write_errors(self._directory):
                self._manager.wait_until_finished()
        except CheckpointError:
            self._manager.reload()  # it has counted the failed save, and its effects, as done
            raise
        if not self._read_only:
            with _write_errors(self._directory):
                _remove_leftovers(self._directory)

    def close(self) -> None:
        """Finish the last save and stop the background threads. Raises CheckpointError where it failed."""
        try:
            self.wait()
        finally:
            self._manager.close()

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _score(self, metrics: Mapping[str, float]) -> float:
        return metrics[self._best_metric]


def save_params(path: Path, params: Any) -> None:
    """Write a pytree of arrays to the new folder `path`, which appears complete or not at all."""
    _silence_orbax()
    with _write_errors(path), ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(Path(path).absolute(), _by_name(params))


def load_params(path: Path, template: Any) -> Any:
    """Read what `save_params` wrote. CheckpointError where it is not there or differs from the template."""
    _silence_orbax()
    if not Path(path).is_dir():
        raise CheckpointError(f"{path}: there are no saved parameters")
    expected = _by_name(template)
    with _read_errors(str(path)), ocp.StandardCheckpointer() as checkpointer:
        _check(checkpointer.metadata(Path(path).absolute()).item_metadata, expected, str(path))
        return _like(template, checkpointer.restore(Path(path).absolute(), _abstract(expected)))


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder that becomes `path` when the block ends well, and vanishes otherwise.

    Where `path` exists by then, made by another process, that one stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield unfinished
        try:
            os.rename(unfinished, path)
        except OSError:
            if not path.is_dir():
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write a small file that is there complete or not at all."""
    with _write_errors(path.parent):
        unfinished = path.with_name(path.name + ".tmp")
        unfinished.write_text(text)
        os.replace(unfinished, path)


def _by_name(tree: Any) -> dict[str, Any]:
    """Return the leaves by path. Scalars become 0-d arrays."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    named = {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}
    if len(named) != len(leaves):
        raise ValueError("two arrays of the state have the same path: no key may contain '/'")
    is_array = (jax.Array, jax.ShapeDtypeStruct, np.ndarray)
    return {name: leaf if isinstance(leaf, is_array) else np.asarray(leaf) for name, leaf in named.items()}


def _like(template: Any, arrays: Mapping[str, Any]) -> Any:
    return jax.tree.unflatten(jax.tree.structure(template), [arrays[name] for name in _by_name(template)])


def _abstract(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Say what to restore and where to: NumPy arrays stay on the host, others go where the template is."""

    def abstract(leaf):
        if isinstance(leaf, np.ndarray):
            return leaf
        sharding = leaf.sharding or jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    return {name: abstract(leaf) for name, leaf in arrays.items()}


def _check(stored: Any, expected: Mapping[str, Any], where: str) -> None:
    if stored is None:
        raise ValueError("the description of its arrays is missing")
    stored = dict(stored.items())
    remedy = "it was written with another config; start in a new workdir"
    if missing := sorted(expected.keys() - stored.keys()):
        raise CheckpointError(f"{where} has no {missing[0]} ({len(missing)} names are missing): {remedy}")
    if unknown := sorted(stored.keys() - expected.keys()):
        raise CheckpointError(f"{where} has an unexpected {unknown[0]} ({len(unknown)} such names): {remedy}")
    for name, leaf in expected.items():
        found = stored[name]
        if tuple(found.shape) != tuple(leaf.shape) or np.dtype(found.dtype) != np.dtype(leaf.dtype):
            raise CheckpointError(
                f"{where}: {name} is {np.dtype(found.dtype)}{list(found.shape)}, "
                f"not {np.dtype(leaf.dtype)}{list(leaf.shape)}: {remedy}"
            )


def _remove_leftovers(directory: Path) -> None:
    """Delete what no save is writing now: unfinished checkpoints, and those that are no longer kept."""
    for folder in (*directory.glob("*.orbax-checkpoint-tmp*"), *directory.glob(_REMOVED)):
        shutil.rmtree(folder)


@contextmanager
def _write_errors(directory: Path) -> Iterator[None]:
    """Turn a failure of the file system into one line; Orbax has some as ValueError, errno in the text."""
    try:
        yield
    except (OSError, ValueError) as error:
        code = re.search(r"os_error_code='(\d+)'", str(error))
        if isinstance(error, ValueError) and code is None:
            raise
        reason = os.strerror(int(code[1])) if code else error.strerror or str(error)
        raise CheckpointError(
            f"cannot write {directory}: {reason}; make room or choose a writable place, "
            "then start again with the same command"
        ) from error


@contextmanager
def _read_errors(where: str) -> Iterator[None]:
    """Turn what a damaged folder makes Orbax raise into one line."""
    try:
        yield
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise CheckpointError(f"{where} is damaged: delete that folder, then start again ({reason})") from error


class _NotFromOrbax(python_logging.Filter):
    def filter(self, record: python_logging.LogRecord) -> bool:
        return f"{os.sep}orbax{os.sep}" not in record.pathname


_NOT_FROM_ORBAX = _NotFromOrbax()


def _silence_orbax() -> None:
    # Dozens of lines a save; its errors are logged with their traces and then raised as well.
    logging.get_absl_logger().addFilter(_NOT_FROM_ORBAX)
