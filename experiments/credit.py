"""LEAP with another rule for what a rollout's turns get of its reward: leap_forward, uniform, last_turn or first_turn.

    ./launch.sh --config=experiments/credit.py:last_turn

The cost of `leap`. leap_forward is the other reading of the paper (later turns get less); uniform gives every turn all
of it, the failed ones as well; last_turn only the passing one; first_turn only the first, as MusaCoder does. Expected
result: not known. Watch `train/advantage/pass_2/turn_1`: what failed first answers get for their repair.
"""

from ml_collections import ConfigDict

from experiments import choose, leap

VARIANTS = ("leap_forward", "uniform", "last_turn", "first_turn")


def get_config(variant: str = "") -> ConfigDict:
    choice, rest = choose(variant, VARIANTS)
    config = leap.get_config(rest)
    config.credit.rule = choice
    return config
