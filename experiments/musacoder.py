"""MusaCoder (arXiv 2606.04847), correctness alone: PrimeEcho rewards the first turn and the best one, only the first
turn is learnt from, failed prompts are retried, sequences that drifted are dropped (MirrorPop), a KL term holds the
policy.

    ./launch.sh --config=experiments/musacoder.py

Costs as much as `unpruned`, plus the reference's log-probabilities. Its reward for speed needs times, which the
emulator does not give yet: `reward_options.speed_weight` is 0. The early bonus, MirrorPop's limit and the weight of
the KL term are not published; those here are assumed. Expected result: not known; by its paper PrimeEcho, the retries
and MirrorPop are worth 5 to 7 points of Pass@8 each.
"""

from ml_collections import ConfigDict

from experiments import leap


def get_config(variant: str = "") -> ConfigDict:
    config = leap.get_config(variant)
    config.gate.mode = "always"
    config.dead_groups.then = "retry_buffer"
    config.reward = "first_turn_weighted"
    config.reward_options.speed_weight = 0.0
    config.advantage = "mean_std"
    config.credit.rule = "first_turn"
    config.objective.mirror_pop = 0.05
    config.objective.kl_coef = 0.001
    return config
