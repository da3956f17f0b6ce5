"""Every future is resolved, whatever a worker does; no process outlives the pool."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from leap_jax.kernels.pool import VerificationPool
from leap_jax.kernels.verdict import Outcome

TOY = (sys.executable, str(Path(__file__).with_name("toy_worker.py")))
PATIENCE = 30.0


@pytest.fixture(scope="module")
def pool():
    with VerificationPool(2, "settings", deadline_seconds=PATIENCE, command=TOY) as pool:
        yield pool


def _impatient(**options) -> VerificationPool:
    return VerificationPool(1, None, deadline_seconds=0.4, command=TOY, **options)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _eventually(condition) -> bool:
    end = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def test_verdicts_belong_to_their_requests(pool):
    futures = {i: pool.submit(f"task{i}", f"say {i}") for i in range(20)}
    for i, future in futures.items():
        assert future.result(PATIENCE).message == f"task{i} {i} settings"


def test_a_slow_answer_does_not_hold_up_the_other_worker(pool):
    slow = pool.submit("t", "nap 0.3")
    quick = [pool.submit("t", f"say quick {i}") for i in range(5)]
    assert all(future.result(PATIENCE).passed for future in quick)
    assert slow.result(PATIENCE).passed


def test_the_same_code_shares_one_verdict(pool):
    hits = pool.counts.cache_hits
    block = "```cuda\n__global__ void f() {}\n```"
    first = pool.submit("t", "nap 0.05")
    again = pool.submit("t", "nap 0.05")
    assert again is first
    assert pool.submit("t", f"one\n{block}") is pool.submit("t", f"two words before it\n{block}")
    assert pool.submit("other", "nap 0.05") is not first
    assert first.result(PATIENCE).passed
    assert pool.counts.cache_hits == hits + 2


def test_code_and_bare_text_are_not_the_same_answer(pool):
    code = "say __global__\n"
    assert pool.submit("t", code) is not pool.submit("t", f"```\n{code}```")


def test_infra_errors_are_not_remembered(pool):
    first = pool.submit("t", "infra x")
    assert first.result(PATIENCE).outcome is Outcome.INFRA_ERROR
    assert _eventually(lambda: pool.submit("t", "infra x") is not first)


def test_printing_is_not_a_verdict(pool):
    assert pool.submit("t", "print").result(PATIENCE).outcome is Outcome.INCORRECT


def test_a_worker_that_dies_twice_is_infra_error():
    with VerificationPool(1, None, PATIENCE, command=TOY) as pool:
        verdict = pool.submit("t", "die").result(PATIENCE)
        assert verdict.outcome is Outcome.INFRA_ERROR
        assert "exit status 7" in verdict.message
        assert pool.submit("t", "say still here").result(PATIENCE).passed
        assert (pool.counts.verified, pool.counts.retried, pool.counts.replaced_workers) == (2, 1, 2)


def test_a_death_is_retried_in_a_new_worker(tmp_path):
    with VerificationPool(1, None, PATIENCE, command=TOY) as pool:
        assert pool.submit("t", f"die_once {tmp_path / 'mark'}").result(PATIENCE).message == "second try"


def test_late_once_is_retried(tmp_path):
    with _impatient() as pool:
        assert pool.submit("t", f"hang_once {tmp_path / 'mark'}").result(PATIENCE).message == "second try"


def test_late_twice_is_the_answers_fault_and_its_children_die(tmp_path):
    pids = tmp_path / "pids"
    with _impatient() as pool:
        verdict = pool.submit("t", f"hang_with_child {pids}").result(PATIENCE)
        assert verdict.outcome is Outcome.RUNTIME_ERROR
        assert verdict.fault.kind == "timeout"
        assert pool.submit("t", "say next").result(PATIENCE).passed
    started = [int(line) for line in pids.read_text().split()]
    assert len(started) == 2
    assert all(_eventually(lambda pid=pid: not _alive(pid)) for pid in started)


def test_hung_answers_do_not_use_up_the_pool(tmp_path):
    with VerificationPool(2, None, 0.3, command=TOY) as pool:
        hung = [pool.submit(f"t{i}", f"hang_with_child {tmp_path / str(i)}") for i in range(3)]
        good = pool.submit("t", "say good")
        assert good.result(PATIENCE).passed
        assert {future.result(PATIENCE).outcome for future in hung} == {Outcome.RUNTIME_ERROR}


def test_workers_that_cannot_start_are_infra_errors_and_check_says_so():
    with VerificationPool(1, None, PATIENCE, command=(sys.executable, "-c", "raise SystemExit(3)")) as pool:
        verdict = pool.submit("t", "say x").result(PATIENCE)
        assert verdict.outcome is Outcome.INFRA_ERROR
        assert "did not start" in verdict.message


def test_close_kills_workers_and_fails_pending_futures():
    pool = VerificationPool(1, None, PATIENCE, command=TOY)
    pid = int(pool.submit("t", "pid").result(PATIENCE).message)
    pending = [pool.submit("t", f"nap {100 + i}") for i in range(3)]
    pool.close()
    assert not _alive(pid)
    for future in pending:
        with pytest.raises(RuntimeError, match="closed"):
            future.result(PATIENCE)
    with pytest.raises(RuntimeError, match="closed"):
        pool.submit("t", "say late")
    pool.close()


def test_an_unused_pool_starts_nothing():
    threads = threading.active_count()
    with VerificationPool(4, None, PATIENCE, command=TOY):
        assert threading.active_count() == threads


def test_no_worker_outlives_an_interpreter_that_forgets_to_close(tmp_path):
    program = f"""
from leap_jax.kernels.pool import VerificationPool
pool = VerificationPool(1, None, 60.0, command={TOY!r})
print(pool.submit("t", "pid").result().message, flush=True)
pool.submit("t", "nap 1000")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert _eventually(lambda: not _alive(int(done.stdout)))


def test_a_killed_owner_takes_its_busy_worker_along(tmp_path):
    mark = tmp_path / "mark"
    program = f"""
import os, pathlib, signal, time
from leap_jax.kernels.pool import VerificationPool
pool = VerificationPool(1, None, 60.0, command={TOY!r})
print(pool.submit("t", "pid").result().message, flush=True)
pool.submit("t", "hang_once {mark}")
while not pathlib.Path({str(mark)!r}).exists():
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE)
    assert _eventually(lambda: not _alive(int(done.stdout)))


def test_at_least_one_worker():
    with pytest.raises(ValueError, match="at least 1"):
        VerificationPool(0, None, 1.0)
