"""A filter on the system calls of the compiler child: a short list is allowed, all else fails with EPERM.

An allow-list, so that calls nobody thought of (and those of later kernels) are refused: no process or thread,
no exec, ptrace or signal, no socket, mount, bpf, keyctl, perf, module, io_uring or userfaultfd. A refused call
fails rather than kills: a harmless one that another libc or NVRTC makes is then survived or shows in the child's
self-test, and a compiler that was taken over gains nothing by going on. Only a call of a foreign architecture
(whose numbers mean something else) ends the process. Arguments are looked at where a call can do more than
the compiler needs: no new executable memory, files for reading only, no owner for signals, no limit but the
stack's (which NVRTC sets for itself) and nobody else's.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import resource
import struct

_SET_MODE_FILTER, _ALL_THREADS = 1, 1
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # BPF operations, on 32-bit words
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EPERM
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_FIRST_X32_CALL = 0x40000000
_PROT_EXEC = 4
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

# Names to numbers by machine. `open`, `stat` and the like exist on the older one only.
_CALLS = {
    "x86_64": {
        **{"read": 0, "write": 1, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "lseek": 8, "munmap": 11, "brk": 12},
        **{"rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "pread64": 17, "readv": 19, "writev": 20},
        **{"access": 21, "sched_yield": 24, "mremap": 25, "madvise": 28, "setitimer": 38, "getpid": 39, "sendto": 44},
        **{"recvfrom": 45, "exit": 60, "getcwd": 79, "gettimeofday": 96, "getrlimit": 97, "getrusage": 98},
        **{"sigaltstack": 131, "gettid": 186, "futex": 202, "sched_getaffinity": 204, "restart_syscall": 219},
        **{"clock_gettime": 228, "exit_group": 231, "newfstatat": 262, "getrandom": 318, "statx": 332},
        **{"open": 2, "mmap": 9, "mprotect": 10, "fcntl": 72, "openat": 257, "prlimit64": 302},
    },
    "aarch64": {
        **{"read": 63, "write": 64, "close": 57, "fstat": 80, "lseek": 62, "munmap": 215, "brk": 214},
        **{"rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139, "pread64": 67, "readv": 65, "writev": 66},
        **{"faccessat": 48, "sched_yield": 124, "mremap": 216, "madvise": 233, "setitimer": 103, "getpid": 172},
        **{"sendto": 206, "recvfrom": 207, "exit": 93, "getcwd": 17, "gettimeofday": 169, "getrlimit": 163},
        **{"getrusage": 165, "sigaltstack": 132, "gettid": 178, "futex": 98, "sched_getaffinity": 123},
        **{"restart_syscall": 128, "clock_gettime": 113, "exit_group": 94, "newfstatat": 79, "getrandom": 278},
        **{"statx": 291, "mmap": 222, "mprotect": 226, "fcntl": 25, "openat": 56, "prlimit64": 261},
    },
}
_AUDIT_NAMES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_SECCOMP_CALLS = {"x86_64": 317, "aarch64": 277}


def install(libc: ctypes.CDLL) -> bool:
    """Put the filter on all threads of this process, for good; False where it cannot be had.

    Needs no_new_privs (or CAP_SYS_ADMIN), and whatever is to be loaded must be loaded by now.
    """
    machine = os.uname().machine
    if machine not in _CALLS or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    code = program(machine)
    buffer = ctypes.create_string_buffer(code, len(code))
    pointer = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    return libc.syscall(_SECCOMP_CALLS[machine], _SET_MODE_FILTER, _ALL_THREADS, pointer) == 0


def program(machine: str) -> bytes:
    """The filter as BPF code for "x86_64" or "aarch64"."""
    code = [_load(_ARCHITECTURE), _instruction(_EQUAL, _AUDIT_NAMES[machine], 1, 0), _return(_KILL), _load(_NUMBER)]
    if machine == "x86_64":
        code += [_instruction(_AT_LEAST, _FIRST_X32_CALL, 0, 1), _return(_KILL)]
    for name, number in _CALLS[machine].items():
        code += _if_equal(number, _GUARDS.get(name, [_return(_ALLOW)]))
    return b"".join([*code, _return(_REFUSE)])


def _instruction(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, if_true, if_false, value)


def _load(offset: int) -> bytes:
    return _instruction(_LOAD, offset)


def _argument(index: int, high: bool = False) -> bytes:
    return _load(_ARGUMENTS + 8 * index + 4 * high)  # little-endian, as both machines are


def _return(action: int) -> bytes:
    return _instruction(_RETURN, action)


def _if_equal(value: int, then: list[bytes]) -> list[bytes]:
    """Run `then`, which must return, if the loaded word is `value`."""
    return [_instruction(_EQUAL, value, 0, len(then)), *then]


def _refuse_unless(value: int) -> list[bytes]:
    return [_instruction(_EQUAL, value, 1, 0), _return(_REFUSE)]


def _without(index: int, bits: int) -> list[bytes]:
    """Allow a call unless its argument has one of the bits."""
    return [_argument(index), _instruction(_ANY_BIT, bits, 0, 1), _return(_REFUSE), _return(_ALLOW)]


def _one_of(index: int, values: tuple[int, ...]) -> list[bytes]:
    """Allow a call if its argument has one of the values."""
    choices = [instruction for value in values for instruction in _if_equal(value, [_return(_ALLOW)])]
    return [_argument(index), *choices, _return(_REFUSE)]


_GUARDS = {
    "open": _without(1, _WRITING),
    "openat": _without(2, _WRITING),
    "mmap": _without(2, _PROT_EXEC),
    "mprotect": _without(2, _PROT_EXEC),
    "fcntl": _one_of(1, (fcntl.F_GETFD, fcntl.F_SETFD, fcntl.F_GETFL, fcntl.F_SETFL)),
    # This process's own limits: setting the stack's, reading any (the pointer to a new value, two words, is null).
    "prlimit64": [
        *(_argument(0), *_refuse_unless(0)),
        *(_argument(1), *_if_equal(resource.RLIMIT_STACK, [_return(_ALLOW)])),
        *(_argument(2), *_refuse_unless(0), _argument(2, high=True), *_refuse_unless(0)),
        _return(_ALLOW),
    ],
}
