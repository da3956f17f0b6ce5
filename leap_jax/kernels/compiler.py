"""Compiling an answer: CUDA source in; PTX, cubin, resources and diagnostics out.

NVRTC runs in one long-lived child process (`compiler_child`) with an empty environment and a sandbox around
it. This side holds the deadline: a child that overruns it is killed with its process group, and the next
compile starts a fresh one, as it does when a child has died, has served its share or has grown too large (NVRTC
keeps memory). What the compiler says of a source is kept (`compile_cache`); that it was late, died or ran out of
memory is not, since another time it may not be.

`python -m leap_jax.kernels.compiler FILE.cu` compiles one file: see `compiler_command`.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.metadata
import itertools
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from leap_jax.kernels import compile_cache, compiler_child, compiler_log, includes, sandbox
from leap_jax.kernels.compile_cache import Reply
from leap_jax.kernels.compiler_child import REPLY, REQUEST
from leap_jax.kernels.verdict import Diagnostic, KernelResources

SOURCE_BYTES = 64 << 10
COMPILES_PER_CHILD = 200
CHILD_RESIDENT_BYTES = 512 << 20  # after a compile; a fresh child has 100 MB
CACHE_BYTES = 64 << 20
ATTEMPTS = 2
START_SECONDS = 60.0
REAP_SECONDS = 5.0

_BOOT = (
    "import sys; sys.path.append(sys.argv[1]); from leap_jax.kernels import compiler_child; "
    "compiler_child.main(int(sys.argv[2]), *sys.argv[3:])"
)
_PACKAGE_ROOT = Path(__file__).parents[2]
_PACKAGES = ("nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-crt", "nvidia-cuda-cccl")
_OUT_OF_MEMORY = re.compile(r"out of memory|memory allocation fail|cannot allocate memory", re.IGNORECASE)
_CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP}


class CompileError(Exception):
    """The source does not compile, or not within the limits: the answer's fault."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...], message: str) -> None:
        super().__init__(message)
        self.diagnostics = diagnostics
        self.message = message


class CompilerUnavailable(RuntimeError):
    """There is no working compiler: nobody's answer is at fault."""


@dataclass(frozen=True)
class Compiled:
    """A program assembled for one architecture; kernels are named as in the PTX (mangled unless `extern "C"`)."""

    ptx: str
    cubin: bytes
    resources: dict[str, KernelResources]


def compile_source(
    source: str,
    *,
    timeout_seconds: float = 20.0,
    cache_folder: Path | None = None,
    architecture: int = compiler_child.ARCHITECTURE,
) -> Compiled:
    """Compile one translation unit of device code, in `timeout_seconds` (twice that if the child dies).

    architecture: 90 for sm_90, which needs no such GPU here.
    cache_folder: where replies are also kept on disk, for other processes and later ones.
    Raises `CompileError` for a source that is refused, wrong, or too much for the limits, and
    `CompilerUnavailable` where the compiler cannot be run.
    """
    text = _screened(source)
    try:
        status, log, ptx, cubin = _cached_request(text, timeout_seconds, cache_folder, architecture)
    except TimeoutError as error:
        raise CompileError((), f"compile time limit of {timeout_seconds:g} s exceeded") from error
    if status == compiler_child.SUCCESS:
        return Compiled(ptx, cubin, compiler_log.resources(log))
    if status == compiler_child.INVALID_OPTION:
        raise CompilerUnavailable(f"{compiler_version()} does not compile for sm_{architecture}")
    raise _failure(status, log, ptx)


def compiler_version() -> str:
    """Return the compiler's name and version, e.g. "NVRTC 13.5"."""
    with _lock:
        return "NVRTC {}.{}".format(*_running_child().hello["version"])


def sandbox_layers() -> tuple[str, ...]:
    """Return the names of the layers that hold around the compiler here: see `sandbox`."""
    with _lock:
        return tuple(_running_child().hello["layers"])


def missing_layers() -> tuple[str, ...]:
    """Return the names of the layers that do not hold, of all that `sandbox` knows."""
    held = sandbox_layers()
    return tuple(name for name in sandbox.LAYERS if name not in held)


