"""The specification of every cell, byte for byte: one changed byte makes results that were measured stale."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from golden_specifications import COMMAND, DONOR, fingerprint, golden, studies
from test_packs import PACKS

from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.results.packs import contents
from hyperslab.studies import specification


@pytest.mark.parametrize("name", sorted(studies().keys() | golden().keys()))
def test_a_study_specifies_what_was_measured(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("HYPERSLAB_DONOR", DONOR)
    assert name in studies(), f"study {name} is gone: take it out of tests/golden/specifications.json"
    assert name in golden(), f"study {name} is new: {COMMAND}"
    assert fingerprint(studies()[name]) == golden()[name], (
        f"study {name}: its specifications changed, so all of its results measured so far would go stale; "
        f"where that is meant, take it out of tests/golden/specifications.json and run {COMMAND}"
    )


@pytest.mark.parametrize("file", PACKS, ids=lambda path: path.name)
def test_every_record_of_a_committed_pack_counts(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    monkeypatch.delenv("HYPERSLAB_DONOR", raising=False)
    study = PlannedStudy(studies()[file.name.partition(".")[0]])
    hashes = study.hashes("main") | study.hashes("confirm")
    found = {path: content for path, content in contents(file) if "/cells/" in path}
    records = {path: json.loads(content)["specification"] for path, content in found.items()}
    assert records
    # results/<study>/cells/<site>/<layout>/<case>.<round>.json
    cells = {path: path.removesuffix(".json").split("/", 4)[4] for path in records}
    stale = [
        path
        for path, spec in records.items()
        if specification.standing(hashes.get(cells[path]), spec, study.name) == "stale"
    ]
    assert not stale, f"{len(stale)} of {len(records)} records are stale, such as {stale[0]}"
