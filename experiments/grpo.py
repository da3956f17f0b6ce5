"""Single-turn GRPO (arXiv 2402.03300): one turn, 0/1 reward, standardised within the group.

    ./launch.sh --config=experiments/grpo.py

About the cost of `leap` a step, less the debugging turns. The baseline that LEAP's first-turn accuracy is held against.
"""

from ml_collections import ConfigDict

from experiments import leap


def get_config(variant: str = "") -> ConfigDict:
    config = leap.get_config(variant)
    config.gate.mode = "never"
    config.reward = "any_success"
    config.advantage = "mean_std"
    config.credit.rule = "uniform"
    return config
