"""What a node has and allows: its cores, and the memory that a process may take."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from hyperslab.measuring import limits, machine

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
    assert machine.physical_cores() == cores


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
    limits.limit_memory(1000)
    assert kept[-1] == (set_mb * 10**6, hard)
    said = str(limits.memory_error(MemoryError("no room.")))
    assert said == f"no room; a cell may take {set_mb} MB here: {why}"
