"""The entry point: `python -m leap_jax.main --config=experiments/leap.py [--workdir=DIR] [--config.KEY=VALUE ...]`.

Trains, resuming what the workdir holds; with --evaluate, scores its latest checkpoint on held-out tasks instead.
Everything heavy is imported inside `main`, so that a bad flag is refused at once.
"""

from __future__ import annotations

import logging as python_logging
import sys
from pathlib import Path

from absl import app, flags, logging
from ml_collections import config_flags

from leap_jax.experiment import ConfigError, flag_errors

CONFIG = config_flags.DEFINE_config_file("config", None, "The experiment, a file in experiments/.", lock_config=True)
WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the run; by default runs/<experiment>.")
EVALUATE = flags.DEFINE_boolean("evaluate", False, "Evaluate the latest checkpoint of the workdir and stop.")


def parse_flags(argv: list[str]) -> list[str]:
    """Parse flags; a bad one ends the program with one line that names it."""
    try:
        with flag_errors():
            rest = flags.FLAGS(argv)
            if len(rest) > 1:
                raise ValueError(f"unexpected argument {rest[1]!r}: every option starts with --")
            if flags.FLAGS["config"].value is None:
                raise ValueError("--config is missing: give an experiment, such as --config=experiments/leap.py")
            CONFIG.value.to_dict()  # a file that does not load raises here
    except ConfigError as error:
        sys.exit(f"error: {error}")
    return rest


def default_workdir() -> Path:
    """`runs/leap-smoke` for --config=experiments/leap.py:smoke."""
    path, _, variant = config_flags.get_config_filename(flags.FLAGS["config"]).partition(":")
    return Path("runs") / "-".join(filter(None, (Path(path).stem, variant.replace("/", "-"))))


def main(argv: list[str]) -> None:
    del argv
    python_logging.getLogger("jax").setLevel(python_logging.WARNING)  # it reports every platform it does not find
    from leap_jax import evaluate_run, train
    from leap_jax.checkpoint import CheckpointError
    from leap_jax.interrupt import Interrupted
    from leap_jax.kernels.compiler import CompilerUnavailable

    workdir = Path(WORKDIR.value) if WORKDIR.value else default_workdir()
    try:
        if EVALUATE.value:
            evaluate_run.evaluate_latest(CONFIG.value, workdir)
        else:
            train.train(CONFIG.value, workdir)
    except Interrupted:
        logging.info("stopped before the first step; the same command starts again")
    except (ConfigError, CheckpointError, CompilerUnavailable, train.RunError, FloatingPointError, OSError) as error:
        logging.debug("", exc_info=True)
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    logging.set_verbosity(logging.INFO)
    app.run(main, flags_parser=parse_flags)
