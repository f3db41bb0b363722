"""docs/reliability.md: every fault names a test, and there is such a test."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


@cache
def defined_tests(file: Path) -> set[str]:
    """Names of the test functions that a file defines."""
    return set(re.findall(r"^def (test_\w+)\(", file.read_text(encoding="utf-8"), re.M))


def test_every_fault_names_tests_that_exist() -> None:
    lines = (REPOSITORY / "docs/reliability.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("|") and not line.startswith(("|---", "| fault |"))]
    assert len(rows) > 20
    for row in rows:
        named = re.findall(r"`(tests/[^`:]+)::(\w+)`", row)
        assert named, row
        for file, name in named:
            assert name in defined_tests(REPOSITORY / file), row
