"""A headless Chromium driven over its own debugging pipe: what a page shows, says to its console, and asks for."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FOUND = next((path for path in map(shutil.which, NAMES) if path), None)
# Root has no user namespace of its own in most containers, where Chromium's sandbox then refuses to start.
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--mute-audio")


class Page:
    """One tab. `messages` are errors and warnings of its console; `requests` are the addresses it asked for."""

    def __init__(self, write: int, read: int) -> None:
        self.messages: list[str] = []
        self.requests: list[str] = []
        self._write, self._read, self._buffer, self._number = write, read, b"", 0
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask and wait for the answer; events that come before it are noted."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, path: Path, fragment: str = "") -> None:
        """Load a file and wait until its scripts have run."""
        self.call("Page.navigate", url="about:blank")
        self.messages.clear()
        self.requests.clear()
        self.call("Page.navigate", url=path.absolute().as_uri() + fragment)
        while self._receive().get("method") != "Page.loadEventFired":
            pass

    def look(self, *, width: int, height: int, dark: bool = False) -> None:
        """Set the size of the window, a phone's below 500, and the colour scheme that is preferred."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def evaluate(self, expression: str) -> Any:
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def press(self, key: str) -> None:
        text = key if len(key) == 1 else ""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=text if kind == "keyDown" else "")

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        path.write_bytes(
            base64.b64decode(
                self.call("Page.captureScreenshot", captureBeyondViewport=whole, **self._clip(whole))["data"]
            )
        )

    def _clip(self, whole: bool) -> dict[str, Any]:
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}} if whole else {}

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            data = os.read(self._read, 1 << 16)
            assert data, "Chromium ended"
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\0", 1)
        message = json.loads(line)
        params = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.messages.append(params["exceptionDetails"].get("exception", {}).get("description", "exception"))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.messages.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.messages.append(params["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
        return message


@contextmanager
def chromium(profile: Path) -> Iterator[Page]:
    """A browser with an empty profile; it ends with the block."""
    child_read, write = os.pipe()
    read, child_write = os.pipe()

    # Chromium reads commands from descriptor 3 and answers on 4; a shell moves the pipe's ends there.
    command = [FOUND, *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"]
    script = f'exec 3<&{child_read} 4>&{child_write}; exec "$@"'
    process = subprocess.Popen(
        ["bash", "-c", script, "bash", *command],
        pass_fds=(child_read, child_write),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(child_read)
    os.close(child_write)
    try:
        yield Page(write, read)
    finally:
        process.terminate()
        process.wait(30)
        os.close(write)
        os.close(read)
