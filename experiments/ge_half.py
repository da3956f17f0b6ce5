"""LEAP that debugs the hard half: groups in which at least half of the rollouts fail, all-failed ones included.

    ./launch.sh --config=experiments/ge_half.py

Costs more than `leap` by the debugging of all-failed groups. In the paper's ablation this is the row with the
headline's Acc@3 (80.8 %), so the paper's own T_max may well be G; `leap` takes G - 1. Compare `t_max_off`, which is
the same gate for groups from which no rollout has left.
"""

from ml_collections import ConfigDict

from experiments import leap


def get_config(variant: str = "") -> ConfigDict:
    config = leap.get_config(variant)
    config.gate.mode = "ge_half"
    return config
