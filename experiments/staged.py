"""LEAP that looks at how answers fail: in the gate, where only answers that do not compile count towards T_max; in the
reward, where failures are ranked by how far they got (a hack < ... < compile error < ... < incorrect); or in both.

    ./launch.sh --config=experiments/staged.py:gate

With gate or both it costs more than `leap`, by the all-failed groups in which an answer compiles; on this policy that
is nearly all of them. With reward it costs the same, and groups that fail whole teach something. Expected result: not
known; Kevin reports that rewarding what only compiles hurts.
"""

from ml_collections import ConfigDict

from experiments import choose, leap

VARIANTS = ("gate", "reward", "both")


def get_config(variant: str = "") -> ConfigDict:
    choice, rest = choose(variant, VARIANTS)
    config = leap.get_config(rest)
    if choice in ("gate", "both"):
        config.gate.mode = "staged"
    if choice in ("reward", "both"):
        config.reward = "tournament_staged"
    return config
