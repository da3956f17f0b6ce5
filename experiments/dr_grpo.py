"""Single-turn Dr. GRPO (arXiv 2503.20783): no division by the standard deviation, nor by the length of a response.

    ./launch.sh --config=experiments/dr_grpo.py

Costs as much as `grpo`. Expected result by its paper: as accurate as GRPO with shorter wrong responses.
"""

from ml_collections import ConfigDict

from experiments import leap


def get_config(variant: str = "") -> ConfigDict:
    config = leap.get_config(variant)
    config.gate.mode = "never"
    config.reward = "any_success"
    config.advantage = "mean"
    config.credit.rule = "uniform"
    config.objective.aggregation = "constant"
    return config
