"""LEAP with a gate that knows more than one group: the posterior of the group's pass rate, given that of tasks like
it.

    ./launch.sh --config=experiments/pass_rate.py

The prior is the recent pass rate of the task's class (kind and number of operations; no training task comes twice) and
weighs as much as 8 rollouts. About the cost of `leap`. Expected result: not known. It is meant against the gate's
noise: of tasks that are solved once in ten times, 43 % of the groups of 8 fail whole, and the window gives them up.
"""

from ml_collections import ConfigDict

from experiments import leap


def get_config(variant: str = "") -> ConfigDict:
    config = leap.get_config(variant)
    config.gate.mode = "pass_rate"
    return config
