"""PTX with random damage: it must be refused in one clear line or run within its limits, never crash or hang.

By hand: `python -m tests.fuzz.mutated_ptx [count] [seed]`; a small slice runs in tests/test_fuzz.py. A mutant depends
on the seed and its number alone.
"""

from __future__ import annotations

import re
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

import numpy as np

from leap_jax.kernels.emulator.isa import UnsupportedOpcode
from leap_jax.kernels.emulator.machine import Fault, Limits, launch, prepare
from leap_jax.kernels.emulator.memory import GlobalMemory
from leap_jax.kernels.emulator.ptx import PtxError, parse

LIMITS = Limits(instructions_per_thread=2_000, seconds=2.0)
_TOKEN = re.compile(r"\.?[\w$%:]+|\s+|[^\w\s]")
_BYTES = '0123456789abcdefrpsu%.,;:{}[]()@!|+-=<> \n\t_$/"\\\x00\u2603'
_WORDS = (
    *(
        "%tid.x",
        "%p1",
        "%r1",
        "%rd1",
        "%f1",
        "0",
        "-1",
        "4294967295",
        "0f7FC00000",
        "0dFFF0000000000000",
        ".u8",
        ".b64",
    ),
    *(
        ".f16x2",
        ".bf16",
        ".pred",
        ".v4",
        ".shared",
        ".global",
        ".local",
        ".param",
        ".cc",
        ".sat",
        ".rz",
        ".wide",
        "bar",
    ),
    *("mov", "shfl", "mma", "ret", "bra", "call", "ld", "st", "atom", "cvt", "{", "}", "(", ")", "[", "]", ";", "_"),
    *("1e400", "0x", "%envreg2", "%clock64", ".reg", ".loc", ".align", ".branchtargets", "@", "99999999999999999999"),
)


def mutant(text: str, rng: np.random.Generator) -> str:
    """`text` with one to three bytes or tokens deleted, doubled, swapped or replaced, most often by their like."""
    for _ in range(rng.integers(1, 4)):
        if rng.random() < 0.15:
            place = int(rng.integers(len(text)))
            byte = _BYTES[rng.integers(len(_BYTES))]
            text = text[:place] + (byte if rng.random() < 0.7 else "") + text[place + int(rng.integers(2)) :]
            continue
        tokens = _TOKEN.findall(text)
        solid = [i for i, token in enumerate(tokens) if not token.isspace()]
        here, there = (int(x) for x in rng.choice(solid, 2))
        if rng.random() < 0.7:
            alike = [i for i in solid if tokens[i][0] == tokens[here][0]]
            there = int(rng.choice(alike))
        kind = rng.integers(5)
        if kind == 0:
            del tokens[here]
        elif kind == 1:
            tokens.insert(here, tokens[there])
        elif kind == 2:
            tokens[here], tokens[there] = tokens[there], tokens[here]
        elif kind == 3:
            tokens[here] = _WORDS[rng.integers(len(_WORDS))]
        else:
            tokens[here] = tokens[there]
        text = "".join(tokens)
    return text


def outcome(text: str) -> str:
    """What comes of a module: refused, unsupported, the kind of fault, or ran. Raises whatever should not come."""
    try:
        program = prepare(parse(text))
    except PtxError as error:
        assert "\n" not in str(error)
        return "refused"
    except UnsupportedOpcode as error:
        assert "\n" not in str(error)
        return "unsupported"
    for name, kernel in program.module.entries.items():
        memory = GlobalMemory()
        args = []
        for position, parameter in enumerate(kernel.params):
            if parameter.size_bytes == 8:
                pointer = memory.allocate(f"a{position}", np.dtype(np.float32), 256, writable=True)
                memory.write(pointer, np.ones(256, np.float32))
                args.append(pointer)
            else:
                args.append(np.frombuffer((5).to_bytes(max(parameter.size_bytes, 1), "little"), np.uint8))
        try:
            launch(program, memory, name, (2, 1, 1), (48, 1, 1), 256, args, limits=LIMITS)
        except Fault as fault:
            return fault.report.kind
        except ValueError as error:
            assert "\n" not in str(error)
            return "not launched"
    return "ran"


def check(bases: list[str], seed: int, indices: range) -> Counter[str]:
    """The outcomes of mutants. Raises AssertionError with the text of the first one that crashes or is slow."""
    seen: Counter[str] = Counter()
    for index in indices:
        rng = np.random.default_rng((seed, index))
        text = mutant(bases[index % len(bases)], rng)
        start = time.perf_counter()
        try:
            seen[outcome(text)] += 1
        except Exception as error:
            raise AssertionError(f"mutant {index} of seed {seed}:\n{traceback.format_exc()}\n{text}") from error
        assert time.perf_counter() - start < 20 * LIMITS.seconds, f"mutant {index} of seed {seed} is slow:\n{text}"
    return seen


def base_texts() -> list[str]:
    """Modules of many kinds, compiled and written by hand."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from test_async import ALL_PTX
    from test_matrices import PTX_OF_A_PRODUCT

    return [*ALL_PTX, PTX_OF_A_PRODUCT]


def main() -> None:
    count, seed = (int(x) for x in (*sys.argv[1:], *("10000", "0")[len(sys.argv) - 1 :]))
    start = time.perf_counter()
    for kind, number in check(base_texts(), seed, range(count)).most_common():
        print(f"{kind:15} {number:6}")
    print(f"{count} mutants, seed {seed}, {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
