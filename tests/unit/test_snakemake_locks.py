"""Of two runs in one directory each keeps its own locks, whenever the other ends."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from hyperslab.planning import snakemake_patches


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of locks of two runs, of which the first is patched."""
    # Not by whoever only collects tests: it takes a second. Its modules import each other; this is a way in.
    importlib.import_module("snakemake.api")
    from snakemake.persistence.file import FilePersistence

    for name in ("_delete_locks", "cleanup_locks"):
        monkeypatch.setattr(FilePersistence, name, getattr(FilePersistence, name))
    snakemake_patches.leave_other_locks()
    folder = tmp_path / "locks"
    folder.mkdir()
    for name in ("0.input", "0.output", "1.input", "1.output"):
        (folder / f"{name}.lock").touch()
    return folder


def run(locks: Path, number: int) -> Any:
    """What a run knows of its locks."""
    from snakemake.persistence.file import FilePersistence

    persistence = FilePersistence.__new__(FilePersistence)
    persistence._lockdir = str(locks)
    persistence._lockfile = {kind: str(locks / f"{number}.{kind}.lock") for kind in ("input", "output")}
    return persistence


def test_a_run_that_ends_removes_no_lock_but_its_own(locks: Path) -> None:
    run(locks, 0).unlock()
    assert sorted(path.name for path in locks.iterdir()) == ["1.input.lock", "1.output.lock"]


def test_a_lock_that_somebody_has_removed_fails_no_run(locks: Path) -> None:
    (locks / "1.input.lock").unlink()
    run(locks, 1).unlock()
    assert sorted(path.name for path in locks.iterdir()) == ["0.input.lock", "0.output.lock"]


def test_unlock_removes_all(locks: Path) -> None:
    persistence = run(locks, 2)
    persistence._lockfile = {}
    persistence.cleanup_locks()
    assert not locks.exists()
