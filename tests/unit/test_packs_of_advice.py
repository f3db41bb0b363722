"""Packs of studies whose layouts were found by advice: elsewhere the study that was made of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from test_packs import BASE, below, packed, path_of, place, record, refused, unpacked, whole, written

from hyperslab.results import archive
from hyperslab.results.packing import pack, unpack
from hyperslab.results.packs import SUFFIX, PackError, measurements
from hyperslab.studies import advised
from hyperslab.studies.study import LoadedStudy

TOLD = b'{"sites": {"disk": {"measured": [{"layout": "a", "boxes": {"slices": [0.1, 0.2]}}]}}}\n'
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


def answered(directory: Path) -> str:
    """The study that advice made of the question of a project, written beside its records."""
    made = f"{advised.head(advised.question(directory / 'config/studies/mine.yaml'))}\n{BASE}"
    (directory / "results" / "mine" / advised.STUDY).write_text(made, encoding="utf-8")
    return made


def test_what_advice_has_made_is_packed_and_needs_no_probes_elsewhere(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = answered(here)
    advised.prediction("mine").write_bytes(TOLD)
    file = tmp_path / f"mine{SUFFIX}"
    assert pack("mine", file) == 1
    # Here it is the study's own.
    assert unpacked(file, here).notes == []
    there = tmp_path / "there"
    there.mkdir()
    monkeypatch.chdir(there)
    assert unpacked(file, there).study == "mine"
    told = {"config/studies/mine.yaml": made.encode(), "results/mine/prediction.json": TOLD}
    assert below(there) == {**told, path_of(): written(record())}
    assert list(LoadedStudy(there / "config/studies/mine.yaml").layouts) == ["a", "b"]


def test_a_pack_answers_the_question_that_is_here_wherever_its_records_go(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, file, studies = answered(here), tmp_path / f"mine{SUFFIX}", here / "config/studies"
    pack("mine", file)
    (work := tmp_path / "work").mkdir()
    monkeypatch.chdir(work)
    assert unpack(file, Path("results"), studies).notes == []
    assert list(LoadedStudy(studies / "mine.yaml").layouts) == ["a", "b"]
    # Advice that was made since then is kept, and that of the pack lies beside it.
    advised.place("mine").write_text(made.replace("title: ", "title: now "), encoding="utf-8")
    (note,) = unpack(file, Path("results"), studies).notes
    assert "is another study than the pack's and is kept" in note
    assert Path("results/mine/study/mine.yaml").read_text(encoding="utf-8") == made


def test_a_study_is_packed_with_the_records_that_it_was_made_beside(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(here)
    monkeypatch.chdir(tmp_path)
    assert pack("mine", tmp_path / f"mine{SUFFIX}", here / "results", here / "config/studies") == 1


def test_a_question_without_an_answer_is_not_packed(here: Path, tmp_path: Path) -> None:
    with pytest.raises(PackError, match="its sites have not been probed for what it asks"):
        pack("mine", tmp_path / f"mine{SUFFIX}")


def with_prediction(directory: Path, content: bytes = TOLD) -> Path:
    """A pack of the study `mine` and of what was predicted for it."""
    file = directory / f"any{SUFFIX}"
    archive.write(file, [*whole()[:2], ("results/mine/prediction.json", content), *whole()[2:]])
    return file


def test_what_was_predicted_goes_with_the_study(tmp_path: Path) -> None:
    there, file = tmp_path / "there", with_prediction(tmp_path)
    assert unpacked(file, there).records == unpacked(file, there).records == 2
    assert below(there)["results/mine/prediction.json"] == TOLD
    again = tmp_path / f"again{SUFFIX}"
    assert pack("mine", again, there / "results", there / "config/studies") == 2
    assert again.read_bytes() == file.read_bytes()
    assert len(measurements(file)) == len(measurements(packed(tmp_path)))


def test_of_another_study_of_that_name_nothing_was_predicted(tmp_path: Path) -> None:
    other = ("config/studies/mine.yaml", BASE.encode())
    there = place(tmp_path / "there", [other])
    unpacked(with_prediction(tmp_path), there)
    assert below(there)["results/mine/study/prediction.json"] == TOLD
    assert "results/mine/prediction.json" not in below(there)


def test_another_prediction_is_not_overwritten(tmp_path: Path) -> None:
    there = place(tmp_path / "there", [("results/mine/prediction.json", b"{}")])
    with pytest.raises(PackError, match="prediction.json: holds another result; move it away"):
        unpacked(with_prediction(tmp_path), there)
    assert list(below(there)) == ["results/mine/prediction.json"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{}", "is damaged .no 'sites'."),
        (TOLD.replace(b"0.2", b'"soon"'), "is damaged .*soon"),
        (b" " * 2**23, "has more than 4 MiB"),
    ],
)
def test_what_is_no_prediction_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    refused(with_prediction(tmp_path, content), tmp_path, f"results/mine/prediction.json {said}")


def test_a_prediction_alone_is_no_pack(tmp_path: Path) -> None:
    other = ("results/quick/prediction.json", TOLD)
    refused(packed(tmp_path, [*whole()[:2], other]), tmp_path, "is not a record of study mine")
    own = ("results/mine/prediction.json", TOLD)
    refused(packed(tmp_path, [*whole()[:2], own]), tmp_path, "holds no records")
