"""Hostile sources are contained, odd but legal ones are taken. The first line of a file says what must come of it.

`// expect: OUTCOME words that the message holds`. A file with a launch line is an answer and is verified, any other
is compiled. `@SECRET@` and the like stand for the path of a planted file, `@FILLER@` for more text than is taken.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from pathlib import Path

import pytest
from hand_tasks import ADD

from leap_jax.kernels import compiler
from leap_jax.kernels.compiler import CompileError, compile_source
from leap_jax.kernels.feedback import feedback
from leap_jax.kernels.verification import Settings, verify

CORPUS = Path(__file__).parent / "corpus"
HOSTILE, GOOD = (sorted((CORPUS / kind).glob("*.cu")) for kind in ("hostile", "good"))
TOKEN = f"token{secrets.token_hex(8)}"
SECONDS = 20.0
GRACE_SECONDS = 2.0
SMALL = 'extern "C" __global__ void small(float* y) { y[threadIdx.x] *= 2; }\n'

_EXPECT = re.compile(r"\ufeff?// expect: (\w+) ?([^\r\n]*)")
_TIMEOUT = re.compile(r"^// timeout: (\d+)$", re.MULTILINE)


@pytest.fixture(scope="module", autouse=True)
def secret_file(tmp_path_factory):
    """A planted file; the token is in the environment, too, when the compiler starts."""
    path = tmp_path_factory.mktemp("planted") / "secret.h"
    path.write_text(f'"{TOKEN}"\n')  # a literal, so that an include in the right place would leave it in the cubin
    compiler.close()
    os.environ["LEAP_SECRET"] = TOKEN
    compile_source(SMALL)
    yield path
    del os.environ["LEAP_SECRET"]
    compiler.close()


def read(file, secret_file):
    text = file.read_bytes().decode()
    path = str(secret_file)
    places = {"SECRET": path, "RELATIVE": path.lstrip("/"), "SECRET_HEAD": path[:5], "SECRET_TAIL": path[5:]}
    for name, value in (places | {"FILLER": f"//{'x' * (64 << 10)}"}).items():
        text = text.replace(f"@{name}@", value)
    return text


def judge(source, seconds):
    """What came of it, what its writer is told, and all that can be seen of it."""
    if "// launch:" in source:
        settings = Settings("emulator", seconds, 20.0, 20_000, 2**20, 4, 0)
        verdict = verify(ADD, f"```cuda\n{source}\n```\n", settings)
        told = feedback(ADD, verdict, 2000)
        return verdict.outcome.value, told, f"{verdict} {told}"
    try:
        compiled = compile_source(source, timeout_seconds=seconds)
    except CompileError as error:
        return "compile_error", error.message, f"{error} {error.diagnostics}"
    return "compiles", "", f"{compiled.ptx} {compiled.cubin.decode('latin-1')} {compiled.resources}"


def check(file, secret_file):
    source = read(file, secret_file)
    outcome, words = _EXPECT.match(source).groups()
    timeout = _TIMEOUT.search(source)
    seconds = float(timeout[1]) if timeout else SECONDS
    start = time.monotonic()
    found, told, seen = judge(source, seconds)
    assert time.monotonic() - start < seconds + GRACE_SECONDS
    assert (found, words in told) == (outcome, True), f"{found}: {told}"
    assert TOKEN not in seen
    assert told.replace("\n", "").isprintable()


@pytest.mark.parametrize("file", HOSTILE, ids=lambda file: file.stem)
def test_hostile(file, secret_file):
    check(file, secret_file)
    assert compile_source(SMALL).resources.keys() == {"small"}


@pytest.mark.parametrize("file", GOOD, ids=lambda file: file.stem)
def test_good(file, secret_file):
    check(file, secret_file)


def test_the_corpus_is_there():
    assert len(HOSTILE) >= 60
    assert len(GOOD) >= 40
    assert all(_EXPECT.match(file.read_text()) for file in HOSTILE + GOOD)
    assert {_EXPECT.match(file.read_text())[1] for file in GOOD} == {"compiles", "correct"}
