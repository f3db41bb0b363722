"""Install the packages of a lock into the environment of this Python, and say now and then how far that is.

Usage: python envs/install_packages.py requirements.lock
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

# A lock names all that its packages need, so that nothing has to be found out.
PIP = (
    "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off", "--require-hashes",
    "--no-deps",
)  # fmt: skip
PINNED = re.compile(r"^[\w.-]+==", re.MULTILINE)
# Between two lines.
SILENT_SECONDS = 5.0


class Installation:
    """What pip has said and done so far."""

    def __init__(self, lock: Path) -> None:
        self._wanted = len(PINNED.findall(lock.read_text(encoding="utf-8")))
        self._began = time.monotonic()
        self._site = Path(sysconfig.get_path("purelib"))
        self._there_before = self._there()
        self._collected = 0
        self._installing = False

    def _there(self) -> int:
        return len(list(self._site.glob("*.dist-info")))

    def hear(self, line: str) -> None:
        """Take note of a line that pip prints."""
        word = line.split(" ", 1)[0]
        # A package for other machines or Pythons, or one that is there.
        if word == "Ignoring" or line.startswith("Requirement already satisfied"):
            self._wanted -= 1
        elif word == "Collecting":
            self._collected += 1
        elif word == "Installing":
            self._installing = True

    def text(self) -> str:
        """Return how far it is, as a person says it."""
        done = self._there() - self._there_before if self._installing else self._collected
        word = "installed" if self._installing else "downloaded"
        return f"  {done} of {self._wanted} packages {word}, {self.seconds()} s so far"

    def seconds(self) -> int:
        """Return whole seconds since it began."""
        return round(time.monotonic() - self._began)

    def follow(self, ended: threading.Event) -> None:
        """Print how far it is until it has ended."""
        while not ended.wait(SILENT_SECONDS):
            print(self.text(), flush=True)


def main() -> int:
    """Return pip's own exit status; what pip complains of goes to standard error."""
    lock = Path(sys.argv[1])
    installation, ended = Installation(lock), threading.Event()
    threading.Thread(target=installation.follow, args=(ended,), daemon=True).start()
    pip = subprocess.Popen([sys.executable, *PIP, "-r", str(lock)], stdout=subprocess.PIPE, text=True)
    assert pip.stdout is not None
    try:
        for line in pip.stdout:
            installation.hear(line)
    except KeyboardInterrupt:
        # The terminal has told pip, too.
        pip.wait()
        return 130
    status = pip.wait()
    ended.set()
    if status == 0:
        print(f"  done in {installation.seconds()} s", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
