"""LEAP that debugs the easy half: groups in which fewer than half of the rollouts fail.

    ./launch.sh --config=experiments/lt_half.py

Costs less than `leap` as long as few rollouts fail: there are fewer to debug in each group. The paper's ablation: more
groups open (57 % against 44 %), more of them recover, yet Acc@3 ends lower (77.6 % against 80.8 %).
"""

from ml_collections import ConfigDict

from experiments import leap


def get_config(variant: str = "") -> ConfigDict:
    config = leap.get_config(variant)
    config.gate.mode = "lt_half"
    return config
