"""One file per experiment: `get_config(variant)`, a few lines over `leap`."""

from __future__ import annotations


def choose(variant: str, choices: tuple[str, ...]) -> tuple[str, str]:
    """Split a variant such as "0.8+smoke" into one of an experiment's choices and the rest, which is for `leap`.

    Where none is named it is the first of them. Raises ValueError for an unknown one.
    """
    choice, _, rest = variant.partition("+")
    if choice in choices:
        return choice, rest
    if variant not in ("", "smoke"):
        raise ValueError(f"variant {variant!r} is unknown: one of {', '.join(choices)}, with +smoke after it or not")
    return choices[0], variant
