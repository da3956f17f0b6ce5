"""The gate without the tournament: LEAP's window, and multi-turn GRPO's reward, 1 for a pass at any turn. With `leap`,
`unpruned` and `tournament_unpruned` it makes the 2 x 2 of reward and gate.

    ./launch.sh --config=experiments/any_success_pruned.py

About the cost of `leap`. Expected result: not known; a late success earns as much as an early one, but the gate keeps
easy groups, where that matters most, from having late ones.
"""

from ml_collections import ConfigDict

from experiments import leap


def get_config(variant: str = "") -> ConfigDict:
    config = leap.get_config(variant)
    config.reward = "any_success"
    config.advantage = "mean_std"
    config.credit.rule = "uniform"
    return config
