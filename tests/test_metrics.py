"""The run folder's numbers: lines, truncation on resume, the bar, memory."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
import rich.console
from absl import logging
from tensorboardX.proto import event_pb2

from leap_jax import metrics
from leap_jax.checkpoint import CheckpointError


def write_steps(workdir, steps, restored_step=-1) -> None:
    with metrics.MetricsWriter(workdir, restored_step=restored_step) as writer:
        for step in steps:
            writer.write(step, {"train/b": step / 3, "train/a": step})


def events(workdir) -> list[event_pb2.Event]:
    """TensorBoard's records (length, checksum, data, checksum) in the order of writing."""
    found = []
    for path in sorted((workdir / "tensorboard").iterdir()):
        data, at = path.read_bytes(), 0
        while at < len(data):
            length = int.from_bytes(data[at : at + 8], "little")
            found.append(event_pb2.Event.FromString(data[at + 12 : at + 12 + length]))
            at += 16 + length
    return found


def curve(workdir, tag: str) -> list[tuple[int, float]]:
    return [(e.step, v.simple_value) for e in events(workdir) for v in e.summary.value if v.tag == tag]


def test_a_line_a_step_with_step_first_and_sorted_names(tmp_path):
    with metrics.MetricsWriter(tmp_path) as writer:
        writer.write(3, {"train/z": np.float32(0.1), "train/a": jnp.int32(2), "eval/x": 0.25})
        writer.write(4, {"train/a": 1})
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert lines[0] == '{"step": 3, "eval/x": 0.25, "train/a": 2, "train/z": 0.10000000149011612}'
    assert json.loads(lines[1]) == {"step": 4, "train/a": 1}
    assert curve(tmp_path, "train/a") == [(3, 2.0), (4, 1.0)]


def test_a_number_that_is_not_finite_becomes_null_with_a_warning(tmp_path, caplog):
    with metrics.MetricsWriter(tmp_path) as writer, caplog.at_level("WARNING", logger="absl"):
        writer.write(0, {"a": float("nan"), "b": np.float32("inf"), "c": 1.0})
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == {"step": 0, "a": None, "b": None, "c": 1.0}
    assert [record.getMessage() for record in caplog.records] == [
        "step 0: metric a is nan",
        "step 0: metric b is inf",
    ]
    assert curve(tmp_path, "a") == [] and curve(tmp_path, "c") == [(0, 1.0)]


def test_a_killed_and_resumed_run_has_the_file_of_an_undisturbed_one(tmp_path):
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    for workdir in (undisturbed, killed):
        workdir.mkdir()
    write_steps(undisturbed, range(6))
    write_steps(killed, range(5))
    with (killed / "metrics.jsonl").open("a") as file:
        file.write('{"step": 5, "train')
    write_steps(killed, range(3, 6), restored_step=2)
    assert (killed / "metrics.jsonl").read_bytes() == (undisturbed / "metrics.jsonl").read_bytes()
    write_steps(killed, range(6))  # killed before its first checkpoint: from the start
    assert (killed / "metrics.jsonl").read_bytes() == (undisturbed / "metrics.jsonl").read_bytes()


def test_curves_after_the_restored_step_are_purged(tmp_path):
    write_steps(tmp_path, range(3), restored_step=2)
    starts = [e.step for e in events(tmp_path) if e.session_log.status == event_pb2.SessionLog.START]
    assert starts == [3]


@pytest.mark.parametrize(
    ("metric", "curve"),
    [
        ("eval/heldout/acc@1", "heldout/acc_at_1"),
        ("eval/heldout/outcome/correct", "heldout_outcome/correct"),
        ("train/outcome/hack", "outcome/hack"),
        ("train/acc@1", "train/acc_at_1"),
        ("train/open_share", "gate/open_share"),
        ("train/kl", "policy/kl"),
        ("train/kl_sampled_abs_max", "policy/kl_sampled_abs_max"),
        ("seconds/generate", "seconds/generate"),
    ],
)
def test_curves_are_folded_by_what_they_tell(metric, curve):
    assert metrics.curve_name(metric) == curve


def turn_record(rollout: int, turn: int, outcome: str, response: str = "code", feedback: str = "") -> dict:
    record = {"step": 1, "task": "relu", "prompt": 0, "rollout": rollout, "turn": turn, "outcome": outcome}
    return record | {"response": response, "feedback": feedback, "reward": 0.5, "advantage": -0.25}


