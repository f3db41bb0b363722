"""The specification of every cell, byte for byte: one changed byte makes results that were measured stale."""

from __future__ import annotations

import pytest
from golden_specifications import COMMAND, DONOR, fingerprint, golden, planned, studies


@pytest.mark.parametrize("name", sorted(studies().keys() | golden().keys()))
def test_a_study_specifies_what_was_measured(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("HYPERSLAB_DONOR", DONOR)
    assert name in studies(), f"study {name} is gone: take it out of tests/golden/specifications.json"
    assert name in golden(), f"study {name} is new: {COMMAND}"
    assert fingerprint(planned(name)) == golden()[name], (
        f"study {name}: its specifications changed, so all of its results measured so far would go stale; "
        f"where that is meant, take it out of tests/golden/specifications.json and run {COMMAND}"
    )
