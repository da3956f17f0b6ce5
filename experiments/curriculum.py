"""LEAP on tasks that become harder: at most 2 operations for a third of the budget, then at most 3, then at most 4.

    ./launch.sh --config=experiments/curriculum.py

Costs less than `leap` at first, since more rollouts pass, and as much at the end. Does not see the same prompts as the
other experiments. Expected result: not known; MusaCoder loses 2.4 points of Pass@8 without its warm-up, and Kevin
reports that training on easy tasks alone stops helping.
"""

from ml_collections import ConfigDict

from experiments import leap


def get_config(variant: str = "") -> ConfigDict:
    config = leap.get_config(variant)
    config.curriculum.max_operations = (2, 3, 4)
    return config
