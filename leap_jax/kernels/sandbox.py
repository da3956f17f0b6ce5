"""Locks the calling process into a folder that it can only read.

Called once by the compiler child on itself. Each layer is used where the kernel grants it, as root or as a
normal user, and the layers that hold are returned by name. What is not covered: system calls are not filtered
(no seccomp), so a bug in the kernel, or in the compiler together with the kernel, remains; without `chroot`
the names and sizes of other files can be asked for (Landlock guards their content only), and without both
layers nothing but the include screen guards the file system.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import struct

MEMORY_BYTES = 2 << 30
OPEN_FILES = 64

_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_CLONE_NEWIPC, _CLONE_NEWUSER, _CLONE_NEWNET = 0x08000000, 0x10000000, 0x40000000
_CAPABILITY_VERSION_3 = 0x20080522
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446  # on every architecture
_LANDLOCK_RULE_PATH_BENEATH = 1
_LANDLOCK_READ_FILE, _LANDLOCK_READ_DIR = 1 << 2, 1 << 3
_LANDLOCK_TCP, _LANDLOCK_SCOPES = 0b11, 0b11  # bind and connect; abstract sockets and signals

_libc = ctypes.CDLL(None, use_errno=True)


def limit_resources() -> None:
    """Bound memory and open files, and forbid writing files and core dumps, for the rest of the process."""
    for limit, value in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(limit)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))


def limit_cpu(seconds: float) -> None:
    """Let the process use `seconds` more of CPU time (rounded up); the kernel ends it with SIGXCPU beyond."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(usage.ru_utime + usage.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def end_on_hangup(socket: int, enabled: bool) -> None:
    """Let SIGIO end this process when the other side of `socket` closes (or sends), or no longer.

    Unlike PR_SET_PDEATHSIG it follows the parent process, not the one thread of it that started this process.
    """
    fcntl.fcntl(socket, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(socket, fcntl.F_GETFL)
    fcntl.fcntl(socket, fcntl.F_SETFL, flags | os.O_ASYNC if enabled else flags & ~os.O_ASYNC)


def separate() -> tuple[str, ...]:
    """Renounce new privileges; leave the host's user, network and IPC namespaces. Needs a single thread."""
    layers = []
    _libc.prctl(_PR_SET_DUMPABLE, ctypes.c_ulong(0))
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0))) == 0:
        layers.append("no_new_privs")
    if _libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWIPC) == 0:
        layers.append("namespaces")
    return tuple(layers)


def confine(folder: str) -> tuple[str, tuple[str, ...]]:
    """Leave `folder`, read-only, as the whole file system; returns its new path and the layers that hold.

    Whatever the process still needs from elsewhere (libraries) must be loaded by now.
    """
    layers = []
    try:
        os.chroot(folder)
        folder = "/"
        layers.append("chroot")
    except PermissionError:
        pass  # neither root nor a user namespace
    os.chdir(folder)
    if _landlock(folder):
        layers.append("landlock")
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))  # no fork and no thread; the kernel does not hold root to it
    if _drop_capabilities():
        layers.append("no_capabilities")
    return folder, tuple(layers)


def _landlock(folder: str) -> bool:
    """Deny files but for reading below `folder`, TCP and signals to others, as far as the kernel can."""
    version = _libc.syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return False
    # Access rights by version: 13 bits at first, then rename (2), truncate (3) and device control (5).
    rights = 13 + (version >= 2) + (version >= 3) + (version >= 5)
    fields = [(1 << rights) - 1]
    fields += [_LANDLOCK_TCP] * (version >= 4)
    fields += [_LANDLOCK_SCOPES] * (version >= 6)
    attributes = struct.pack(f"{len(fields)}Q", *fields)
    ruleset = _libc.syscall(_LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if ruleset < 0:
        return False
    parent = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    rule = struct.pack("=Qi", _LANDLOCK_READ_FILE | _LANDLOCK_READ_DIR, parent)
    holds = (
        _libc.syscall(_LANDLOCK_ADD_RULE, ruleset, _LANDLOCK_RULE_PATH_BENEATH, rule, 0) == 0
        and _libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0) == 0
    )
    os.close(parent)
    os.close(ruleset)
    return holds


def _drop_capabilities() -> bool:
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    return _libc.capset(header, bytes(24)) == 0  # effective, permitted, inheritable, twice 32 bits: none
