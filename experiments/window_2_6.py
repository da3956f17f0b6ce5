"""LEAP with a window in the middle: from a quarter to three quarters of the rollouts fail, 2 to 6 of 8.

    ./launch.sh --config=experiments/window_2_6.py

About the cost of `leap`: groups of one success are given up, easier ones are debugged. Expected result: not known; the
thresholds of the paper are not published.
"""

from ml_collections import ConfigDict

from experiments import leap


def get_config(variant: str = "") -> ConfigDict:
    config = leap.get_config(variant)
    config.gate.t_min = config.group_size // 4
    config.gate.t_max = 3 * config.group_size // 4
    return config
