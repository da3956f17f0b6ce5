"""LEAP with MusaCoder's buffered dynamic retry (arXiv 2606.04847): prompts whose whole group failed come back as
repairs.

    ./launch.sh --config=experiments/retry_buffer.py

One prompt in ten of a step is then an earlier failure: the task, the answer that came closest, its feedback. As many
verifications as `leap`; decoding is slower, since every prompt gets the room of the longest. MusaCoder reports 4.6
points of Pass@8 and 5.4 of Avg@8 for its model of 27B.
"""

from ml_collections import ConfigDict

from experiments import leap


def get_config(variant: str = "") -> ConfigDict:
    config = leap.get_config(variant)
    config.dead_groups.then = "retry_buffer"
    return config
