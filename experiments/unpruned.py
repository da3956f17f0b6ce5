"""Multi-turn GRPO without pruning: every failing rollout is debugged, any eventual success earns 1.

    ./launch.sh --config=experiments/unpruned.py

Costs the most verdicts a step. What DCP and the tournament are there to improve on: all turns are paid for, and a
late success earns as much as an early one ("reward dilution").
"""

from ml_collections import ConfigDict

from experiments import leap


def get_config(variant: str = "") -> ConfigDict:
    config = leap.get_config(variant)
    config.gate.mode = "always"
    config.reward = "any_success"
    config.advantage = "mean_std"
    config.credit.rule = "uniform"
    return config
