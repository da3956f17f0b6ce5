"""LEAP whose tournament passes through GRPO's division by the group's standard deviation.

    ./launch.sh --config=experiments/std_norm.py

The cost of `leap`. The paper leaves open whether it is done. It brings back a scale: of 8 rollouts a lone success gets
2.65 in place of 1. Expected result: not known; mind that the steps become larger at the same learning rate.
"""

from ml_collections import ConfigDict

from experiments import leap


def get_config(variant: str = "") -> ConfigDict:
    config = leap.get_config(variant)
    config.advantage = "mean_std"
    return config
