"""LEAP without the upper threshold: no group is catastrophic, those that fail whole are debugged as well.

    ./launch.sh --config=experiments/t_max_off.py

Costs more than `leap`: 2 turns for each of the 8 rollouts of an all-failed group, unless they pass. Expected result:
not known; it is where rare solutions of hard tasks can come from, and where most debugging is in vain.
"""

from ml_collections import ConfigDict

from experiments import leap


def get_config(variant: str = "") -> ConfigDict:
    config = leap.get_config(variant)
    config.gate.t_max = config.group_size
    return config
