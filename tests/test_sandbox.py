"""What a process can still do once it is locked in: the layers, seen from inside."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from leap_jax.kernels import compiler, sandbox, seccomp

ROOT = Path(sandbox.__file__).parents[2]
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
SYSTEM_PYTHON = "/usr/bin/python3"  # one that a normal user may run, where the tests' own lies in root's home

# Locks itself in, tries what must fail, and prints the layers and the error numbers (0: it worked).
PROBE = """
import sys; sys.path.append(sys.argv[1])
import ctypes, errno, fcntl, json, mmap, os, resource, signal, socket
from leap_jax.kernels import sandbox
parent, folder, inside, outside = os.getppid(), *sys.argv[2:]
sandbox.limit_resources()
_, layers = sandbox.confine(folder, sandbox.separate())
root = "/" if "chroot" in layers else folder
libc = sandbox._libc

def tried(action):
    try:
        result = action()
    except OSError as error:
        return error.errno
    return ctypes.get_errno() if result == -1 else 0

tries = {
    "read_inside": lambda: open(os.path.join(root, inside)).read() and None,
    "read_outside": lambda: open(outside),
    "read_passwd": lambda: open("/etc/passwd"),
    "write_inside": lambda: open(os.path.join(root, "new"), "w"),
    "memory": lambda: mmap.mmap(-1, 1 << 20) and None,
    "executable_memory": lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC),
    "fork": os.fork,
    "thread": lambda: libc.unshare(0x00000400),
    "exec": lambda: os.execv("/bin/true", ["true"]),
    "kill_parent": lambda: os.kill(parent, 0),
    "signal_owner": lambda: fcntl.fcntl(1, fcntl.F_SETOWN, parent),
    "limit_of_parent": lambda: resource.prlimit(parent, resource.RLIMIT_NOFILE),
    "lift_limit": lambda: libc.prlimit(0, resource.RLIMIT_CPU, bytes([255] * 16), None),
    "stack_limit": lambda: resource.setrlimit(resource.RLIMIT_STACK, resource.getrlimit(resource.RLIMIT_STACK)),
    "ptrace": lambda: libc.ptrace(16, parent, None, None),
    "unix_socket": lambda: socket.socket(socket.AF_UNIX),
    "inet_socket": lambda: socket.socket(),
    "mount": lambda: libc.mount(b"none", b"/", b"tmpfs", 0, None),
    "chroot": lambda: os.chroot(root),
    "memory_file": lambda: os.memfd_create("x"),
    "io_uring": lambda: libc.syscall(425, 1, None),
    "bpf": lambda: libc.syscall({"x86_64": 321}.get(os.uname().machine, 280), 0, None, 0),
}
print(json.dumps([layers, {name: tried(action) for name, action in tries.items()}]), flush=True)
"""
ALLOWED = {"read_inside", "memory", "stack_limit"}


def probe(tmp_path, *user):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "inside").write_text("x")
    (tmp_path / "outside").write_text("x")
    python = SYSTEM_PYTHON if user else sys.executable
    arguments = (str(ROOT), str(folder), "inside", str(tmp_path / "outside"))
    done = subprocess.run(
        [*user, python, "-I", "-S", "-B", "-c", PROBE, *arguments], capture_output=True, text=True, env={}, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    layers, results = json.loads(done.stdout)
    return set(layers), results


def check(layers, results):
    assert layers <= set(sandbox.LAYERS)
    assert {name for name in ALLOWED if results[name] != 0} == set()
    if {"chroot", "landlock"} & layers:
        assert {results[name] for name in ("read_outside", "read_passwd")} <= {errno.ENOENT, errno.EACCES}
    if "seccomp" not in layers:
        pytest.skip("this kernel grants no seccomp filter")
    refused = results.keys() - ALLOWED - {"read_outside", "read_passwd"}
    assert {name: results[name] for name in refused} == dict.fromkeys(refused, errno.EPERM)


def test_nothing_but_reading_the_folder_is_left(tmp_path):
    check(*probe(tmp_path))


def test_as_a_normal_user(tmp_path):
    if os.getuid() != 0 or not shutil.which("setpriv") or not os.access(SYSTEM_PYTHON, os.X_OK):
        pytest.skip("needs root, setpriv and a system Python")
    for path in (tmp_path, *tmp_path.parents[:3]):  # to where all users may go
        path.chmod(path.stat().st_mode | 0o055)
    check(*probe(tmp_path, *NOBODY))


def test_without_namespaces_the_other_layers_hold(tmp_path, monkeypatch):
    refused = PROBE.replace("parent, folder", "sandbox._NAMESPACES = {}; parent, folder", 1)
    monkeypatch.setitem(globals(), "PROBE", refused)
    layers, results = probe(tmp_path)
    assert not {name for name in layers if name.endswith("_namespace")}
    check(layers, results)


def test_without_seccomp_no_capability_is_left(tmp_path, monkeypatch):
    unfiltered = PROBE.replace("parent, folder", "sandbox.seccomp.install = lambda libc: False; parent, folder", 1)
    monkeypatch.setitem(globals(), "PROBE", unfiltered.replace("os.fork,", "int,"))
    layers, results = probe(tmp_path)
    assert "seccomp" not in layers
    assert results["chroot"] == results["mount"] == errno.EPERM


def test_missing_layers_are_named(monkeypatch):
    monkeypatch.setattr(compiler, "sandbox_layers", lambda: ("chroot", "seccomp"))
    assert compiler.missing_layers() == tuple(name for name in sandbox.LAYERS if name not in ("chroot", "seccomp"))


def decide(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """Run a filter on one call, as the kernel does; returns its action."""
    data = struct.pack("<iIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    code = list(struct.iter_unpack("<HBBI", program))
    index = word = 0
    while True:
        operation, if_true, if_false, value = code[index]
        index += 1
        if operation == 0x20:  # load a word
            (word,) = struct.unpack_from("<I", data, value)
        elif operation == 0x06:  # return
            return value
        else:
            true = {0x15: word == value, 0x35: word >= value, 0x45: bool(word & value)}[operation]
            index += if_true if true else if_false


ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EPERM
MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


@pytest.mark.parametrize("machine", MACHINES)
def test_filter_allows_what_is_listed_and_nothing_else(machine):
    program, architecture, calls = seccomp.program(machine), MACHINES[machine], seccomp._CALLS[machine]
    assert len(program) // 8 < 4096
    for number in range(600):
        listed = number in calls.values()
        guarded = number in {calls[name] for name in seccomp._GUARDS if name in calls}
        assert guarded or decide(program, architecture, number) == (ALLOW if listed else REFUSE)
    assert decide(program, 0x40000003, calls["read"]) == KILL
    assert len(set(calls.values())) == len(calls)
    if machine == "x86_64":
        assert decide(program, architecture, 0x40000000 | calls["read"]) == KILL


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("call", "arguments", "action"),
    [
        ("mmap", (0, 4096, 3), ALLOW),
        ("mmap", (0, 4096, 5), REFUSE),
        ("mprotect", (0, 4096, 4), REFUSE),
        ("openat", (0, 0, os.O_RDONLY | os.O_CLOEXEC), ALLOW),
        ("openat", (0, 0, os.O_WRONLY), REFUSE),
        ("openat", (0, 0, os.O_RDWR), REFUSE),
        ("openat", (0, 0, os.O_CREAT), REFUSE),
        ("fcntl", (4, 3), ALLOW),
        ("fcntl", (4, 8, 1), REFUSE),
        ("prlimit64", (0, resource.RLIMIT_CPU, 0, 1), ALLOW),
        ("prlimit64", (0, resource.RLIMIT_CPU, 1 << 32), REFUSE),
        ("prlimit64", (0, resource.RLIMIT_CPU, 1), REFUSE),
        ("prlimit64", (0, resource.RLIMIT_STACK, 1), ALLOW),
        ("prlimit64", (7, resource.RLIMIT_STACK, 0), REFUSE),
    ],
)
def test_arguments_are_looked_at(machine, call, arguments, action):
    number = seccomp._CALLS[machine][call]
    assert decide(seccomp.program(machine), MACHINES[machine], number, *arguments) == action
