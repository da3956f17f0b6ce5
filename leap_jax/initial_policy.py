"""The policy that LEAP starts from: cold-started once, then taken from the cache.

Corpora and weights are kept under the config's cache_dir, each in a folder named by a hash of everything that
decides it: the config keys, the sources of the code that makes it, and the versions of the libraries that do.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import jax
from absl import logging
from flax import nnx
from ml_collections import ConfigDict

from leap_jax import corpus
from leap_jax.checkpoint import CheckpointError, atomic_folder, load_params, save_params, write_text
from leap_jax.experiment import ConfigError, flatten
from leap_jax.kernels.pool import VerificationPool
from leap_jax.metrics import ProgressBar
from leap_jax.policy import cold_start
from leap_jax.policy.packing import Conversation, encode_conversation
from leap_jax.policy.tokenizer import Tokenizer
from leap_jax.policy.transformer import ModelConfig, Transformer

PACKAGE = Path(__file__).parent
CHUNK = 128  # tokens whose logits exist at once; changes no result
CLIP_NORM = 1.0


class Policy(NamedTuple):
    graphdef: nnx.GraphDef
    params: Any
    tokenizer: Tokenizer


def initial_policy(
    config: ConfigDict, workdir: Path, pool: VerificationPool, check_interrupt: Callable[[], None]
) -> Policy:
    """The cold-started policy of the run, made and cached if need be. `check_interrupt` may raise to stop.

    A workdir remembers the policy that it started from, so that a resumed run goes on with the same tokens even if
    the code has changed. Raises CheckpointError where that policy is gone from the cache.
    """
    cache = Path(config.cache_dir).expanduser()
    pin = workdir / "initial_policy.txt"
    folder = cache / (pin.read_text().strip() if pin.exists() else f"policy-{policy_key(config)}")
    if pin.exists() and not folder.is_dir():
        raise CheckpointError(f"{workdir} started from {folder}, which is gone: start again in a new --workdir")
    if not folder.is_dir():
        conversations = verified_corpus(config, cache, pool, check_interrupt)
        policy = cold_started(config, conversations, check_interrupt)
        with atomic_folder(folder) as unfinished:
            policy.tokenizer.save(unfinished / "tokenizer.json")
            save_params(unfinished / "params", policy.params)
        logging.info("cold start: weights are kept in %s", folder)
    if not pin.exists():
        write_text(pin, folder.name + "\n")
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    graphdef, shapes = nnx.split(nnx.eval_shape(lambda: new_model(config, tokenizer)))
    params = load_params(folder / "params", shapes)
    logging.info(
        "policy: %.2fM parameters, %d tokens, cold-started weights of %s",
        sum(p.size for p in jax.tree.leaves(params)) / 1e6,
        tokenizer.vocab_size,
        folder,
    )
    return Policy(graphdef, params, tokenizer)


def verified_corpus(
    config: ConfigDict, cache: Path, pool: VerificationPool, check_interrupt: Callable[[], None]
) -> list[Conversation]:
    """The conversations of the cold start, made and cached if need be."""
    folder = cache / f"corpus-{corpus_key(config)}"
    if not folder.is_dir():
        settings = config.cold_start
        total = settings.compositions + settings.repairs
        logging.info("cold start: verifying %d answers", total)
        started = time.monotonic()
        verified = corpus.verified_conversations(
            pool,
            compositions=settings.compositions,
            repairs=settings.repairs,
            feedback_chars=config.kernels.feedback_chars,
            seed=settings.seed,
        )
        conversations = []
        with ProgressBar(total, label="corpus", log_every=200) as bar:
            for conversation in verified:
                check_interrupt()
                conversations.append(conversation)
                bar.update(len(conversations), {})
        with atomic_folder(folder) as unfinished:
            corpus.save(unfinished / "conversations.jsonl", conversations)
        logging.info("cold start: %d verified conversations in %.0f s", len(conversations), time.monotonic() - started)
    return corpus.load(folder / "conversations.jsonl")


def cold_started(config: ConfigDict, conversations: list[Conversation], check_interrupt: Callable[[], None]) -> Policy:
    """Train a tokenizer and a policy on the conversations."""
    settings = config.cold_start
    tokenizer = Tokenizer.train(
        (turn.text for conversation in conversations for turn in conversation), config.policy.vocab_size
    )

    def fits(conversation: Conversation) -> bool:
        ids, imitate = encode_conversation(conversation, tokenizer)
        return len(ids) <= settings.sequence_tokens and sum(imitate) <= config.sampling.max_response_tokens

    fitting = list(filter(fits, conversations))
    logging.info(
        "cold start: %d of %d conversations fit cold_start.sequence_tokens=%d and sampling.max_response_tokens=%d",
        len(fitting),
        len(conversations),
        settings.sequence_tokens,
        config.sampling.max_response_tokens,
    )
    if not fitting:
        raise ConfigError(
            f"sampling.max_response_tokens={config.sampling.max_response_tokens}, "
            f"cold_start.sequence_tokens={settings.sequence_tokens}: no verified answer fits; raise them"
        )
    graphdef, params = nnx.split(new_model(config, tokenizer))
    with ProgressBar(settings.steps, label="cold start", log_every=20) as bar:

        def on_step(step: int, values: dict[str, float]) -> None:
            check_interrupt()
            bar.update(step + 1, values)

        params = cold_start.train(
            graphdef,
            params,
            fitting,
            tokenizer,
            cold_start.ColdStartSettings(
                steps=settings.steps,
                batch_rows=settings.batch_size,
                row_tokens=settings.sequence_tokens,
                optimizer=settings.optimizer,
                learning_rate=settings.learning_rate,
                warmup_steps=settings.warmup_steps,
                weight_decay=settings.weight_decay,
                clip_norm=CLIP_NORM,
                chunk=CHUNK,
                seed=settings.seed,
            ),
            on_step,
        )
    return Policy(graphdef, params, tokenizer)


def new_model(config: ConfigDict, tokenizer: Tokenizer) -> Transformer:
    """A randomly initialised decoder with the tokenizer's vocabulary; a function of cold_start.seed."""
    sizes = config.policy
    return Transformer(
        ModelConfig(
            vocab_size=tokenizer.vocab_size,
            embed_dim=sizes.embed_dim,
            layers=sizes.num_layers,
            query_heads=sizes.num_heads,
            kv_heads=sizes.num_kv_heads,
            head_dim=sizes.head_dim,
            ffw_dim=sizes.ffw_dim,
            rope_theta=sizes.rope_theta,
            qkv_bias=sizes.qkv_bias,
            qk_norm=sizes.qk_norm,
        ),
        rngs=nnx.Rngs(config.cold_start.seed),
    )


