"""Many verdicts at once: one worker process per slot, a deadline for each verdict, a cache of answers seen.

Every slot is a thread that owns one worker, hands it a request and waits with a deadline. A worker that is
late or dies is killed with its process group and replaced, and the request is tried once more in the new one.
Late twice: the answer's fault, runtime_error (timeout). Dead twice, or one of each: infra_error.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from leap_jax.kernels.answer import AnswerError, extract_source
from leap_jax.kernels.catalog import load_task
from leap_jax.kernels.processes import REAP_SECONDS, kill_group
from leap_jax.kernels.verdict import FaultReport, Outcome, Verdict

WORKER_COMMAND = (sys.executable, "-m", "leap_jax.kernels.worker")
START_SECONDS = 60.0
ATTEMPTS = 2
KEPT_VERDICTS = 100_000
_ROOT = Path(__file__).parents[2]


class _WorkerFailed(Exception):
    """A worker gave no verdict. `late`: its deadline passed; otherwise it died or never started."""

    def __init__(self, message: str, late: bool = False):
        super().__init__(message)
        self.late = late


@dataclass
class Counts:
    verified: int = 0  # verdicts made by workers
    cache_hits: int = 0  # answers known or already in flight
    retried: int = 0
    replaced_workers: int = 0


@dataclass(frozen=True)
class _Request:
    key: tuple[str, ...]
    task_name: str
    response: str
    verdict: Future


class VerificationPool:
    """`submit` answers, get futures of verdicts; a context manager. Workers start at the first submit.

    settings: handed to every worker. deadline_seconds: for one verdict, after which its worker is killed;
    longer than the settings' own limits together, which end a bad answer more gently. Thread-safe.
    """

    def __init__(
        self, workers: int, settings: object, deadline_seconds: float, command: Sequence[str] = WORKER_COMMAND
    ):
        if workers < 1:
            raise ValueError(f"workers is {workers}, must be at least 1")
        self.counts = Counts()
        self._workers = workers
        self._settings = settings
        self._deadline_seconds = deadline_seconds
        self._command = tuple(command)
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._verdicts: OrderedDict[tuple[str, ...], Future] = OrderedDict()
        self._lock = threading.Lock()
        self._slots: list[_Slot] = []
        self._closed = False
        atexit.register(self.close)

    def submit(self, task_name: str, response: str) -> Future[Verdict]:
        """The future verdict; answers with the same code for the same task share one. Cannot be cancelled."""
        key = (task_name, *_identity(response))
        with self._lock:
            if self._closed:
                raise RuntimeError("the verification pool is closed")
            if key in self._verdicts:
                self.counts.cache_hits += 1
                self._verdicts.move_to_end(key)
                return self._verdicts[key]
            verdict: Future[Verdict] = Future()
            verdict.set_running_or_notify_cancel()
            self._verdicts[key] = verdict
            if len(self._verdicts) > KEPT_VERDICTS:
                self._verdicts.popitem(last=False)
            if not self._slots:
                self._slots = [_Slot(self._command, self._settings) for _ in range(self._workers)]
                for slot in self._slots:
                    slot.thread = threading.Thread(target=self._serve, args=(slot,), daemon=True)
                    slot.thread.start()
        self._requests.put(_Request(key, task_name, response, verdict))
        return verdict

    def check(self, task_name: str) -> None:
        """Verifies the task's own baseline; raises RuntimeError with one clear line if it does not pass."""
        verdict = self.submit(task_name, load_task(task_name).baseline).result()
        if not verdict.passed:
            lines = verdict.message.strip().splitlines() or [verdict.stage]
            raise RuntimeError(
                f"verification does not work: the baseline of {task_name} is {verdict.outcome}: {lines[-1]}"
            )

    def close(self) -> None:
        """Kills all workers and fails what is not done. Safe to call twice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            pending = [future for future in self._verdicts.values() if not future.done()]
        atexit.unregister(self.close)
        for slot in self._slots:
            slot.stop()
            self._requests.put(None)
        for slot in self._slots:
            slot.thread.join(REAP_SECONDS)
        for future in pending:
            _resolve(future, error=RuntimeError("the verification pool was closed"))

    def __enter__(self) -> VerificationPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self, slot: _Slot) -> None:
        """A slot's thread: starts its worker, then serves requests until the pool closes."""
        with contextlib.suppress(_WorkerFailed):  # a worker that cannot start shows when it is asked
            slot.start()
        while (request := self._requests.get()) is not None and not self._closed:
            verdict = self._verdict(slot, request)
            if self._closed:
                return  # `close` has killed the worker and answers for what is pending
            with self._lock:
                self.counts.verified += 1
                if verdict.outcome is Outcome.INFRA_ERROR:
                    self._verdicts.pop(request.key, None)
            _resolve(request.verdict, verdict)

    def _verdict(self, slot: _Slot, request: _Request) -> Verdict:
        failures: list[_WorkerFailed] = []
        while len(failures) < ATTEMPTS:
            try:
                return slot.ask((request.task_name, request.response), self._deadline_seconds)
            except _WorkerFailed as failure:
                slot.kill()
                failures.append(failure)
                with self._lock:
                    self.counts.replaced_workers += 1
                    self.counts.retried += len(failures) < ATTEMPTS
        if all(failure.late for failure in failures):
            fault = FaultReport("timeout", f"no verdict within {self._deadline_seconds:g} seconds, twice")
            return Verdict(Outcome.RUNTIME_ERROR, "run", fault=fault)
        return Verdict(Outcome.INFRA_ERROR, "worker", "; ".join(map(str, failures)))


