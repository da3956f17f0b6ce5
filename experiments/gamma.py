"""LEAP with other discounts of a positive reward per turn before the passing one: 0, 0.4, 0.8, 0.9 or 1 (`leap`: 0.5).

    ./launch.sh --config=experiments/gamma.py:0.8

The cost of `leap`. The paper does not publish its discount. 0 credits the passing turn alone; 1 rewards a failed first
answer as much as the repair, wherever the repair is rare. Kevin found 0.4 best for its sums. Expected result: not
known.
"""

from ml_collections import ConfigDict

from experiments import choose, leap

VARIANTS = ("0", "0.4", "0.8", "0.9", "1")


def get_config(variant: str = "") -> ConfigDict:
    choice, rest = choose(variant, VARIANTS)
    config = leap.get_config(rest)
    config.credit.gamma = float(choice)
    return config