def corpus_key(config: ConfigDict) -> str:
    """A hash of all that decides the corpus."""
    settings = config.cold_start
    values = flatten(config.kernels) | {k: settings[k] for k in ("compositions", "repairs", "seed")}
    for speed_only in ("workers", "deadline_seconds", "infra_error_limit"):
        del values[speed_only]
    sources = [PACKAGE / "corpus.py", *(PACKAGE / "kernels").rglob("*.py")]
    return _digest(values, sources, ("numpy", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime"))


def policy_key(config: ConfigDict) -> str:
    """A hash of all that decides the cold-started weights."""
    values = flatten(config.cold_start) | flatten(config.policy, "policy.") | {"corpus": corpus_key(config)}
    values["max_response_tokens"] = config.sampling.max_response_tokens
    sources = [PACKAGE / "initial_policy.py", *(PACKAGE / "policy").rglob("*.py")]
    return _digest(values, sources, ("flax", "jax", "jaxlib", "optax", "tokenizers"))


def _digest(values: dict[str, Any], sources: Iterable[Path], packages: Iterable[str]) -> str:
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    for source in sorted(sources):
        digest.update(source.read_bytes())
    for package in packages:
        digest.update(f"{package} {metadata.version(package)}".encode())
    return digest.hexdigest()[:16]
