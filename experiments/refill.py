"""LEAP with dynamic sampling (DAPO, arXiv 2503.14476): groups whose advantages are all 0 are replaced by fresh
prompts.

    ./launch.sh --config=experiments/refill.py

Costs more than `leap` a step: in up to 2 rounds as many prompts are asked again as groups taught nothing, up to 3
times the verifications; each counts. DAPO reports fewer steps to the same accuracy; whether fewer verifications, is
not known.
"""

from ml_collections import ConfigDict

from experiments import leap


def get_config(variant: str = "") -> ConfigDict:
    config = leap.get_config(variant)
    config.dead_groups.then = "refill"
    return config
