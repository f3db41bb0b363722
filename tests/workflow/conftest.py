"""The tiny study, measured once for all tests of the workflow."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from clones import REPORT, Clone, make_clone


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone whose study `tiny` was measured up to its report."""
    clone = make_clone(tmp_path_factory.mktemp("measured") / "clone")
    clone.build(REPORT)
    return clone


@pytest.fixture
def clone(measured: Clone, tmp_path: Path) -> Iterator[Clone]:
    """The measured clone, put back as it was after the test (its path stands in Snakemake's metadata)."""
    kept = tmp_path / "kept"
    shutil.copytree(measured.directory, kept, symlinks=True)
    yield measured
    shutil.rmtree(measured.directory)
    shutil.copytree(kept, measured.directory, symlinks=True)
