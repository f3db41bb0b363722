"""Two runs that end in one moment remove the same locks, and neither fails at it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from snakemake.persistence.file import FilePersistence

from hyperslab.planning import snakemake_patches


def test_what_another_run_has_just_removed_does_not_fail_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks, remove, attempts = tmp_path / "locks", shutil.rmtree, list[str]()

    def overtaken(path: str, *arguments: Any) -> None:
        attempts.append(path)
        if len(attempts) == 1:
            # The other run is ahead by one file, and fails at the next in the same way: that one stays.
            (locks / "1.output.lock").unlink()
            raise FileNotFoundError(path)
        remove(path, *arguments)

    persistence = FilePersistence.__new__(FilePersistence)
    persistence._lockdir, persistence._lockfile = str(locks), {"input": str(locks / "0.input.lock")}
    locks.mkdir()
    for name in ("0.input", "1.input", "1.output"):
        (locks / f"{name}.lock").touch()
    monkeypatch.setattr(FilePersistence, "_delete_locks", FilePersistence._delete_locks)
    monkeypatch.setattr(shutil, "rmtree", overtaken)
    snakemake_patches.end_together()
    persistence._delete_locks()
    assert len(attempts) == 2
    assert not locks.exists()