def containment_warnings() -> tuple[str, ...]:
    """Return a line for each layer that does not hold here: whoever runs answers shows them."""
    return tuple(
        f"the compiler is NOT CONTAINED by {name} here: it can reach {sandbox.LAYERS[name]}"
        for name in missing_layers()
    )


def close() -> None:
    """End the child, if there is one. The next compile starts another."""
    with _lock:
        if _child is not None:
            _end_child()


class _Child:
    """The child process and this end of its socket."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        library, self.include_folder = _toolkit()
        arguments = (str(_PACKAGE_ROOT), str(theirs.fileno()), library, self.include_folder)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BOOT, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={},
                cwd="/",
                start_new_session=True,
            )
        self.compiles = 0
        self.hello: dict = {}

    def start(self) -> None:
        """Wait for the child's hello; raises EOFError, OSError (at the deadline) or CompilerUnavailable."""
        status, text, _, _ = self._receive(time.monotonic() + START_SECONDS)
        if status != compiler_child.SUCCESS:
            raise CompilerUnavailable(f"the compiler does not start: {text}")
        self.hello = json.loads(text)

    def compile(self, source: bytes, seconds: float, architecture: int = compiler_child.ARCHITECTURE) -> Reply:
        """Return status, log, PTX and cubin.

        Raises TimeoutError at the deadline, ConnectionError or EOFError if the child dies.
        """
        deadline = time.monotonic() + seconds
        self.compiles += 1
        self.socket.settimeout(seconds)
        self.socket.sendall(REQUEST.pack(len(source), seconds, architecture) + source)
        return self._receive(deadline)

    def worn(self) -> bool:
        """Whether it has compiled its share or grown too large."""
        return self.compiles >= COMPILES_PER_CHILD or self.resident_bytes() > CHILD_RESIDENT_BYTES

    def resident_bytes(self) -> int:
        """Its memory now; 0 where this user may not know."""
        try:
            return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * resource.getpagesize()
        except OSError:
            return 0

    def kill(self) -> int:
        """Kill the process group and wait; returns the exit status, negative for a signal.

        One that cannot be reaped (uninterruptible) is not waited for.
        """
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # not reaped yet, so the id is still its own
        self.socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(REAP_SECONDS)
        return -signal.SIGKILL

    def _receive(self, deadline: float) -> Reply:
        status, *sizes = REPLY.unpack(self._read(REPLY.size, deadline))
        limits = (compiler_child.LOG_BYTES, compiler_child.PTX_BYTES, compiler_child.CUBIN_BYTES)
        if any(size > limit for size, limit in zip(sizes, limits, strict=True)):
            raise EOFError("the child's reply is out of bounds")
        log, ptx, cubin = (self._read(size, deadline) for size in sizes)
        # Without a chroot the toolkit's own path shows in the names of its headers.
        log, ptx = (text.decode(errors="replace").replace(f"{self.include_folder}/", "/") for text in (log, ptx))
        return status, log, ptx, cubin

    def _read(self, size: int, deadline: float) -> bytes:
        chunks = bytearray()
        while len(chunks) < size:
            self.socket.settimeout(max(deadline - time.monotonic(), 1e-3))
            chunk = self.socket.recv(min(size - len(chunks), 1 << 20))
            if not chunk:
                raise EOFError("the child closed its socket")
            chunks += chunk
        return bytes(chunks)


_lock = threading.Lock()
_child: _Child | None = None
_memory = compile_cache.Memory(CACHE_BYTES)
atexit.register(close)


def _running_child() -> _Child:
    """Return the child, started if there is none. Call with the lock held."""
    global _child
    if _child is None:
        try:
            _child = _Child()
            _child.start()
        except (EOFError, OSError) as error:
            raise CompilerUnavailable(f"the compiler does not start: {error}") from error
        finally:
            if _child is not None and not _child.hello:
                _end_child()
    return _child


def _end_child() -> int:
    """Kill the child and forget it; returns its exit status (minus the signal). Call with the lock held."""
    global _child
    exit_status = _child.kill()
    _child = None
    return exit_status


