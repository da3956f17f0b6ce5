"""LEAP with a KL term that holds the policy near its cold start, of weight 0.001 or 0.01 (`leap`: none).

    ./launch.sh --config=experiments/kl.py:0.01

The verifications of `leap`; every update also reads its tokens with the reference. Expected result: not known;
MusaCoder has such a term, Kevin, Dr. Kernel and DAPO have none.
"""

from ml_collections import ConfigDict

from experiments import choose, leap

VARIANTS = ("0.001", "0.01")


def get_config(variant: str = "") -> ConfigDict:
    choice, rest = choose(variant, VARIANTS)
    config = leap.get_config(rest)
    config.objective.kl_coef = float(choice)
    return config
