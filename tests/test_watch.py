"""The terminal's view of a run: every state it can be in, and files in every condition."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest
import rich.console
from conftest import ROOT
from recorded_runs import write_run

from leap_jax import watch


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return write_run(
        tmp_path_factory.mktemp("runs") / "leap-0", steps=4, groups=lambda step: [["c", "iic", "iii", "i"]]
    )


@pytest.fixture
def running(finished, tmp_path):
    """The same run with its last step not yet taken; its files are new."""
    run = tmp_path / "leap-0"
    (run / "eval").mkdir(parents=True)
    (run / "config.json").write_bytes((finished / "config.json").read_bytes())
    for name in ("metrics.jsonl", "rollouts.jsonl"):
        lines = (finished / name).read_text().splitlines(keepends=True)
        (run / name).write_text("".join(line for line in lines if json.loads(line)["step"] < 4) + lines[-1][:40])
    return run


def shown(run) -> str:
    console = rich.console.Console(width=200, color_system=None)
    with console.capture() as capture:
        console.print(watch.picture(watch.look(run)))
    return capture.get()


def age(run, seconds: float) -> None:
    then = time.time() - seconds
    for path in (*run.rglob("*"), run):
        os.utime(path, (then, then))


def test_a_running_run(running):
    text = shown(running)
    assert text.startswith(f"{running}  running, last written")
    assert "step 3, 75% of the budget, about 4 s left, 24 verifications" in text  # three steps of 4.5 s, one to go
    assert "train Acc@1     25.0%  ▁▁▁" in text
    assert "entropy         0.333  █▃▁  0.333 to 1.000" in text
    assert "correct     25%  ████████" in text and "incorrect   75%  ████████████████████████" in text


def test_the_last_failures_come_with_their_feedback(running):
    lines = shown(running).splitlines()
    at = lines.index("last failures")
    assert lines[at + 1 : at + 3] == ["  step 3, composed/30, turn 2", "    line 4: wrong"]
    assert lines[at + 3].startswith("  step 2, composed/20")


def test_a_finished_run(finished):
    age(finished, 10_000)
    assert shown(finished).startswith(f"{finished}  finished\nstep 4, 100% of the budget, 32 verifications")


def test_a_killed_run_is_told_from_one_whose_steps_are_long(running):
    age(running, 600)
    assert shown(running).startswith(
        f"{running}  stopped or killed: nothing written for 10 min; the same command goes on"
    )
    lines = [
        json.loads(line) | {"seconds/step": 70.0} for line in (running / "metrics.jsonl").read_text().splitlines()[:-1]
    ]
    (running / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    age(running, 600)
    assert shown(running).startswith(f"{running}  running, last written 10 min ago")


def test_a_run_that_has_not_begun(running):
    (running / "metrics.jsonl").unlink()
    (running / "rollouts.jsonl").unlink()
    age(running, 300)
    assert shown(running) == (f"{running}  preparing: cold start or first evaluation; nothing written for 5 min\n")
    (running / "config.json").unlink()
    assert shown(running) == f"{running}  has not begun: there is no config.json yet\n"


def test_damage_is_named_and_the_rest_is_shown(running):
    path = running / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:3], "{]\n", *lines[3:]]))
    text = shown(running)
    assert f"{path}, line 4: not a JSON object with a step" in text.replace("\n", " ").replace("  ", " ")
    assert "step 2, 50% of the budget" in text


def test_what_a_model_writes_does_not_reach_the_terminal(running):
    turn = {"step": 3, "task": "a\x1b]0;title\x07", "turn": 1, "outcome": "incorrect"}
    turn |= {"feedback": "\x1b[2J\x9b31m [red]bold[/red] \u202e" + "x" * 10_000}
    with (running / "rollouts.jsonl").open("w") as file:
        file.write(json.dumps(turn) + "\n")
    text = shown(running)
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(text)
    assert "[red]bold[/red]" in text and text.count("x" * 20) < 30


def test_it_writes_nothing(running):
    before = {path: path.stat().st_mtime_ns for path in running.rglob("*")}
    shown(running)
    assert {path: path.stat().st_mtime_ns for path in running.rglob("*")} == before


@pytest.mark.parametrize(
    ("values", "line"),
    [([1, 2, 3], "▁▅█"), ([2, 2], "▁▁"), ([0, 1], "▁█"), ([0] * 64 + [7] * 64, "▁" * 16 + "█" * 16)],
)
def test_sparklines(values, line):
    assert watch.sparkline(values) == line


def command(*arguments, **environment) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "leap_jax.watch", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_piped_output_is_plain_and_printed_once(running):
    done = command(running)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{running}  running") and "\x1b" not in done.stdout


def test_no_such_run_is_an_error_of_one_line(tmp_path):
    done = command(tmp_path / "absent")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"leap_jax.watch: {tmp_path / 'absent'}: no such folder\n"
    (tmp_path / "config.json").write_text("{}")
    done = command(tmp_path)
    assert (done.returncode, done.stderr) == (1, f"leap_jax.watch: {tmp_path}/config.json: no number steps\n")


def test_a_terminal_is_refreshed_until_the_run_is_finished(running, finished, monkeypatch):
    """Each pause of the watch is a step of the run; the last one ends it."""
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            (running / "metrics.jsonl").write_bytes((finished / "metrics.jsonl").read_bytes())

    output = []
    monkeypatch.setattr(watch.time, "sleep", pause)
    monkeypatch.setattr(
        watch, "Console", lambda **_: rich.console.Console(file=Output(output), force_terminal=True, width=160)
    )
    assert watch.main([str(running), "--every=0.5"]) == 0
    assert pauses == [0.5, 0.5]
    text = "".join(output)
    assert text.index("running, last written") < text.index("finished")


class Output:
    def __init__(self, written: list[str]) -> None:
        self.write, self.flush = written.append, lambda: None
