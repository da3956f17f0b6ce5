"""LEAP with groups of 4 or 16 rollouts (`leap`: 8).

    ./launch.sh --config=experiments/group_size.py:16

The prompts of a step are the same, so a step costs half or twice as much as one of `leap`; compare at equal
verifications. The thresholds follow: ceil(G / 2) and G - 1. Expected result: not known. The smaller the group, the
noisier its gate, and the more groups are all alike and teach nothing.
"""

from ml_collections import ConfigDict

from experiments import choose, leap

VARIANTS = ("4", "16")


def get_config(variant: str = "") -> ConfigDict:
    choice, rest = choose(variant, VARIANTS)
    config = leap.get_config(rest)
    config.group_size = config.group_size * int(choice) // 8  # the smoke variant has half of it
    return config
