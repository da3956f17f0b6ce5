"""LEAP sampling at temperature 0.7 or 1.3 (`leap`: 1), in training and in its evaluations.

    ./launch.sh --config=experiments/temperature.py:0.7

About the cost of `leap`. Expected result: not known. Less noise gives a better first answer now, and groups that are
more alike, which teach less. MusaCoder trains at 0.9.
"""

from ml_collections import ConfigDict

from experiments import choose, leap

VARIANTS = ("0.7", "1.3")


def get_config(variant: str = "") -> ConfigDict:
    choice, rest = choose(variant, VARIANTS)
    config = leap.get_config(rest)
    config.sampling.temperature = float(choice)
    return config
