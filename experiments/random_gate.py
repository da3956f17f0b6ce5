"""LEAP with a gate that opens as many groups as DCP would, drawn at random: the control for its choice of groups.

    ./launch.sh --config=experiments/random_gate.py

About the cost of `leap`. If it does as well, it is the saving that helps and not which groups are debugged. The
share of open groups is `train/open_share`, in both.
"""

from ml_collections import ConfigDict

from experiments import leap


def get_config(variant: str = "") -> ConfigDict:
    config = leap.get_config(variant)
    config.gate.mode = "random"
    return config
