"""Stands in for `leap_jax.main` where only the driver is tested: a run folder that fills in four short steps.

Goes on where it stopped, as the real one does; SIGINT lets it finish its step. `--config.seed=13` fails.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

from leap_jax.experiment import flatten, load

STEPS, STEP_SECONDS = 4, 0.3


def main() -> None:
    flags = dict(argument.removeprefix("--").split("=", 1) for argument in sys.argv[1:])
    workdir, path = Path(flags.pop("workdir")), flags.pop("config")
    if flags["config.seed"] == "13":
        sys.exit("something else\nerror: the seed is unlucky")
    stopping = []
    signal.signal(signal.SIGINT, lambda *_: stopping.append(True))
    config = load(path, [f"{key.removeprefix('config.')}={value}" for key, value in flags.items()])
    (workdir / "config.json").write_text(json.dumps(flatten(config)))
    metrics = workdir / "metrics.jsonl"
    done = len(metrics.read_text().splitlines()) if metrics.exists() else 0
    with (workdir / "starts").open("a") as starts:
        starts.write(f"{done}\n")
    for step in range(done + 1, STEPS + 1):
        time.sleep(STEP_SECONDS)
        values = {"step": step, "total/progress": step / STEPS, "total/verifications": 10 * step}
        with metrics.open("a") as file:
            file.write(json.dumps(values | {"eval/heldout/acc@1": 0.1 * step, "eval/heldout/acc@2": 0.2}) + "\n")
        (workdir / "checkpoints" / str(step)).mkdir(parents=True)
        if stopping:
            return


if __name__ == "__main__":
    main()
