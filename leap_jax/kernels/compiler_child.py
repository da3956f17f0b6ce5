"""The program of the compiler child: NVRTC behind a socket, in a sandbox. Imports the standard library only.

It loads NVRTC, compiles once so that everything NVRTC reads late is in memory, locks itself in, says hello,
and then answers requests until its socket closes. A message is a fixed header (`REQUEST`, `REPLY`) and the
bodies it counts.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
from typing import BinaryIO

from leap_jax.kernels import includes, sandbox

PROGRAM = "kernel.cu"
LOG_BYTES = 64 << 10
PTX_BYTES = 8 << 20
CUBIN_BYTES = 32 << 20

REQUEST = struct.Struct("<IdI")  # bytes of source, seconds of CPU time, 90 for sm_90
REPLY = struct.Struct("<iIII")  # status, then bytes of log, PTX and cubin

# Status: NVRTC's own results, and below zero what NVRTC does not know.
SUCCESS, OUT_OF_MEMORY, INVALID_OPTION, COMPILATION, INTERNAL_ERROR = 0, 1, 5, 6, 11
TOO_LARGE, FAILED_TO_START = -1, -2

OPTIONS = (
    "--std=c++17",
    "--minimal",  # without textures and the device runtime: a quarter faster
    "--disable-warnings",  # an answer can fill the log with them
    "-lineinfo",
    "--ptxas-options=-v",
    f"-include={includes.PREAMBLE_NAME}",
)
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
ARCHITECTURE = 90  # unless another is asked for
_WARM_UP = 'extern "C" __global__ void warm_up(float* y) { y[0] = expf(y[0]); }'


def main(channel: int, library: str, include_folder: str) -> None:
    """Serve compile requests on the socket `channel` until it closes."""
    connection = socket.socket(fileno=channel)
    requests, replies = connection.makefile("rb"), connection.makefile("wb")
    sandbox.own_signals(channel)
    try:
        nvrtc, options, hello = _start(library, include_folder)
    except (OSError, AttributeError, RuntimeError) as error:  # no library, an old one, or a broken one
        _reply(replies, FAILED_TO_START, str(error).encode())
        return
    _reply(replies, SUCCESS, json.dumps(hello).encode())
    while header := requests.read(REQUEST.size):
        size, cpu_seconds, architecture = REQUEST.unpack(header)
        source = requests.read(size)
        # Idle, the child ends with its socket; in the middle of a compile it does not look at it.
        sandbox.end_on_hangup(channel, True)
        sandbox.limit_cpu(cpu_seconds)
        try:
            reply = _compile(nvrtc, source, options, architecture)
        except MemoryError:
            reply = OUT_OF_MEMORY, b"", b"", b""
        sandbox.limit_cpu(0)
        sandbox.end_on_hangup(channel, False)  # before the reply, which the next request may follow at once
        _reply(replies, *reply)


def _start(library: str, include_folder: str) -> tuple[ctypes.CDLL, tuple[str, ...], dict]:
    sandbox.limit_resources()
    _keep_freed_memory()
    layers = sandbox.separate()
    nvrtc = ctypes.CDLL(library)
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    _warm_up(nvrtc, OPTIONS)
    root, layers = sandbox.confine(include_folder, layers)
    options = (*OPTIONS, f"-I{root}", f"-I{os.path.join(root, 'cccl')}")
    _warm_up(nvrtc, options)  # a sandbox that NVRTC cannot work in shows here, not in the answers
    return nvrtc, options, {"version": [major.value, minor.value], "layers": layers}


def _keep_freed_memory() -> None:
    """Let malloc keep what NVRTC frees: page faults on memory that is mapped anew are a sixth of a compile.

    A child that has grown too large is replaced.
    """
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    libc.mallopt(_M_MMAP_THRESHOLD, 32 << 20)


def _warm_up(nvrtc: ctypes.CDLL, options: tuple[str, ...]) -> None:
    status, log, _, _ = _compile(nvrtc, _WARM_UP.encode(), options)
    if status != SUCCESS:
        raise RuntimeError(f"NVRTC cannot compile (result {status}): {log.decode(errors='replace')[:500]}")


def _compile(
    nvrtc: ctypes.CDLL, source: bytes, options: tuple[str, ...], architecture: int = ARCHITECTURE
) -> tuple[int, bytes, bytes, bytes]:
    """Compile one program; returns status, log, PTX (also after an assembler error) and cubin.

    For a real architecture, so that the assembler checks inline PTX and resources.
    """
    options = (f"--gpu-architecture=sm_{architecture}", *options)
    program = ctypes.c_void_p()
    names, texts = _strings(includes.SHIMS.keys()), _strings(includes.SHIMS.values())
    status = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, PROGRAM.encode(), len(names), texts, names)
    if status != SUCCESS:
        return status, b"", b"", b""
    status = nvrtc.nvrtcCompileProgram(program, len(options), _strings(options))
    log, ptx, cubin = (_output(nvrtc, what, program) for what in ("ProgramLog", "PTX", "CUBIN"))
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if len(ptx) > PTX_BYTES or len(cubin) > CUBIN_BYTES or (status == SUCCESS and len(log) > LOG_BYTES):
        return TOO_LARGE, b"", b"", b""
    return status, log[:LOG_BYTES], ptx, cubin


def _output(nvrtc: ctypes.CDLL, what: str, program: ctypes.c_void_p) -> bytes:
    """The log, PTX or cubin of a program, empty if there is none."""
    size = ctypes.c_size_t()
    if getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) != SUCCESS:
        return b""
    buffer = ctypes.create_string_buffer(size.value)
    if getattr(nvrtc, f"nvrtcGet{what}")(program, buffer) != SUCCESS:
        return b""
    return buffer.raw if what == "CUBIN" else buffer.raw.replace(b"\0", b"")  # the log holds some inside


def _strings(texts) -> ctypes.Array:
    return (ctypes.c_char_p * len(texts))(*(text.encode() for text in texts))


def _reply(replies: BinaryIO, status: int, log: bytes, ptx: bytes = b"", cubin: bytes = b"") -> None:
    replies.write(REPLY.pack(status, len(log), len(ptx), len(cubin)))
    replies.writelines((log, ptx, cubin))
    replies.flush()
