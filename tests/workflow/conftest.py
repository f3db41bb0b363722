"""The tiny study, measured once for all tests of the workflow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from clones import REPORT, Clone, Kept, make_clone


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone whose study `tiny` was measured up to its report."""
    clone = make_clone(tmp_path_factory.mktemp("measured") / "clone")
    clone.build(REPORT)
    return clone


@pytest.fixture(scope="session")
def kept(measured: Clone, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return Kept(measured, tmp_path_factory.mktemp("kept") / "clone")


@pytest.fixture
def clone(measured: Clone, kept: Kept) -> Iterator[Clone]:
    """The measured clone, put back as it was after the test."""
    yield measured
    kept.put_back()
