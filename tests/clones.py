"""A clone of the workflow with a tiny study of its own, measured once and copied for each test."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import preloaded
import yaml

REPOSITORY = Path(__file__).parents[1]
PARTS = ("Snakefile", "rules", "config", "workflow", "envs", "profiles")
# Far more than a run of a tiny study takes on a machine at rest.
LONGEST_SECONDS = 900.0

TINY: dict[str, Any] = {
    "title": "A tiny study",
    "dataset": {"axes": ["x", "y", "z"], "shape": [8, 8, 256], "dtype": "uint16"},
    "layouts": {"contiguous": None, "auto": {"chunks": "auto"}, "4x4x64": {"chunks": [4, 4, 64]}},
    "cases": {
        "slices": {"read": {"z": 5}, "states": ["cold", "warm", "session"]},
        "write": {"write": "chunk", "layouts": ["4x4x64"]},
    },
    "sites": ["disk"],
    "rounds": 3,
    "repeats": {"cold": 3, "warm": 3, "session": 4, "write": 2},
    "score": {"criteria": [{"case": "slices", "below": 0.1}], "target": 1},
    "recommendation": {"confirm_rounds": 1, "size_bound": 2.0},
}


class Clone:
    """A working copy of the project in a directory of its own."""

    def __init__(self, directory: Path, profile: str = "profiles/local") -> None:
        self.directory = directory
        self.profile = profile

    def keep_studies(self, *names: str) -> None:
        """Remove all studies but these: a page of all claims takes long to plan with all of them."""
        for file in (self.directory / "config" / "studies").glob("*.yaml"):
            if file.stem not in names:
                file.unlink()

    def write_study(self, name: str, study: dict[str, object]) -> None:
        """Put a study among those of the clone."""
        file = self.directory / "config" / "studies" / f"{name}.yaml"
        file.write_text(yaml.safe_dump(study, sort_keys=False), encoding="utf-8")

    def command(self, *arguments: str) -> list[str]:
        """`snakemake --profile … …`."""
        return [sys.executable, "-m", "snakemake", "--profile", self.profile, *arguments]

    def run(self, *arguments: str, timeout: float = LONGEST_SECONDS) -> subprocess.CompletedProcess[str]:
        """Snakemake in the clone, until it ends."""
        words = ("--profile", self.profile, *arguments)
        return preloaded.run(words, self.directory, {**os.environ, "NO_COLOR": "1"}, timeout)

    @contextlib.contextmanager
    def running(self, *arguments: str) -> Iterator[preloaded.Run]:
        """Snakemake in the clone, in a process group of its own; when the with block ends, it has ended.

        It prints to `log(*arguments)`.
        """
        with self.log(*arguments).open("w", encoding="utf-8") as printed:
            words, streams = ("--profile", self.profile, *arguments), (printed.fileno(), printed.fileno())
            process = preloaded.begin(words, self.directory, {**os.environ, "NO_COLOR": "1"}, *streams)
        try:
            yield process
            process.wait(LONGEST_SECONDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def log(self, *arguments: str) -> Path:
        """Where `running` keeps what is printed, a file for each last target."""
        return self.directory / f"{arguments[-1].replace('/', '-')}.log"

    def build(self, *arguments: str) -> str:
        """As `run`, and it must succeed; returns everything it printed."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout + done.stderr

    def planned(self, *arguments: str) -> Counter[str]:
        """Which jobs a dry run plans, by rule."""
        return self.made("--dry-run", *arguments)

    def made(self, *arguments: str) -> Counter[str]:
        """As `build`; returns which jobs the run had, by rule, for which it takes no dry run before it."""
        return jobs(self.build(*arguments))


def jobs(printed: str) -> Counter[str]:
    """Which jobs a run says that it has, by rule."""
    if "Nothing to be done" in printed:
        return Counter()
    table = printed.split("Job stats:")[-1].split("\n\n")[0]
    found = {rule: int(count) for rule, count in re.findall(r"^([\w.+@-]+)\s+(\d+)$", table, re.MULTILINE)}
    return Counter({rule: count for rule, count in found.items() if rule not in ("total", "all")})


def make_clone(directory: Path) -> Clone:
    """A clone with the study `tiny`."""
    directory.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        source = REPOSITORY / part
        if source.is_dir():
            # Compiled modules come along, but for one that is being written now.
            ignored = shutil.ignore_patterns("*.pyc.*")
            shutil.copytree(source, directory / part, ignore=ignored, symlinks=True)
        else:
            shutil.copy2(source, directory / part)
    (directory / "slurm").symlink_to("profiles/slurm")
    clone = Clone(directory)
    clone.write_study("tiny", TINY)
    return clone


class Kept:
    """A copy of a clone, by which a test's changes are undone in place: Snakemake notes where a file lies."""

    def __init__(self, clone: Clone, place: Path) -> None:
        self._here, self._copy = clone.directory, place
        shutil.copytree(self._here, place, symlinks=True)
        self._states = _states(self._here)

    def put_back(self) -> None:
        """Make the clone what it was; what has not changed since is not touched."""
        now = _states(self._here)
        # What lies in a directory goes before it, and comes after it.
        for name in sorted((name for name in now if now[name] != self._states.get(name)), reverse=True):
            path = self._here / name
            if stat.S_ISDIR(now[name][0]):
                shutil.rmtree(path)
            else:
                path.unlink()
        for name in sorted(name for name in self._states if now.get(name) != self._states[name]):
            if stat.S_ISDIR(self._states[name][0]):
                (self._here / name).mkdir()
            else:
                shutil.copy2(self._copy / name, self._here / name, follow_symlinks=False)
        self._states = _states(self._here)


def _states(directory: Path) -> dict[str, tuple[int, ...]]:
    """What tells of every file below a directory whether it has changed since; of directories, that they are.

    Nothing of compiled modules: Python itself knows which of them are outdated.
    """
    found: dict[str, tuple[int, ...]] = {}
    for place, directories, files in os.walk(directory):
        directories[:] = [name for name in directories if name != "__pycache__"]
        for name in (*directories, *files):
            path = os.path.join(place, name)
            seen = os.lstat(path)
            of_file = (seen.st_mode, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
            kind = stat.S_IFMT(seen.st_mode)
            found[os.path.relpath(path, directory)] = (kind,) if kind == stat.S_IFDIR else of_file
    return found


REPORT = "results/tiny/report.html"
