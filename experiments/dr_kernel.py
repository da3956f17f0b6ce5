"""Dr. Kernel (arXiv 2602.05885), correctness alone: the sum of what a turn and those after it earn, against the mean
of the other rollouts at that turn (TRLOO); every turn is a sequence of its own.

    ./launch.sh --config=experiments/dr_kernel.py

Costs as much as `unpruned`. Its reward for speed needs times, which the emulator does not give yet:
`reward_options.speed_weight` is 0. The LEAP paper has it below LEAP at turn 1 and even at turn 3: Acc@1 68.4 % against
70.0 %, Acc@3 80.4 % against 80.8 %, at 950 s a step against 700 s.
"""

from ml_collections import ConfigDict

from experiments import leap


def get_config(variant: str = "") -> ConfigDict:
    config = leap.get_config(variant)
    config.gate.mode = "always"
    config.reward = "speedup_capped"
    config.reward_options.speed_weight = 0.0
    config.advantage = "leave_one_out"
    config.advantage_over = "turn"
    config.credit.rule = "reward_to_go"
    config.credit.gamma = 1.0
    config.objective.sequence = "turn"
    config.objective.aggregation = "sequence_sum"
    config.objective.token_veto = 1e-4
    config.objective.geometric_margin = 1e-3
    return config