class _Slot:
    """One worker process at a time. Only `stop` may be called from another thread."""

    def __init__(self, command: tuple[str, ...], settings: object):
        self.thread: threading.Thread
        self._command = command
        self._settings = settings
        self._process: subprocess.Popen | None = None
        self._pipe: Connection
        self._lock = threading.Lock()
        self._stopped = False

    def start(self) -> None:
        """Starts a worker and waits until it is ready. Raises _WorkerFailed."""
        self._pipe, child_end = Pipe()
        descriptor = child_end.fileno()
        with self._lock:
            if self._stopped:
                raise _WorkerFailed("the pool is closed")
            self._process = subprocess.Popen(
                [*self._command, str(descriptor), str(os.getpid())],
                pass_fds=(descriptor,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=_environment(),
            )
        child_end.close()
        try:
            self._exchange(self._settings, START_SECONDS)
        except _WorkerFailed as failure:
            raise _WorkerFailed(f"a worker did not start: {failure}") from failure

    def ask(self, message: object, seconds: float) -> Verdict:
        """The worker's reply, within `seconds`; starts a worker if there is none. Raises _WorkerFailed."""
        if self._process is None:
            self.start()
        return self._exchange(message, seconds)

    def kill(self) -> None:
        """Ends the worker and its process group, and reaps it."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            kill_group(process)
            self._pipe.close()

    def stop(self) -> None:
        """Ends the worker for good; the slot's thread sees its pipe end."""
        with self._lock:
            self._stopped = True
            if self._process is not None:
                kill_group(self._process)

    def _exchange(self, message: object, seconds: float) -> object:
        try:
            self._pipe.send(message)
            if not self._pipe.poll(seconds):
                raise _WorkerFailed(f"a worker gave no answer within {seconds:g} seconds", late=True)
            return self._pipe.recv()
        except (EOFError, OSError) as error:
            code = None
            if self._process:
                with contextlib.suppress(subprocess.TimeoutExpired):  # its pipe closes a moment before it has ended
                    code = self._process.wait(REAP_SECONDS)
            raise _WorkerFailed(f"a worker died (exit status {code})") from error


def _resolve(future: Future, verdict: Verdict | None = None, error: Exception | None = None) -> None:
    """Sets a future that the closing thread may have set already."""
    with contextlib.suppress(InvalidStateError):
        if error:
            future.set_exception(error)
        else:
            future.set_result(verdict)


def _identity(response: str) -> tuple[str, str]:
    """What two responses share if they must get the same verdict: the code, or all of a text without code."""
    try:
        return "code", extract_source(response)
    except AnswerError:
        return "text", response


def _environment() -> dict[str, str]:
    """The parent's environment with this package importable and one thread for NumPy."""
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
