"""The tournament without the gate: every failing rollout is debugged. With `leap`, `unpruned` and `any_success_pruned`
it makes the 2 x 2 of reward and gate.

    ./launch.sh --config=experiments/tournament_unpruned.py

Costs as much as `unpruned`, the most of all. In the paper's ablation it is a little worse than LEAP (Acc@3 80.4 %
against 80.8 %, one task of 250); its unpruned methods take 950 s a step against 700 s.
"""

from ml_collections import ConfigDict

from experiments import leap


def get_config(variant: str = "") -> ConfigDict:
    config = leap.get_config(variant)
    config.gate.mode = "always"
    return config
