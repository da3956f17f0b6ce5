"""A run's folder: whose config it is, and the records of its rollouts."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from absl import logging
from ml_collections import ConfigDict

from experiments import leap
from leap_jax.checkpoint import CheckpointError, write_text
from leap_jax.experiment import flatten
from leap_jax.policy.tokenizer import Tokenizer
from leap_jax.rollout import Episode

LOGPROB_DIGITS = 2


def claim(workdir: Path, config: ConfigDict) -> None:
    """Write config.json into a new workdir, or make sure that the one there is the same.

    Raises CheckpointError where the folder cannot be written, or was made with another config; nothing in it is
    changed then.
    """
    path = workdir / "config.json"
    ours = json.loads(json.dumps(flatten(config)))
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        if path.exists():
            theirs = json.loads(path.read_text())
            different = sorted(k for k in ours.keys() | theirs.keys() if ours.get(k) != theirs.get(k))
            if different:
                values = ", ".join(f"{k} was {theirs.get(k)!r}, is {ours.get(k)!r}" for k in different)
                raise CheckpointError(f"{workdir} holds a run with another config ({values}): choose another --workdir")
            return
        write_text(path, json.dumps(ours, indent=1, sort_keys=True) + "\n")
    except OSError as error:
        raise CheckpointError(
            f"cannot write {workdir}: {error.strerror}; choose another --workdir or make room"
        ) from error
    except ValueError as error:
        raise CheckpointError(
            f"{path} is not readable as JSON ({error}): remove it or choose another --workdir"
        ) from error


@contextmanager
def locked(workdir: Path) -> Iterator[None]:
    """Keep other processes out of a run folder. CheckpointError where one is in it."""
    with (workdir / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise CheckpointError(
                f"{workdir} is in use by another process: wait for its end or choose another --workdir"
            ) from error
        yield


def rollout_records(
    step: int,
    groups: Sequence[Sequence[Episode]],
    rewards: np.ndarray,
    advantages: np.ndarray,
    tokenizer: Tokenizer,
) -> Iterator[dict[str, Any]]:
    """One record for every turn: what was asked, written, said and earned.

    rewards [P, G], the same in every turn of a rollout, or [P, G, T]; advantages [P, G, T].
    """
    rewards = np.broadcast_to(rewards if rewards.ndim == 3 else rewards[..., None], advantages.shape)
    for p, group in enumerate(groups):
        for g, episode in enumerate(group):
            for t in range(len(episode.turns)):
                earned = {"reward": float(rewards[p, g, t]), "advantage": float(advantages[p, g, t])}
                yield turn_record(step, p, g, t, episode, tokenizer) | earned


def turn_record(
    step: int, prompt: int, rollout: int, turn_index: int, episode: Episode, tokenizer: Tokenizer
) -> dict[str, Any]:
    """What one turn was, without what it earned.

    `token_lengths` cuts the response, in characters, into the tokens that `logprobs` are of. A first turn has the
    text of its prompt.
    """
    turn = episode.turns[turn_index]
    asked = {"prompt_text": tokenizer.decode(episode.prompt_ids)} if turn_index == 0 else {}
    return {
        "step": step,
        "task": episode.task,
        "repair": episode.is_repair,
        "prompt": prompt,
        "rollout": rollout,
        "turn": turn_index + 1,
        **asked,
        "response": turn.text,
        "response_tokens": len(turn.response_ids),
        "truncated": turn.truncated,
        "outcome": str(turn.verdict.outcome),
        "stage": turn.verdict.stage,
        "time_us": turn.verdict.time_us,
        "feedback": turn.feedback,
        "token_lengths": tokenizer.token_lengths(turn.response_ids),
        "logprobs": [round(float(logprob), LOGPROB_DIGITS) + 0.0 for logprob in turn.sampled_logprobs],  # no -0.0
    }


def evaluation_records(step: int, groups: Sequence[Sequence[Episode]], tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """One record for every turn of an evaluation, in order."""
    return [
        turn_record(step, p, g, t, episode, tokenizer)
        for p, group in enumerate(groups)
        for g, episode in enumerate(group)
        for t in range(len(episode.turns))
    ]


def write_evaluation(workdir: Path, name: str, records: Sequence[Mapping[str, Any]]) -> None:
    """Write records to eval/NAME.jsonl, complete or not at all."""
    folder = workdir / "eval"
    folder.mkdir(exist_ok=True)
    write_text(folder / f"{name}.jsonl", "".join(json.dumps(record) + "\n" for record in records))


def stored_config(workdir: Path) -> ConfigDict:
    """The config that a run was made with. A key newer than the run gets its value in experiments/leap.py.

    Raises CheckpointError with one line where there is none.
    """
    path = workdir / "config.json"
    try:
        stored = json.loads(path.read_text())
        nested: dict[str, Any] = {}
        for key, value in stored.items():
            *sections, last = key.split(".")
            section = reduce(lambda outer, name: outer.setdefault(name, {}), sections, nested)
            section[last] = tuple(value) if isinstance(value, list) else value
        config = leap.get_config()
        with config.unlocked():
            config.update(nested)
    except OSError as error:
        raise CheckpointError(f"{workdir} is no folder of a run: {path.name}: {error.strerror}") from error
    except (ValueError, AttributeError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{path} is not the config of a run ({reason}): name another folder") from error
    if newer := sorted(flatten(config).keys() - stored.keys()):
        logging.warning("%s is older than the keys %s: they have their values in experiments/leap.py", workdir, newer)
    return config
