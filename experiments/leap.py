"""LEAP with the small policy on composed kernel tasks: the default experiment.

    ./launch.sh                                            # full, no GPU; sized for half an hour on 2 quiet cores
    ./launch.sh --config=experiments/leap.py:smoke         # the same code shrunk, under 3 minutes

Paper's settings where they are known (arXiv 2608.01804): 8 rollouts, 3 turns. The thresholds, the discount, clip and
KL are not published; README lists the readings taken here. Every key of every experiment is written in this file.
"""

from ml_collections import ConfigDict, config_dict


def get_config(variant: str = "") -> ConfigDict:
    """The config; `variant` is "" or "smoke"."""
    if variant not in ("", "smoke"):
        raise ValueError(f"experiments/leap.py has the variants '' and 'smoke', not {variant!r}")
    config = ConfigDict()
    config.seed = 0
    config.steps = 80  # the most a run takes
    config.budget = ConfigDict()  # more limits, None: none; whichever is spent first ends the run
    config.budget.verifications = config_dict.placeholder(int)
    config.budget.response_tokens = config_dict.placeholder(int)
    config.budget.train_seconds = config_dict.placeholder(float)  # of training steps, evaluations not counted
    config.prompts_per_step = 16
    config.group_size = 8  # rollouts of one prompt, G
    config.max_turns = 3  # T
    config.curriculum = ConfigDict()
    config.curriculum.max_operations = ()  # most operations of a task in equal shares of the budget, (2, 3, 4); (): any
    config.cache_dir = "~/.cache/leap_jax"  # verified corpora, cold-started weights, compiled steps

    # The method: which groups go on, what a group's outcomes are worth, and to which turn.
    config.gate = ConfigDict()
    config.gate.mode = "window"  # window (DCP), always, never, random, lt_half, ge_half, pass_rate, staged
    config.gate.t_min = config_dict.placeholder(int)  # fewest failures of an open group; None: ceil(G / 2)
    config.gate.t_max = config_dict.placeholder(int)  # most failures of an open group; None: G - 1
    config.gate.recheck_each_turn = False  # decide again after every turn; else once, after the first
    config.gate.explore_prob = 0.0  # chance that a closed group is opened all the same, to measure its recovery
    config.gate.prior_rollouts = 8.0  # pass_rate: weight of what is known of a task's class, in rollouts
    config.gate.history_decay = 0.9  # pass_rate: what earlier answers of a class still count after one more step
    config.dead_groups = ConfigDict()
    config.dead_groups.then = "keep"  # keep, refill (DAPO: groups of no signal), retry_buffer (groups that all fail)
    config.dead_groups.refill_rounds = 2  # refill: the most times that a step asks fresh prompts in their place
    config.dead_groups.buffer_size = 64  # retry_buffer: failures kept; the oldest leave
    config.dead_groups.retry_prob = 0.1  # retry_buffer: chance of each prompt of a step to be the oldest failure
    # Of rollouts: tournament, tournament_speed, tournament_staged, any_success, manual, first_turn_weighted (PrimeEcho)
    # of turns: checks (Murphy), kevin, speedup_capped (Dr.Kernel); or a dotted path: my_package.my_module.my_reward
    config.reward = "tournament"
    config.reward_options = ConfigDict()  # constants of rewards; a function of yours finds its own here as well
    config.reward_options.turn_rewards = (1.0, 0.8, 0.6)  # manual: of a first pass at turn 1, 2, 3
    config.reward_options.noise_margin = 0.05  # tournament_speed: a time counts as shorter by more than this share
    config.reward_options.length_bin_tokens = 16  # tournament_speed: so does a response by a bin of this size
    config.reward_options.first_turn_weight = 0.75  # first_turn_weighted: the rest is the best turn's
    config.reward_options.early_bonus = (0.2, 0.1)  # first_turn_weighted: of a first pass at turn 1, 2
    config.reward_options.correct_reward = 0.3  # kevin: of a correct turn, before its speedup
    config.reward_options.speed_weight = 1.0  # kevin, speedup_capped, first_turn_weighted; 0: correctness alone
    config.reward_options.speedup_cap = 3.0  # speedup_capped: of the speedup; first_turn_weighted: of its gain
    config.advantage = "none"  # none (the tournament is its own), mean, mean_std (GRPO), leave_one_out (RLOO)
    config.advantage_over = "group"  # peers: group (Kevin: with all its turns pooled), turn (TRLOO: at the same turn)
    # Credit after the baseline, of rewards of rollouts: leap, leap_forward, uniform, last_turn, first_turn (PrimeEcho);
    # before it, of rewards of turns: reward_to_go (Kevin: gamma 0.4, Dr.Kernel: 1), max_to_go (Murphy's MaRS: 1)
    config.credit = ConfigDict()
    config.credit.rule = "leap"
    config.credit.gamma = 0.5  # discount a turn: leap, backwards from the last; leap_forward, from the first; to_go
    config.credit.negative_weight = 1.0  # multiplies advantages below 0

    config.objective = ConfigDict()
    config.objective.clip_low = 0.2
    config.objective.clip_high = 0.28
    config.objective.dual_clip = config_dict.placeholder(float)  # most that a ratio counts where A < 0; None: no bound
    config.objective.kl_coef = 0.0  # weight of the estimate of KL(policy || cold start)
    config.objective.kl_estimator = "k3"  # k1, k2 (that KL's gradient), k3 (GRPO; that of the other direction)
    config.objective.sequence = "rollout"  # what is one sequence below: rollout, turn (Kevin, Dr.Kernel)
    config.objective.aggregation = "token"  # token (DAPO), sequence (GRPO), sequence_sum, constant (Dr.GRPO)
    config.objective.ratio = "token"  # token, sequence (GSPO)
    # Sequences too far from the policy that sampled them are dropped; None: not by this measure
    config.objective.token_veto = config_dict.placeholder(float)  # a token's ratio is below this (Dr.Kernel: 1e-4)
    config.objective.geometric_margin = config_dict.placeholder(float)  # mean ratio not 1 +- this (Dr.Kernel: 1e-3)
    config.objective.mirror_pop = config_dict.placeholder(float)  # mean |log ratio| is above this (MusaCoder)

    config.optimizer = ConfigDict()
    config.optimizer.name = "adamw"  # adamw, muon
    config.optimizer.learning_rate = 5e-4  # the peak; a cosine over the budget takes it down to a tenth
    config.optimizer.warmup_steps = 5
    config.optimizer.weight_decay = 0.0
    config.optimizer.grad_clip = 1.0  # global norm
    config.optimizer.updates_per_step = 1  # the rollouts of a step are split, by prompt, into that many updates
    config.optimizer.micro_batch_tokens = 1280  # tokens in memory at once; changes no result

    config.policy = ConfigDict()
    config.policy.embed_dim = 192
    config.policy.num_layers = 4
    config.policy.num_heads = 6
    config.policy.num_kv_heads = 2
    config.policy.head_dim = 32
    config.policy.ffw_dim = 512
    config.policy.rope_theta = 10_000.0
    config.policy.qkv_bias = False
    config.policy.qk_norm = True
    config.policy.vocab_size = 1024  # byte-level BPE, trained on the cold-start corpus

    config.sampling = ConfigDict()
    config.sampling.temperature = 1.0
    config.sampling.max_prompt_tokens = 64
    config.sampling.max_response_tokens = 128
    config.sampling.max_feedback_tokens = 96
    config.sampling.batch_buckets = (16, 64)  # rows decoded together; the largest is one part of a step

    # Supervised warm start on answers that the harness verified.
    config.cold_start = ConfigDict()
    config.cold_start.compositions = 2400  # train compositions, one verified answer each
    config.cold_start.repairs = 800  # conversations broken answer -> feedback -> correct answer
    config.cold_start.steps = 460
    config.cold_start.batch_size = 8  # packed rows
    config.cold_start.sequence_tokens = 256
    config.cold_start.optimizer = "muon"
    config.cold_start.learning_rate = 0.02
    config.cold_start.warmup_steps = 20
    config.cold_start.weight_decay = 0.01
    config.cold_start.seed = 0  # apart from config.seed, so that all seeds of a run share one cold start

    config.kernels = ConfigDict()
    config.kernels.device = "auto"  # emulator, pycuda (an NVIDIA GPU), auto: pycuda where it can be, else emulator
    config.kernels.workers = 2
    config.kernels.compile_seconds = 10.0
    config.kernels.run_seconds = 10.0  # wall time of all runs of one verdict
    config.kernels.instructions_per_thread = 100_000
    config.kernels.threads_per_check = 65_536  # bound on the threads of all launches of a check
    config.kernels.checks = 6  # runs of an answer, spread over shapes and input regimes
    config.kernels.seed = 0  # of the checks' inputs
    config.kernels.deadline_seconds = 60.0  # then the worker is killed
    config.kernels.feedback_chars = 400
    config.kernels.infra_error_limit = 0.05  # share of a step's verdicts above which the run stops

    config.evaluation = ConfigDict()
    config.evaluation.every_steps = 40  # 0: only before and after training
    config.evaluation.tasks = 96  # held-out compositions, the same in every evaluation
    config.evaluation.samples = 4  # episodes of each
    config.evaluation.max_turns = 3

    config.checkpoint = ConfigDict()
    config.checkpoint.every_steps = 5
    config.checkpoint.keep_last = 2

    if variant == "smoke":
        smoke(config)
    return config


def smoke(config: ConfigDict) -> None:
    """Shrink every size so that the whole run takes a minute or two; the numbers mean nothing."""
    config.steps = 3
    config.prompts_per_step = 2
    config.group_size = 4
    config.max_turns = 2
    config.policy.embed_dim = 64
    config.policy.num_layers = 2
    config.policy.num_heads = 2
    config.policy.num_kv_heads = 1
    config.policy.ffw_dim = 128
    config.policy.vocab_size = 512
    config.sampling.max_response_tokens = 160
    config.sampling.batch_buckets = (4, 8)
    config.cold_start.compositions = 24
    config.cold_start.repairs = 8
    config.cold_start.steps = 6
    config.cold_start.warmup_steps = 1
    config.optimizer.warmup_steps = 1
    config.optimizer.micro_batch_tokens = 1024
    config.cold_start.batch_size = 4
    config.evaluation.every_steps = 2
    config.evaluation.tasks = 4
    config.evaluation.samples = 2
    config.evaluation.max_turns = 2
    config.checkpoint.every_steps = 1
