"""Kevin (arXiv 2507.11948), correctness alone: the sum of what a turn and those after it earn, discounted by 0.4,
standardised over all turns of all rollouts of a prompt; every turn is a sequence of its own.

    ./launch.sh --config=experiments/kevin.py

Costs as much as `unpruned`. Its reward for speed needs times, which the emulator does not give yet:
`reward_options.speed_weight` is 0. Expected result: not known for these sizes. By its paper multi-turn training gains
speed over single-turn, and hardly any correctness (82 % of tasks solved by the best of 16, in both).
"""

from ml_collections import ConfigDict

from experiments import leap


def get_config(variant: str = "") -> ConfigDict:
    config = leap.get_config(variant)
    config.gate.mode = "always"
    config.reward = "kevin"
    config.reward_options.speed_weight = 0.0
    config.advantage = "mean_std"
    config.credit.rule = "reward_to_go"
    config.credit.gamma = 0.4
    config.objective.sequence = "turn"
    config.objective.aggregation = "sequence"
    return config