def _cached_request(text: str, seconds: float, folder: Path | None, architecture: int) -> Reply:
    """The reply to a source: from memory, from the folder, or from the compiler. Raises as `_request` does."""
    name = _cache_key(text, architecture)
    reply = _memory.load(name)
    if reply is None and folder is not None:
        reply = compile_cache.load(folder, name)
    if reply is None:
        reply = _request(text.encode(errors="replace"), seconds, architecture)
        if not _final(reply):
            return reply
        if folder is not None:
            compile_cache.store(folder, name, reply)
    _memory.store(name, reply)
    return reply


def _cache_key(text: str, architecture: int = compiler_child.ARCHITECTURE) -> str:
    options = (f"sm_{architecture}", *compiler_child.OPTIONS)
    return compile_cache.key((text, *options, *_versions(), *itertools.chain(*includes.SHIMS.items())))


@functools.cache
def _versions() -> tuple[str, ...]:
    """The versions of the compiler and of its headers."""
    return tuple(f"{package} {_distribution(package).version}" for package in _PACKAGES)


def _final(reply: Reply) -> bool:
    """Whether the compiler would say the same at any other time."""
    status, log, _, _ = reply
    return status == compiler_child.SUCCESS or (status == compiler_child.COMPILATION and not _OUT_OF_MEMORY.search(log))


def _request(source: bytes, seconds: float, architecture: int) -> Reply:
    """Compile in the child; a child that dies of it is replaced and the request repeated once."""
    deaths = []
    with _lock:
        for _ in range(ATTEMPTS):
            child, answered = _running_child(), False
            try:
                reply = child.compile(source, seconds, architecture)
                answered = True
            except (EOFError, ConnectionError):
                pass
            finally:
                if not answered:  # also at the deadline or an interrupt: a late reply must not meet the next request
                    deaths.append(_end_child())
            if answered:
                if child.worn():
                    _end_child()
                return reply
            if deaths[-1] == -signal.SIGPROF:
                raise TimeoutError
    if all(-death in _CRASHES for death in deaths):
        raise CompileError((), "the compiler crashed or ran out of memory on this source")
    raise CompilerUnavailable(f"the compiler died {ATTEMPTS} times (exit status {', '.join(map(str, deaths))})")


def _screened(source: str) -> str:
    """Return the text to compile; raises CompileError for one that must not reach the compiler."""
    if len(source.encode(errors="replace")) > SOURCE_BYTES:
        raise CompileError((), f"source is larger than {SOURCE_BYTES >> 10} KiB")
    if "\0" in source:
        raise CompileError((), "source holds a NUL character")
    stripped = includes.strip(source)
    if refusals := includes.refusals(stripped):
        raise _compile_error(refusals)
    return stripped


def _failure(status: int, log: str, ptx: str) -> CompileError | CompilerUnavailable:
    if status == compiler_child.OUT_OF_MEMORY:
        return CompileError((), "compile memory limit exceeded")
    if status == compiler_child.TOO_LARGE:
        return CompileError((), "compiled code or compiler log is too large")
    if status not in (compiler_child.COMPILATION, compiler_child.INTERNAL_ERROR):
        return CompilerUnavailable(f"NVRTC result {status}")
    if found := compiler_log.diagnostics(log, ptx):
        return _compile_error(found)
    return CompileError((), f"the compiler failed without a message (NVRTC result {status})")


def _compile_error(diagnostics: tuple[Diagnostic, ...]) -> CompileError:
    first = diagnostics[0]
    return CompileError(diagnostics, f"line {first.line}: {first.message}" if first.line else first.message)


@functools.cache
def _toolkit() -> tuple[str, str]:
    """Return the paths of the NVRTC library and of the toolkit's include folder, from the PyPI wheels."""
    return (
        str(_installed_file("nvidia-cuda-nvrtc", "libnvrtc.so.*")),
        str(_installed_file("nvidia-cuda-runtime", "cuda_fp16.h").parent),
    )


def _installed_file(package: str, pattern: str) -> Path:
    for file in _distribution(package).files or []:
        if file.match(pattern):
            return Path(file.locate()).resolve()
    raise CompilerUnavailable(f"package {package} holds no {pattern}")


def _distribution(package: str) -> importlib.metadata.Distribution:
    try:
        return importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError as error:
        raise CompilerUnavailable(f"package {package} is not installed") from error


if __name__ == "__main__":
    from leap_jax.kernels import compiler_command

    sys.exit(compiler_command.main())
