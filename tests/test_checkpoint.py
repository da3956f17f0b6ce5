"""Checkpoints: bit-exact, complete or absent, clear when something is wrong."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from absl import logging
from flax import nnx

from leap_jax import checkpoint
from leap_jax.checkpoint import CheckpointError, Checkpoints


def small_state(seed: int = 0):
    """A dict of arrays of several dtypes."""
    rng = np.random.default_rng(seed)
    return {
        "kernel": jnp.asarray(rng.normal(size=(8, 16)), jnp.float32),
        "half": jnp.asarray(rng.normal(size=(4,)), jnp.bfloat16),
        "layers": [{"count": jnp.int32(seed)}, {"flags": jnp.array([True, False])}],
    }


def assert_same(found, expected):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def files_of(directory) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


@pytest.mark.parametrize("optimizer", [optax.adamw(1e-2), optax.contrib.muon(1e-2)], ids=["adamw", "muon"])
def test_training_continues_bit_for_bit(tmp_path, optimizer):
    model = nnx.Sequential(nnx.Linear(4, 8, rngs=nnx.Rngs(0)), nnx.Linear(8, 2, rngs=nnx.Rngs(1)))
    graphdef, params = nnx.split(model)

    @jax.jit
    def step(params, opt_state, x):
        grads = jax.grad(lambda p: jnp.sum(nnx.merge(graphdef, p)(x) ** 2))(params)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state

    x = jax.random.normal(jax.random.key(0), (3, 4))
    fresh = (params, jax.jit(optimizer.init)(params))
    state = step(*step(*fresh, x), x)
    with Checkpoints(tmp_path / "checkpoints", keep_last=1) as checkpoints:
        checkpoints.save(2, state, extra={"gate": [1, 2]})
    with Checkpoints(tmp_path / "checkpoints", keep_last=1) as checkpoints:
        restored = checkpoints.restore_latest(jax.eval_shape(lambda: fresh))
    assert restored.step == 2 and restored.extra == {"gate": [1, 2]}
    assert_same(restored.state, state)
    assert_same(step(*restored.state, x), step(*state, x))


def test_a_save_holds_the_state_of_its_moment(tmp_path):
    add_one = jax.jit(lambda x: x + 1, donate_argnums=0)
    x, host = jnp.zeros((512, 1024)), np.zeros((512, 1024))
    with Checkpoints(tmp_path, keep_last=1) as checkpoints:
        checkpoints.save(0, {"x": x, "host": host})
        for _ in range(20):
            x = add_one(x)
            host += 1
        checkpoints.wait()
        found = checkpoints.restore_latest({"x": x, "host": host}).state
    assert isinstance(found["host"], np.ndarray)
    assert not np.any(found["x"]) and not np.any(found["host"])


def test_keeps_the_last_and_the_best(tmp_path):
    scores = {0: 0.1, 1: 0.9, 2: None, 3: 0.3, 4: 0.2, 5: None}
    with Checkpoints(tmp_path, keep_last=2, best_metric="eval/acc") as checkpoints:
        assert checkpoints.restore_latest(small_state()) is None and checkpoints.best_step is None
        for step, score in scores.items():
            metrics = {"loss": 1.0} | ({} if score is None else {"eval/acc": score})
            checkpoints.save(step, small_state(step), metrics=metrics)
        checkpoints.wait()
        assert checkpoints.steps() == [1, 4, 5]
        assert checkpoints.best_step == 1
    with Checkpoints(tmp_path, keep_last=2, best_metric="eval/acc") as checkpoints:  # known after a restart, too
        checkpoints.save(6, small_state(6), metrics={"eval/acc": 0.5})
        checkpoints.wait()
        assert checkpoints.steps() == [1, 5, 6]
        assert_same(checkpoints.restore(checkpoints.best_step, small_state()).state, small_state(1))


def test_a_saved_step_is_left_as_it_is(tmp_path):
    with Checkpoints(tmp_path, keep_last=1) as checkpoints:
        checkpoints.save(3, small_state(3))
        checkpoints.save(3, small_state(4))
        assert_same(checkpoints.restore_latest(small_state()).state, small_state(3))


def other(**changes):
    return small_state() | changes


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (other(half=jnp.zeros(4, jnp.float32)), r"half is bfloat16\[4\], not float32\[4\]"),
        (other(kernel=jnp.zeros((8, 8))), r"kernel is float32\[8, 16\], not float32\[8, 8\]"),
        (
            other(layers=[{"count": jnp.float32(0)}, {"flags": jnp.array([True, False])}]),
            r"layers/0/count is int32\[\]",
        ),
        (other(bias=jnp.zeros(3)), r"has no bias \(1 names"),
        ({"kernel": jnp.zeros((8, 16))}, r"has an unexpected half \(3 such names\)"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(tmp_path, template, message):
    with Checkpoints(tmp_path, keep_last=1) as checkpoints:
        checkpoints.save(7, small_state())
        checkpoints.wait()
        before = files_of(tmp_path)
        with pytest.raises(CheckpointError, match=message) as error:
            checkpoints.restore_latest(template)
    assert "\n" not in str(error.value) and f"{tmp_path}/7" in str(error.value) and "new workdir" in str(error.value)
    assert files_of(tmp_path) == before


def test_a_half_written_checkpoint_is_ignored_and_removed(tmp_path):
    with Checkpoints(tmp_path, keep_last=3) as checkpoints:
        for step in (1, 2):
            checkpoints.save(step, small_state(step))
    unfinished = tmp_path / "4.orbax-checkpoint-tmp"
    (unfinished / "arrays.orbax-checkpoint-tmp").mkdir(parents=True)
    with Checkpoints(tmp_path, keep_last=3, read_only=True) as checkpoints:
        assert checkpoints.restore_latest(small_state()).step == 2
    assert unfinished.exists()  # a reader touches nothing: it may be a save in progress
    with Checkpoints(tmp_path, keep_last=3) as checkpoints:
        assert not unfinished.exists()
        assert checkpoints.restore_latest(small_state()).step == 2
        checkpoints.save(4, small_state(4))
        checkpoints.wait()
        assert_same(checkpoints.restore_latest(small_state()).state, small_state(4))


@pytest.mark.parametrize("part", ["arrays", "arrays/_METADATA", "arrays/d", "extra"])
def test_a_damaged_checkpoint_is_one_clear_line(tmp_path, part):
    with Checkpoints(tmp_path, keep_last=1) as checkpoints:
        checkpoints.save(1, small_state())
    path = tmp_path / "1" / part
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with Checkpoints(tmp_path, keep_last=1) as checkpoints, pytest.raises(CheckpointError, match="/1 is damaged") as e:
        checkpoints.restore_latest(small_state())
    assert "\n" not in str(e.value)


def test_killed_in_the_middle_of_a_save(tmp_path):
    code = f"""
        import jax.numpy as jnp
        from leap_jax.checkpoint import Checkpoints
        import jax
        checkpoints = Checkpoints({str(tmp_path)!r}, keep_last=2)
        for step in range(1000):
            x = jax.random.normal(jax.random.key(step), (4096, 1024))
            checkpoints.save(step, {{"x": x, "step": jnp.int32(step)}})
    """
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], env=os.environ | {"JAX_PLATFORMS": "cpu"})
    deadline = time.monotonic() + 60
    while not ((tmp_path / "1").exists() and list(tmp_path.glob("*tmp*"))):
        assert child.poll() is None and time.monotonic() < deadline
        time.sleep(0.001)
    child.send_signal(signal.SIGKILL)
    child.wait()
    template = {"x": jnp.zeros((4096, 1024)), "step": jnp.int32(0)}
    with Checkpoints(tmp_path, keep_last=2) as checkpoints:
        step, state, _ = checkpoints.restore_latest(template)
    assert step >= 1 and state["step"] == step
    assert_same(state["x"], jax.random.normal(jax.random.key(step), (4096, 1024)))


def test_a_place_that_cannot_be_written_is_one_clear_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"cannot write .*file/checkpoints: Not a directory; .*same command"):
        Checkpoints(tmp_path / "file" / "checkpoints", keep_last=1)


def test_what_is_not_kept_is_deleted_after_a_rename(tmp_path, monkeypatch):
    with Checkpoints(tmp_path, keep_last=1) as checkpoints:
        for step in range(4):
            checkpoints.save(step, small_state(step))
        checkpoints.wait()
        assert os.listdir(tmp_path) == ["3"]
        monkeypatch.setattr(checkpoint, "_remove_leftovers", lambda directory: None)  # killed before it
        checkpoints.save(4, small_state(4))
        checkpoints.wait()
        assert sorted(os.listdir(tmp_path)) == ["4", "removed"]
        monkeypatch.undo()
    assert os.listdir(tmp_path) == ["4"]


def test_a_full_disk_is_one_clear_line_and_the_last_checkpoint_stays(tmp_path, capfd):
    big = {"x": jax.random.normal(jax.random.key(0), (256, 1024))}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Checkpoints(tmp_path, keep_last=1) as checkpoints:
        checkpoints.save(0, big)
        checkpoints.wait()
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            with pytest.raises(CheckpointError, match=r"cannot write .*: File too large; make room") as error:
                checkpoints.save(1, big)
                checkpoints.wait()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert "\n" not in str(error.value)
        assert checkpoints.steps() == [0]
        checkpoints.save(1, big)  # there is room again
        checkpoints.wait()
        assert checkpoints.steps() == [1]
    assert "Traceback" not in capfd.readouterr().err


def test_orbax_does_not_fill_the_log(tmp_path, caplog):
    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.INFO)
    with Checkpoints(tmp_path, keep_last=1) as checkpoints:
        checkpoints.save(0, small_state())
    logging.info("ours")
    logging.set_verbosity(verbosity)
    assert [record.getMessage() for record in caplog.records] == ["ours"]


def test_params_round_trip_inside_an_atomic_folder(tmp_path):
    cache = tmp_path / "cache" / "cold"
    with checkpoint.atomic_folder(cache) as folder:
        checkpoint.save_params(folder / "params", small_state(5))
        (folder / "tokenizer.json").write_text("{}")
        assert not cache.exists()
    assert_same(checkpoint.load_params(cache / "params", small_state()), small_state(5))
    assert sorted(os.listdir(cache.parent)) == ["cold"] and (cache / "tokenizer.json").exists()
    with pytest.raises(CheckpointError, match="half is bfloat16"):
        checkpoint.load_params(cache / "params", other(half=jnp.zeros(4)))
    with pytest.raises(CheckpointError, match="no saved parameters"):
        checkpoint.load_params(tmp_path / "nothing", small_state())


def test_an_atomic_folder_is_complete_or_absent_and_the_first_one_wins(tmp_path):
    target = tmp_path / "folder"
    with pytest.raises(KeyboardInterrupt), checkpoint.atomic_folder(target) as folder:
        (folder / "a").touch()
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []
    with checkpoint.atomic_folder(target) as slow:
        (slow / "slow").touch()
        with checkpoint.atomic_folder(target) as fast:
            (fast / "fast").touch()
    assert os.listdir(tmp_path) == ["folder"] and os.listdir(target) == ["fast"]


def test_names_that_would_collide_are_refused(tmp_path):
    with pytest.raises(ValueError, match="same path"):
        checkpoint.save_params(tmp_path / "x", {"a": {"b": jnp.zeros(1)}, "a/b": jnp.ones(1)})
