"""Murphy (arXiv 2511.07833) on chains: turns earn their share of passed checks, each gets the best of what follows
(MaRS), and is compared with the others at its turn.

    ./launch.sh --config=experiments/murphy.py

Costs as much as `unpruned`. Murphy expands trees and compares siblings of one parent; a chain has one child a turn, so
the rollouts of a prompt that took the turn stand in for siblings. The LEAP paper has it below LEAP: Acc@1 67.6 %
against 70.0 %, Acc@3 77.2 % against 80.8 %, at 950 s a step against 700 s.
"""

from ml_collections import ConfigDict

from experiments import leap


def get_config(variant: str = "") -> ConfigDict:
    config = leap.get_config(variant)
    config.gate.mode = "always"
    config.reward = "checks"
    config.advantage = "mean_std"
    config.advantage_over = "turn"
    config.credit.rule = "max_to_go"
    config.credit.gamma = 1.0
    return config
