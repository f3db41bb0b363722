"""What a node has and allows: its cores, and the memory that a process may take."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from hyperslab.measuring import job_nodes, limits, machine, processors
from hyperslab.sites import mounts
from hyperslab.sites.mounts import Mount

UNLIMITED = resource.RLIM_INFINITY
OF_PLATFORMS = "the smallest memory_mb of the platforms that use its root, of which Snakemake takes 650"


@pytest.mark.parametrize(("siblings", "cores"), [("1248", 4), ("33cc", 2), ("", 4)])
def test_a_core_is_counted_once_whatever_its_number(
    siblings: str, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cores of two clusters may have one number; where the kernel tells nothing each processor is one."""
    for number, mask in enumerate(siblings):
        (topology := tmp_path / f"cpu{number}" / "topology").mkdir(parents=True)
        (topology / "thread_siblings").write_text(f"{mask}\n")
        (topology / "physical_package_id").write_text("0\n")
        (topology / "core_id").write_text(f"{number % 2}\n")
    monkeypatch.setattr(machine, "CPUS", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(mounts, "table", lambda: iter([]))
    assert machine.physical_cores() == cores


@pytest.mark.parametrize(
    ("group", "files", "count"),
    [
        ("0::/job/step", {"cpu.max": "max 100000"}, 4),
        ("0::/job/step", {"job/cpu.max": "250000 100000", "job/step/cpu.max": "max 100000"}, 2),
        ("0::/", {"cpu.max": "50000 100000"}, 1),
        # A container that has its own group as the top.
        ("3:cpu,cpuacct:/docker/1f", {"cpu.cfs_quota_us": "300000", "cpu.cfs_period_us": "100000"}, 3),
        ("3:cpu,cpuacct:/", {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, 4),
    ],
)
def test_processors_beyond_a_quota_of_their_time_do_not_count(
    group: str, files: dict[str, str], count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mask of a container has all processors of its node: speed-ups beyond its quota are none."""
    for name, text in {"cgroup.controllers": "cpu io", **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    (own := tmp_path / "own").write_text(f"{group}\n")
    kind = "cgroup2" if group.startswith("0::") else "cgroup"
    monkeypatch.setattr(mounts, "table", lambda: iter([Mount(str(tmp_path), kind, kind, "rw,cpu,cpuacct")]))
    monkeypatch.setattr(processors, "OWN_GROUPS", own)
    monkeypatch.setattr(machine, "CPUS", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    assert machine.physical_cores() == processors.processors() == count


@pytest.mark.parametrize(
    ("hard_mb", "set_mb", "why"),
    [
        (None, 350, OF_PLATFORMS),
        (9000, 350, OF_PLATFORMS),
        (200, 200, "the node's own limit (ulimit -Hd), which is less than memory_mb"),
    ],
)
def test_a_cell_takes_no_more_memory_than_its_node_allows(
    hard_mb: int | None, set_mb: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hard = UNLIMITED if hard_mb is None else hard_mb * 10**6
    kept = [(hard, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: kept[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: kept.append(both))
    # A cell of this machine on a root that jobs use, too.
    monkeypatch.delenv(job_nodes.JOB, raising=False)
    limits.limit_memory(1000)
    assert len(kept) == 1
    monkeypatch.setenv(job_nodes.JOB, "1")
    limits.limit_memory(1000)
    assert kept[-1] == (set_mb * 10**6, hard)
    said = str(limits.memory_error(MemoryError("no room.")))
    assert said == f"no room; a cell may take {set_mb} MB here: {why}"


def test_files_are_opened_up_to_the_soft_limit_where_the_kernel_refuses_to_raise_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where fs.nr_open was lowered below the hard limit it refuses that, even if nothing were changed."""

    def refuse(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    limits.allow_files(900, "reading")
    said = r"takes a limit of 1,064 open files, which is 1,024 here \(ulimit -n; fs\.nr_open is less than"
    with pytest.raises(OSError, match=said):
        limits.allow_files(1000, "reading")
    # There is nothing to raise.
    monkeypatch.setattr(resource, "getrlimit", lambda _: (4096, 4096))
    limits.allow_files(4000, "reading")