def test_a_passing_and_a_failing_rollout_are_texts_in_tensorboard(tmp_path):
    turns = [
        turn_record(0, 1, "correct"),
        turn_record(1, 1, "incorrect", "first\n```\n# heading", "wrong"),
        turn_record(1, 2, "correct", "second"),
        turn_record(2, 1, "incorrect", "\x1b[2J" + "x" * 100_000),
    ]
    with metrics.MetricsWriter(tmp_path) as writer:
        writer.write_samples(1, turns)
        writer.write_samples(2, turns[:1])  # all pass
    shown = {
        (event.step, value.tag): value.tensor.string_val[0].decode()
        for event in events(tmp_path)
        for value in event.summary.value
    }
    assert shown.keys() == {
        (s, f"rollout/{n}/text_summary") for s, n in ((1, "passing"), (1, "failing"), (2, "passing"))
    }
    assert shown[1, "rollout/passing/text_summary"] == (
        "**relu, turn 1: incorrect** (reward 0.5, advantage -0.25)\n\n"
        "    first\n    ```\n    # heading\n\n    wrong\n\n"  # indented: the model's fence ends nothing
        "**relu, turn 2: correct** (reward 0.5, advantage -0.25)\n\n    second"
    )
    failing = shown[1, "rollout/failing/text_summary"]
    assert "\x1b" not in failing and failing.endswith("xxx ...") and len(failing) < 2100


def test_truncation_works_on_any_lines_with_a_step(tmp_path):
    path = tmp_path / "rollouts.jsonl"
    for step in (0, 0, 1, 1, 2):
        metrics.append_jsonl(path, {"step": step, "text": "ß\n\u2028x"}, {"step": step, "text": ""})
    kept = path.read_bytes().splitlines(keepends=True)[:8]
    metrics.truncate_jsonl(path, after_step=1)
    assert path.read_bytes() == b"".join(kept)
    assert os.listdir(tmp_path) == ["rollouts.jsonl"]
    with path.open("ab") as file:
        file.write('{"step": 1, "text": "ß'.encode()[:-1])
    metrics.truncate_jsonl(path, after_step=1)
    assert path.read_bytes() == b"".join(kept)
    metrics.truncate_jsonl(tmp_path / "absent.jsonl", after_step=1)
    assert not (tmp_path / "absent.jsonl").exists()


@pytest.mark.parametrize("line", ['{"stop": 1}', "[1]", "{", ""])
def test_a_damaged_file_is_named_and_left_alone(tmp_path, line):
    path = tmp_path / "metrics.jsonl"
    content = '{"step": 0}\n' + line + '\n{"step": 2}\n'
    path.write_text(content)
    with pytest.raises(CheckpointError, match=r"metrics.jsonl, line 2: not a JSON object with a step"):
        metrics.truncate_jsonl(path, after_step=0)
    assert path.read_text() == content


def test_records_hold_no_nan(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        metrics.append_jsonl(tmp_path / "x.jsonl", {"step": 0, "x": float("nan")})
    assert not (tmp_path / "x.jsonl").exists()


def test_without_a_terminal_there_is_one_log_line_a_step_and_no_bar(caplog):
    output = io.StringIO()
    with caplog.at_level("INFO", logger="absl"):
        logging.set_verbosity(logging.INFO)
        with metrics.ProgressBar(10, first_step=4, console=rich.console.Console(file=output)) as bar:
            bar.update(5, {"train/reward_mean": 0.12345, "train/acc@1": 0.5, "train/loss": 3.0})
    assert [r.getMessage() for r in caplog.records] == ["step 5/10  reward 0.123  acc@1 50.0%"]
    assert output.getvalue() == ""


def test_long_phases_log_only_now_and_then(caplog):
    logging.set_verbosity(logging.INFO)
    with caplog.at_level("INFO", logger="absl"):
        console = rich.console.Console(file=io.StringIO())
        with metrics.ProgressBar(1000, label="corpus", log_every=400, console=console) as bar:
            for done in range(1, 1001):
                bar.update(done, {})
    lines = [record.getMessage().split()[:2] for record in caplog.records]
    assert lines == [["corpus", "400/1000"], ["corpus", "800/1000"], ["corpus", "1000/1000"]]


def test_on_a_terminal_the_bar_starts_at_the_resumed_step(caplog):
    output = io.StringIO()
    console = rich.console.Console(file=output, force_terminal=True, width=120)
    stream = logging.get_absl_handler().python_handler.stream
    with metrics.ProgressBar(10, first_step=4, console=console) as bar:
        assert logging.get_absl_handler().python_handler.stream is sys.stderr
        bar.update(5, {"train/tokens_per_second": 1234.5, "train/open_share": 0.25})
    assert logging.get_absl_handler().python_handler.stream is sys.stderr or stream is not sys.stderr
    text = output.getvalue()
    assert " 4/10" in text and " 5/10" in text and "open 25%" in text and "tok/s 1234" in text
    assert "0/10" not in text.replace("10/10", "")


def test_peak_memory_counts_living_children():
    size = 100 * 2**20
    code = f"x = bytearray({size}); del x; import sys; print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        with_child, child_alone = metrics.peak_memory_bytes(), metrics.peak_memory_bytes(child.pid)
        child.stdin.close()
    assert size < child_alone < size + 100 * 2**20
    assert with_child - metrics.peak_memory_bytes() > size * 0.9
