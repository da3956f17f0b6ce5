"""Locks the calling process into a folder that it can only read.

Called once by the compiler child on itself. Each layer is used where the kernel grants it, as root or as a
normal user, and the layers that hold are returned by name: those of `LAYERS`. There is no pid namespace: it
would need a process in between, and seccomp leaves no call that names another process. What is not covered:
a bug in the kernel behind the calls that `seccomp` allows; without `chroot` the names and sizes of other files
can be asked for (Landlock guards their content only), and without both nothing but the include screen guards
the file system.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import signal
import struct

from leap_jax.kernels import seccomp

# What each keeps away from the host, in the order in which they are put on.
LAYERS = {
    "no_new_privs": "set-user-id programs",
    "user_namespace": "the host's privileges",
    "network_namespace": "the network",
    "ipc_namespace": "shared memory and queues",
    "mount_namespace": "all mounts but the read-only toolkit",
    "chroot": "all folders but the toolkit's",
    "landlock": "file content outside the toolkit, TCP, signals",
    "no_capabilities": "what root may do",
    "seccomp": "system calls a compiler does not need",
}

MEMORY_BYTES = 2 << 30
OPEN_FILES = 64

_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_NAMESPACES = {  # first the user namespace, which gives a normal user the right to the others
    "user_namespace": 0x10000000,
    "network_namespace": 0x40000000,
    "ipc_namespace": 0x08000000,
    "mount_namespace": 0x00020000,
}
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT, _MS_BIND, _MS_REC = 1, 2, 4, 8, 32, 4096, 16384
_MS_PRIVATE, _MNT_DETACH = 1 << 18, 2
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
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
    """Let the process use `seconds` more of CPU time, beyond which SIGPROF ends it; 0: no limit any more.

    A timer, because NVRTC lifts RLIMIT_CPU before each compile.
    """
    signal.setitimer(signal.ITIMER_PROF, seconds)


def own_signals(socket: int) -> None:
    """Let `end_on_hangup` of `socket` mean this process."""
    fcntl.fcntl(socket, fcntl.F_SETOWN, os.getpid())


def end_on_hangup(socket: int, enabled: bool) -> None:
    """Let SIGIO end this process when the other side of `socket` closes (or sends), or no longer.

    Unlike PR_SET_PDEATHSIG it follows the parent process, not the one thread of it that started this process.
    """
    flags = fcntl.fcntl(socket, fcntl.F_GETFL)
    fcntl.fcntl(socket, fcntl.F_SETFL, flags | os.O_ASYNC if enabled else flags & ~os.O_ASYNC)


def separate() -> tuple[str, ...]:
    """Renounce new privileges; leave the host's namespaces, each that can be left. Needs a single thread."""
    layers = []
    _libc.prctl(_PR_SET_DUMPABLE, ctypes.c_ulong(0))
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0))) == 0:
        layers.append("no_new_privs")
    layers += [name for name, flag in _NAMESPACES.items() if _libc.unshare(flag) == 0]
    return tuple(layers)


def confine(folder: str, separated: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Leave `folder`, read-only, as the whole file system; returns its new path and the layers that hold.

    separated: what `separate` returned. Whatever the process still needs from elsewhere (libraries) must be
    loaded by now.
    """
    layers = list(separated)
    if "mount_namespace" in layers:
        if _make_root(folder):
            folder = "/"
        else:
            layers.remove("mount_namespace")  # its own copy of all mounts keeps nothing away
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
    if seccomp.install(_libc):
        layers.append("seccomp")
    return folder, tuple(layers)


def _make_root(folder: str) -> bool:
    """Make `folder`, read-only, the root of this mount namespace and let go of all other mounts."""
    if (machine := os.uname().machine) not in _PIVOT_ROOT:
        return False
    path, private, bind = folder.encode(), _MS_REC | _MS_PRIVATE, _MS_BIND | _MS_REC
    read_only = _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    if _mount(None, b"/", private) or _mount(path, path, bind) or _mount(None, path, read_only):
        return False
    os.chdir(folder)  # into the new mount
    if _libc.syscall(_PIVOT_ROOT[machine], b".", b".") or _libc.umount2(b".", _MNT_DETACH):
        return False
    os.chdir("/")
    return True


def _mount(source: bytes | None, target: bytes, flags: int) -> int:
    return _libc.mount(source, target, None, ctypes.c_ulong(flags), None)


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
