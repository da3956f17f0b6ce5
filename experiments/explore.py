"""LEAP that opens one closed group in ten all the same, so that what debugging would bring there stays measured.

    ./launch.sh --config=experiments/explore.py

Costs up to a tenth of what `unpruned` costs over `leap`; it is logged apart (`train/explored_debug_verifications`,
`train/explored_recovery`, beside those of the groups that the gate opened). Expected result: as `leap`, to see whether
its thresholds are where recovery begins and ends.
"""

from ml_collections import ConfigDict

from experiments import leap


def get_config(variant: str = "") -> ConfigDict:
    config = leap.get_config(variant)
    config.gate.explore_prob = 0.1
    return config
