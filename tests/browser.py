"""A headless Chromium, driven over its debugging pipe: what a page logs, asks of the network, and looks like."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_TIMEOUT = 600
_STARTER = """
import fcntl, os, sys
read, written = (fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(written, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Gives the browser its pipes: it reads what is 3 there, and writes 4."""


class Page:
    """One page of the browser.

    Attributes:
        log: what the page has logged and what went wrong in it, as the browser words it.
        requests: URLs that the page has asked for.
    """

    def __init__(self, to: int, back: int) -> None:
        self.log: list[str] = []
        self.requests: list[str] = []
        self._to, self._back = to, back
        self._left = b""
        self._last = 0
        self._session: str | None = None
        self._loaded = False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        """Send a command and return its result."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                return answer["result"]

    def open(
        self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False, phone: bool = False
    ) -> None:
        """Load a file and wait until it is there."""
        scale = 2 if phone else 1
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=phone
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="", features=[scheme])
        self.log.clear()
        self.requests.clear()
        self._loaded = False
        self.call("Page.navigate", url=path.absolute().as_uri())
        while not self._loaded:
            self._next()

    def js(self, expression: str) -> Any:
        """Return the value of an expression in the page, plain values only."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def screenshot(self, *, whole: bool = False) -> bytes:
        """Return the page as PNG; the whole of it, or what fits the window."""
        return b64decode(self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"])

    def _next(self) -> dict[str, Any]:
        """Read a message; keep the events."""
        until = time.monotonic() + _TIMEOUT
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._back], [], [], until - time.monotonic())
            data = os.read(self._back, 1 << 20) if ready else b""
            assert data, "the browser is gone"
            self._left += data
        line, _, self._left = self._left.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        params = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Runtime.exceptionThrown":
                self.log.append(json.dumps(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled":
                self.log.append(json.dumps(params["args"]))
            case "Log.entryAdded":
                self.log.append(params["entry"]["text"])
        return message


@contextmanager
def browser() -> Iterator[Page]:
    """Start the browser, and end it."""
    assert CHROMIUM is not None
    to_child, to = os.pipe()
    back, from_child = os.pipe()

    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [
            sys.executable,
            "-c",
            _STARTER,
            str(to_child),
            str(from_child),
            CHROMIUM,
            "--headless",
            "--no-sandbox",
        ]
        command += ["--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"]
        process = subprocess.Popen(
            [*command, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(to_child, from_child),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_child)
        os.close(from_child)
        try:
            page = Page(to, back)
            yield page
            page.call("Network.disable")
        finally:
            process.terminate()
            process.wait()
            os.close(to)
            os.close(back)
