"""What a dry run costs: processor time, since that does not depend on who else is there."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import pytest
from clones import Clone, make_clone

# Seconds; twice as fast machines as that of today will come, and slower ones are in use.
MOST_SECONDS = 2.0
TRIES = 3


def processor_seconds(clone: Clone) -> float:
    """Of a dry run of `quick`, with compiled modules, as a user has them."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        clone.command("--dry-run", "results/quick/report.html"),
        cwd=clone.directory, env=environment, check=True, capture_output=True,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.quiet
def test_a_dry_run_takes_less_than_two_seconds(tmp_path: Path) -> None:
    clone = make_clone(tmp_path / "clone")
    assert min(processor_seconds(clone) for _ in range(TRIES)) < MOST_SECONDS
