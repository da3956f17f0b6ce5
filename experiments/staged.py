"""LEAP with a gate that looks at how a group fails: only answers that do not compile count towards T_max.

    ./launch.sh --config=experiments/staged.py

Costs more than `leap` by the all-failed groups in which at least one answer compiles; on this policy that is most of
them. Expected result: not known. Of a group that fails on what it computes alone, feedback names the wrong elements.
"""

from ml_collections import ConfigDict

from experiments import leap


def get_config(variant: str = "") -> ConfigDict:
    config = leap.get_config(variant)
    config.gate.mode = "staged"
    return config
