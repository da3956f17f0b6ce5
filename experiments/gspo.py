"""LEAP with GSPO's importance ratio (arXiv 2507.18071): one per sequence, the geometric mean of its tokens', clipped
hard.

    ./launch.sh --config=experiments/gspo.py

The cost of `leap`. Expected result: as `leap`, since a step is one update and the ratio is 1 in its first; it matters
with --config.optimizer.updates_per_step=4.
"""

from ml_collections import ConfigDict

from experiments import leap


def get_config(variant: str = "") -> ConfigDict:
    config = leap.get_config(variant)
    config.objective.ratio = "sequence"
    config.objective.aggregation = "sequence"
    config.objective.clip_low = 3e-4
    config.objective.clip_high = 4e-4
    return config
