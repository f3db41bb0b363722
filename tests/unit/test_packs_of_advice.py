"""Packs of studies whose layouts were found by advice: elsewhere the study that was made of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from test_packs import BASE, below, path_of, place, record, unpacked, written

from hyperslab.results.packs import SUFFIX, PackError, pack
from hyperslab.studies import advised
from hyperslab.studies.study import LoadedStudy

QUESTION = {
    "advise": {
        "dataset": {"axes": ["x", "y", "z"], "shape": [6, 8, 100], "dtype": "uint16"},
        "reads": {"slices": {"z": 5}},
    }
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a study that asks for advice, and records of it."""
    files = [("config/studies/mine.yaml", yaml.safe_dump(QUESTION).encode())]
    directory: Path = place(tmp_path / "here", [*files, (path_of(), written(record()))])
    monkeypatch.chdir(directory)
    return directory


def test_what_advice_has_made_is_packed_and_needs_no_probes_elsewhere(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = f"{advised.head(advised.question(here / 'config/studies/mine.yaml'))}\n{BASE}"
    advised.place("mine").write_text(made, encoding="utf-8")
    file = tmp_path / f"mine{SUFFIX}"
    assert pack("mine", file) == 1
    # Here it is the study's own.
    assert unpacked(file, here).notes == []
    there = tmp_path / "there"
    there.mkdir()
    monkeypatch.chdir(there)
    assert unpacked(file, there).study == "mine"
    assert below(there) == {"config/studies/mine.yaml": made.encode(), path_of(): written(record())}
    assert list(LoadedStudy(there / "config/studies/mine.yaml").layouts) == ["a", "b"]


def test_a_question_without_an_answer_is_not_packed(here: Path, tmp_path: Path) -> None:
    with pytest.raises(PackError, match="its sites have not been probed for what it asks"):
        pack("mine", tmp_path / f"mine{SUFFIX}")
