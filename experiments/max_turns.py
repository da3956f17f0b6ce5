"""LEAP with at most 1, 2 or 4 turns (`leap`: 3). With 1 it is the tournament alone; the gate then decides nothing.

    ./launch.sh --config=experiments/max_turns.py:2

Costs less or more than `leap` by the turns of open groups. Evaluations keep their 3 turns. Expected result: not known;
with 2 a late pass is always the last, and gamma weighs one step only.
"""

from ml_collections import ConfigDict

from experiments import choose, leap

VARIANTS = ("1", "2", "4")


def get_config(variant: str = "") -> ConfigDict:
    choice, rest = choose(variant, VARIANTS)
    config = leap.get_config(rest)
    config.max_turns = int(choice)
    return config
