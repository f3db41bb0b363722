"""Workers that are held to a memory of their own: what they keep, what stays of them, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_environments import ROOT

from hyperslab.measuring import node_memory
from hyperslab.planning import study_checks
from hyperslab.sites import mounts as table_of_mounts
from hyperslab.validation.errors import ConfigurationError

FILE_BYTES, LIMIT = 240 * 2**20, 160 * 2**20
# Reads the part between two offsets twice, and prints what came from the device the second time.
READER = """
import os, sys
from hyperslab.measuring import node_memory
path, first, last, limit = sys.argv[1], *map(int, sys.argv[2:])
node_memory.join(limit)
descriptor = os.open(path, os.O_RDONLY)
def device():
    return int(open("/proc/self/io").read().split("read_bytes: ")[1].split()[0])
for _ in range(2):
    before = device()
    for at in range(first, last, 2**20):
        os.pread(descriptor, 2**20, at)
print(device() - before)
"""


@pytest.fixture
def groups(require: Callable[[str | None], None]) -> Path:
    """Where groups are made."""
    require(node_memory.mistake())
    node_memory.tidy()
    return next(node_memory._hierarchies())[0]


def start(file: Path, first: int, last: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow" / "scripts")}
    words = [sys.executable, "-c", READER, str(file), str(first), str(last), str(LIMIT)]
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)


def test_two_workers_keep_what_one_cannot(disk: Path, groups: Path) -> None:
    file = disk / "large"
    try:
        file.write_bytes(os.urandom(2**20) * (FILE_BYTES // 2**20))
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        found = []
        for parts in (1, 2):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            part = FILE_BYTES // parts
            readers = [start(file, number * part, (number + 1) * part) for number in range(parts)]
            found.append(sum(int(reader.communicate()[0]) for reader in readers))
        os.close(descriptor)
    finally:
        file.unlink(missing_ok=True)
    alone, together = found
    assert alone > FILE_BYTES / 2 and together < FILE_BYTES / 20
    node_memory.tidy()
    assert not list(groups.glob(f"{node_memory.NAME}*"))


@pytest.mark.parametrize(
    ("mounts", "said"),
    [
        ("30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n", "no control groups of memory"),
        ("30 23 0:26 / {there} rw - cgroup cgroup rw,memory\n", "only root may"),
    ],
)
def test_where_it_cannot_be_had_nothing_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounts: str, said: str
) -> None:
    file = tmp_path / "mountinfo"
    file.write_text(mounts.format(there=tmp_path / "absent"))
    monkeypatch.setattr(table_of_mounts, "TABLE", file)
    with pytest.raises(OSError, match=said):
        node_memory.join(LIMIT)
    study: Any = SimpleNamespace(
        file=Path("mine.yaml"),
        cases={"held-1p": {"family": "held"}},
        cells=lambda site, _: [("all", "held-1p", "r0")] if site == "here" else [],
    )
    study_checks._check_node_memory(study, ["here"])
    study.cases["held-1p"]["node_memory_bytes"] = LIMIT
    with pytest.raises(ConfigurationError, match=f"mine.yaml: cases.held: node_memory_bytes: .*{said}"):
        study_checks._check_node_memory(study, ["other", "here"])
    # It is no business of a node on which the case is not measured.
    study_checks._check_node_memory(study, ["other"])


@pytest.mark.parametrize(("version", "timed"), [(1, True), (2, False), (2, True)])
def test_workers_do_not_leave_the_group_that_throttles_a_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, timed: bool
) -> None:
    """In version 2 of control groups a process is in one alone."""
    (tmp_path / "cgroup.controllers").write_text("io memory")
    (file := tmp_path / "mountinfo").write_text(
        f"30 23 0:26 / {tmp_path} rw - cgroup cgroup rw,memory\n"
        if version == 1
        else f"30 23 0:26 / {tmp_path} rw - cgroup2 cgroup2 rw\n"
    )
    monkeypatch.setattr(table_of_mounts, "TABLE", file)
    case = {"family": "held", "by": "processes", "node_memory_bytes": LIMIT}
    study: Any = SimpleNamespace(
        file=Path("mine.yaml"), cases={"held-1p": case}, cells=lambda *_: [("all", "held-1p", "r0")]
    )
    found: Any = SimpleNamespace(sites={"slow": {"executor": "local", "cgroup": "/group"}})
    if version == 2 and timed:
        with pytest.raises(ConfigurationError, match="mine.yaml: cases.held: node_memory_bytes: .* 'slow'$"):
            study_checks._check_throttled(study, "slow", timed, found)
    else:
        study_checks._check_throttled(study, "slow", timed, found)
    found.sites["slow"]["cgroup"] = None
    study_checks._check_throttled(study, "slow", timed, found)
