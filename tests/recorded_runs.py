"""Run folders as a training run leaves them, written by its own writers from episodes made by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from ml_collections import ConfigDict

from experiments.leap import get_config
from leap_jax import budget, run_folder
from leap_jax.algorithm.gate import Gate
from leap_jax.algorithm.rewards import tournament
from leap_jax.evaluate import scores, to_results
from leap_jax.kernels.verdict import Outcome, Verdict
from leap_jax.metrics import MetricsWriter, append_jsonl
from leap_jax.policy.tokenizer import Tokenizer
from leap_jax.rollout import Episode, Rollouts, Turn, to_groups
from leap_jax.summary import summarise

ANSWER = """```cuda
// launch: grid=(ceil_div(n, 256)) block=(256)
extern "C" __global__ void kernel(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = fmaxf(x[i], %s);  // \u20ac
}
```"""
TOKENIZER = Tokenizer.train([ANSWER % number for number in ("0.0f", "1.0f", "2.5f")] * 2, vocab_size=400)
OUTCOMES = {"c": Outcome.CORRECT, "i": Outcome.INCORRECT, "e": Outcome.COMPILE_ERROR, "u": Outcome.UNSUPPORTED}


def episode(task: str, outcomes: str, *, texts: Sequence[str] = (), feedback: str = "line 4: wrong") -> Episode:
    """An episode with a turn for each letter of `outcomes`, a key of OUTCOMES; with `texts` for its responses."""
    turns = []
    for number, letter in enumerate(outcomes):
        text = texts[number % len(texts)] if texts else ANSWER % f"{number}.0f"
        ids = TOKENIZER.encode_answer(text)
        logprobs = -np.linspace(0.0, 3.0, len(ids)).astype(np.float32)
        verdict = Verdict(OUTCOMES[letter], "done" if letter == "c" else "compare")
        turns.append(Turn(ids, logprobs, False, text, verdict, feedback if number + 1 < len(outcomes) else ""))
    return Episode(task, TOKENIZER.prompt_ids(f"Apply relu to x. ({task})"), turns)


def write_run(
    folder: Path,
    *,
    steps: int = 2,
    groups: Callable[[int], list[list[str]]] = lambda step: [["c", "iic", "ii", "c"], ["i", "i", "i", "i"]],
    heldout: Callable[[int], list[list[str]]] = lambda step: [["c", "iii"], ["ic", "iii"], ["c", "c"]],
    settings: dict | None = None,
    episodes: Callable[..., Episode] = episode,
) -> Path:
    """Write a run: at each step the groups of outcomes of training, before and after those of an evaluation."""
    config: ConfigDict = get_config()
    config.update_from_flattened_dict({"group_size": 4, "max_turns": 3, "steps": steps, **(settings or {})})
    run_folder.claim(folder, config)
    spent = budget.NOTHING_SPENT
    with MetricsWriter(folder) as writer:
        for step in range(steps + 1):
            values: dict = {}
            if step:
                made = [[episodes(f"composed/{step}{p}", o) for o in group] for p, group in enumerate(groups(step))]
                arrays = to_groups(made, config.max_turns)
                rewards = np.asarray(tournament(arrays))
                advantages = np.repeat(rewards[..., None], config.max_turns, axis=2)
                opened = np.array([any(len(e.turns) > 1 for e in group) for group in made])
                none = np.zeros_like(opened)
                rollouts = Rollouts(made, Gate(opened, ~opened, none, none), opened, none, 2.0, 1.0)
                values = summarise(rollouts, arrays, rewards, advantages)
                values |= {"seconds/step": 4.5, "seconds/update": 1.0, "train/entropy": 1.0 / step}
                spent = budget.add(spent, values)
                values |= {f"total/{name}": total for name, total in spent.items()}
                values |= {"total/progress": step / steps, "train/learning_rate": 1e-3}
                records = list(run_folder.rollout_records(step, made, rewards, advantages, TOKENIZER))
                append_jsonl(folder / "rollouts.jsonl", *records)
                writer.write_samples(step, records)
            if step in (0, steps):
                made = [[episodes(f"composed/9{p}", o) for o in group] for p, group in enumerate(heldout(step))]
                scored = run_folder.evaluation_records(step, made, TOKENIZER)
                run_folder.write_evaluation(folder, f"step_{step:06d}", scored)
                values |= {f"eval/heldout/{name}": value for name, value in scores(to_results(scored, 3))}
            writer.write(step, values)
    return folder
