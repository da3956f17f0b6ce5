"""What the compiler has said of a source before, by content: in memory, and in a folder if one is named.

A reply is what the compiler child answers: status, log, PTX, cubin. Files hold no pickle and carry a digest, so
a file that was cut short or changed is no more than a miss; each is written beside its name and then renamed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path

Reply = tuple[int, str, str, bytes]

_SIZES = struct.Struct("<iQQQ")  # status, then bytes of log, PTX and cubin
_DIGEST_BYTES = hashlib.sha256().digest_size


def key(parts: Iterable[str]) -> str:
    """Return the name of what is compiled: source, options, versions. Where one part ends matters."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode(errors="surrogatepass")
        digest.update(struct.pack("<Q", len(data)))
        digest.update(data)
    return digest.hexdigest()


class Memory:
    """The replies used last, up to `limit` bytes of them. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0
        self._replies: OrderedDict[str, Reply] = OrderedDict()
        self._lock = threading.Lock()

    def load(self, name: str) -> Reply | None:
        with self._lock:
            if name in self._replies:
                self._replies.move_to_end(name)
            return self._replies.get(name)

    def store(self, name: str, reply: Reply) -> None:
        with self._lock:
            self._bytes += _size(reply) - _size(self._replies.pop(name, None))
            self._replies[name] = reply
            while self._bytes > self._limit:
                _, dropped = self._replies.popitem(last=False)
                self._bytes -= _size(dropped)

    def clear(self) -> None:
        with self._lock:
            self._replies.clear()
            self._bytes = 0


def load(folder: Path, name: str) -> Reply | None:
    """Return the reply stored under `name`, None if there is none that is whole."""
    try:
        data = (folder / name).read_bytes()
    except OSError:
        return None
    body = data[_DIGEST_BYTES:]
    return _decode(body) if hashlib.sha256(body).digest() == data[:_DIGEST_BYTES] else None


def store(folder: Path, name: str, reply: Reply) -> None:
    """Store a reply. A folder that cannot be written costs later time, so no error is raised."""
    body = _encode(reply)
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        file, path = tempfile.mkstemp(prefix=".", dir=folder)
        try:
            with open(file, "wb") as stream:
                stream.write(hashlib.sha256(body).digest() + body)
            os.replace(path, folder / name)
        except BaseException:
            os.unlink(path)
            raise


def _encode(reply: Reply) -> bytes:
    status, *texts, cubin = reply
    log, ptx = (text.encode() for text in texts)
    return b"".join((_SIZES.pack(status, len(log), len(ptx), len(cubin)), log, ptx, cubin))


def _decode(body: bytes) -> Reply:
    status, log, ptx, _ = _SIZES.unpack_from(body)
    texts = body[_SIZES.size :]
    return status, texts[:log].decode(), texts[log : log + ptx].decode(), texts[log + ptx :]


def _size(reply: Reply | None) -> int:
    return 0 if reply is None else sum(map(len, reply[1:]))
