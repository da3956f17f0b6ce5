"""LEAP judged by more runs of every answer: 12 or 24 (`leap`: 6), in training, in evaluations and in its cold start.

    ./launch.sh --config=experiments/checker.py:24

The verifications of `leap`, each taking longer to run. There is no looser variant: 6 is what it takes to show a
composed task's answer every shape, in an ordinary input regime, and every regime. Expected result: fewer answers pass
that are right by accident, so accuracies are not comparable with those of `leap`; by how much is not known.
"""

from ml_collections import ConfigDict

from experiments import choose, leap

VARIANTS = ("12", "24")


def get_config(variant: str = "") -> ConfigDict:
    choice, rest = choose(variant, VARIANTS)
    config = leap.get_config(rest)
    config.kernels.checks = int(choice)
    return config
