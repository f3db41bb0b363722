"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest


@pytest.fixture(scope="session")
def require() -> Callable[[str | None], None]:
    """`require(reason)` goes on where `reason` is None; otherwise it skips, and in CI (CI=true) it fails."""

    def check(reason: str | None) -> None:
        if reason and os.environ.get("CI") == "true":
            pytest.fail(f"must not be absent in CI: {reason}")
        if reason:
            pytest.skip(reason)

    return check


@pytest.fixture
def any_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open MPI starts ranks of root, and more of them than there are processors, only where it is told to."""
    for name in ("ALLOW_RUN_AS_ROOT", "ALLOW_RUN_AS_ROOT_CONFIRM", "MCA_rmaps_base_oversubscribe"):
        monkeypatch.setenv(f"OMPI_{name}", "1")
