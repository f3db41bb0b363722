"""A headless Chromium, spoken to in the DevTools protocol over a pair of pipes."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

COMMAND = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MISSING = None if COMMAND else "chromium"
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
           "--hide-scrollbars", "--disable-background-networking", "--remote-debugging-pipe")  # fmt: skip
# Chromium reads commands from file descriptor 3 and writes to 4, which here may be others'.
LAUNCHER = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for end, place in zip(ends, (3, 4)):
    os.dup2(end, place)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One tab of a Chromium."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands = os.fdopen(commands, "wb", buffering=0)
        self._answers = os.fdopen(answers, "rb")
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self._loaded = False
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.send("Page.enable")

    def _message(self) -> dict[str, Any]:
        text = bytearray()
        while not text.endswith(b"\0"):
            if not (ahead := self._answers.peek()):
                raise EOFError("Chromium has ended")
            text += self._answers.read(ahead.find(b"\0") + 1 or len(ahead))
        message: dict[str, Any] = json.loads(text[:-1])
        self._loaded = self._loaded or message.get("method") == "Page.loadEventFired"
        return message

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the answer to a command."""
        command: dict[str, Any] = {"id": next(self._numbers), "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        self._commands.write(json.dumps(command).encode() + b"\0")
        while (message := self._message()).get("id") != command["id"]:
            pass
        if "error" in message:
            raise ValueError(f"{method}: {message['error']}")
        return dict(message["result"])

    def look(self, dark: bool = False) -> None:
        """Show pages as by day, or in the dark where `dark`, also the one that is open."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, page: Path, width: int = 1200, height: int = 900) -> None:
        """Show a page by day in a window of this size."""
        window = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **window)
        self.look()
        self._loaded = False
        self.send("Page.navigate", url=page.resolve().as_uri())
        while not self._loaded:
            self._message()

    def ask(self, expression: str) -> Any:
        """Return what an expression of JavaScript gives on the page."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise ValueError(found["exceptionDetails"])
        return found["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Press a key, by its name and its code."""
        for kind in ("rawKeyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "rawKeyDown" else {}
            self.send(
                "Input.dispatchKeyEvent", type="keyDown" if text else kind, key=key, code=key,
                windowsVirtualKeyCode=code, **text,
            )  # fmt: skip

    def picture(self, file: Path) -> None:
        """Write what the window shows."""
        file.write_bytes(b64decode(self.send("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """Yield a browser, whose profile lies in `folder`, for a while."""
    assert COMMAND
    theirs, commands = os.pipe()
    answers, mine = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, str(theirs), str(mine), COMMAND, *OPTIONS,
         f"--user-data-dir={folder}"],
        pass_fds=(theirs, mine), stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    os.close(mine)
    try:
        browser = Browser(commands, answers)
        yield browser
        browser._session = None
        browser.send("Browser.close")
    finally:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
