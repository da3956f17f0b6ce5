"""LEAP that asks the gate again after every turn: a group that left the window stops, whoever still fails in it.

    ./launch.sh --config=experiments/recheck.py

Costs a little less than `leap`: a third turn is not paid for where fewer than half still fail. Expected result: not
known; the paper's wording suggests one decision. `train/still_open_share` is the share that is open to the end.
"""

from ml_collections import ConfigDict

from experiments import leap


def get_config(variant: str = "") -> ConfigDict:
    config = leap.get_config(variant)
    config.gate.recheck_each_turn = True
    return config
