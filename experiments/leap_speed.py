"""LEAP whose tournament breaks ties among correct answers by their time, and near ties by the length of the response.

    ./launch.sh --config=experiments/leap_speed.py

The verifications of `leap`, each with a timing. Needs a device that gives times: on the emulator, which gives none
yet, it is refused. Expected result: not known; the paper's reward is correctness alone.
"""

from ml_collections import ConfigDict

from experiments import leap


def get_config(variant: str = "") -> ConfigDict:
    config = leap.get_config(variant)
    config.reward = "tournament_speed"
    return config
