"""A study drafted from a file: it loads, says what the file says, and asks of every axis."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from test_donors import write_imzml

from hyperslab import draft
from hyperslab.advising.found import Found
from hyperslab.layouts.chunks import even_chunks
from hyperslab.planning.planned_study import PlannedStudy


@pytest.fixture
def studies(tmp_path: Path) -> Path:
    (tmp_path / "studies").mkdir()
    return tmp_path / "studies"


def write_hdf5(directory: Path) -> Path:
    with h5py.File(directory / "mine.h5", "w") as file:
        counts = file.create_dataset(
            "data/counts", shape=(40, 30, 2000), dtype=">u2", chunks=(4, 3, 500), compression="gzip",
            compression_opts=6, shuffle=True,
        )  # fmt: skip
        counts[:] = np.arange(2000)
        file["data/energy"] = np.arange(2000.0)
        file["data/energy"].make_scale("energy")
        counts.dims[2].attach_scale(file["data/energy"])
        counts.dims[0].label = "row"
        file["scalar"] = 1
    return directory / "mine.h5"


def drafted(studies: Path, *arguments: str) -> PlannedStudy:
    draft.main([*arguments, "--directory", str(studies)])
    (file,) = studies.glob("*.yaml")
    return PlannedStudy(file)


def refused(studies: Path, *arguments: str) -> str:
    """The one line of a draft that cannot be made, after which there is none."""
    with pytest.raises(SystemExit) as error:
        draft.main([*arguments, "--directory", str(studies)])
    text = str(error.value)
    assert text.splitlines() == [text] and text.startswith("hyperslab.draft: ")
    assert not list(studies.iterdir())
    return text.removeprefix("hyperslab.draft: ")


def test_the_draft_says_what_the_file_says(
    tmp_path: Path, studies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_hdf5(tmp_path)
    study = drafted(studies, f"{file}::/data/counts")
    assert (study.name, study.dataset.dtype, study.dataset.shape) == ("mine", "uint16", [40, 30, 2000])
    assert study.dataset.axes == ["row", "y", "energy"]
    assert study.dataset.donor and study.dataset.donor.path == str(file)
    own = study.layouts["as-it-is"]
    assert own["chunks"] == [4, 3, 500]
    assert own["filters"] == [{"name": "shuffle"}, {"name": "gzip", "level": 6}]
    assert list(study.layouts)[:3] == ["contiguous", "auto", "as-it-is"]
    assert list(study.cases) == ["one-row", "one-y", "one-energy", "along-energy"]
    assert study.cases["one-y"]["extent"] == [40, 1, 2000]
    said = capsys.readouterr().out
    assert "40 x 30 x 2000 uint16, 4.80 MB a test file" in said
    assert "--dry-run results/mine/report.html" in said


def test_a_draft_elsewhere_has_to_be_moved_before_it_can_run(
    tmp_path: Path, studies: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_hdf5(tmp_path)
    monkeypatch.chdir(tmp_path)
    draft.STUDIES.mkdir(parents=True)
    drafted(studies, str(file))
    assert "move it to config/studies. Then see what would run" in capsys.readouterr().out
    draft.main([str(file)])
    assert "move it" not in capsys.readouterr().out


def test_the_only_array_needs_no_name(tmp_path: Path, studies: Path) -> None:
    assert drafted(studies, str(write_hdf5(tmp_path))).dataset.donor.dataset == "/data/counts"  # type: ignore[union-attr]


def test_one_of_several_arrays_has_to_be_named(tmp_path: Path, studies: Path) -> None:
    with h5py.File(write_hdf5(tmp_path), "r+") as file:
        file["other"] = np.zeros((3, 3))
    said = refused(studies, str(tmp_path / "mine.h5"))
    assert said.endswith("name an array of the file as mine.h5::NAME; it has /data/counts, /other")


def test_a_long_array_is_cut_and_the_draft_says_so(tmp_path: Path, studies: Path) -> None:
    study = drafted(studies, f"{write_hdf5(tmp_path)}::data/counts", "--largest-mb", "1", "--name", "short")
    assert study.dataset.nbytes <= 10**6
    assert "# The file's is [40, 30, 2000]; the array is a part of it" in study.file.read_text(
        encoding="utf-8"
    )


def test_chunks_that_are_cut_with_the_array_are_said_to_be(tmp_path: Path, studies: Path) -> None:
    with h5py.File(tmp_path / "frames.h5", "w") as file:
        file.create_dataset("a", shape=(4, 700, 700), dtype="u2", chunks=(1, 700, 700), compression="gzip")
    whole = drafted(studies, f"{tmp_path}/frames.h5::a")
    assert "The file's chunks" not in whole.file.read_text(encoding="utf-8")
    whole.file.unlink()
    cut = drafted(studies, f"{tmp_path}/frames.h5::a", "--largest-mb", "1")
    assert cut.layouts["as-it-is"]["chunks"] != [1, 700, 700]
    assert "  # The file's chunks, [1, 700, 700], are cut to" in cut.file.read_text(encoding="utf-8")


def test_files_of_other_kinds(tmp_path: Path, studies: Path) -> None:
    np.save(tmp_path / "my array (1).npy", np.zeros((50, 60), "f2"))
    study = drafted(studies, str(tmp_path / "my array (1).npy"))
    assert (study.name, study.dataset.dtype, study.dataset.axes) == (
        "my-array-1",
        "float32",
        ["row", "column"],
    )
    study.file.unlink()
    study = drafted(studies, write_imzml(tmp_path)["path"])
    assert (study.name, study.dataset.dtype, study.dataset.shape) == ("donor", "float32", [3, 4, 50])


def test_no_case_is_drafted_twice(tmp_path: Path, studies: Path) -> None:
    np.save(tmp_path / "one.npy", np.zeros((1, 50, 60), "f4"))
    cases = drafted(studies, str(tmp_path / "one.npy")).cases
    extents = [tuple(case["extent"]) for case in cases.values()]
    assert len(set(extents)) == len(extents) == 2


def test_nothing_is_written_over(tmp_path: Path, studies: Path) -> None:
    file = write_hdf5(tmp_path)
    (studies / "mine.yaml").write_text("mine", encoding="utf-8")
    with pytest.raises(SystemExit, match="is there already; give the draft another name with --name"):
        draft.main([str(file), "--directory", str(studies)])
    assert (studies / "mine.yaml").read_text(encoding="utf-8") == "mine"


def test_what_cannot_be_drafted_is_one_line(tmp_path: Path, studies: Path) -> None:
    file = write_hdf5(tmp_path)
    with h5py.File(file, "r+") as opened:
        opened["text"] = np.array(["a", "b"], dtype="S1")
        opened.create_dataset("null", data=h5py.Empty("f4"))
        opened.create_dataset("zero", shape=(3, 0), dtype="f4")
    (tmp_path / "junk.h5").write_bytes(b"x" * 100)
    for given_name, said in {
        f"{tmp_path}/nothing.h5::x": "there is no such file",
        f"{file}::data/count": "no dataset 'data/count'; the file has ",
        f"{file}::text": "holds |S1, not integers or floats",
        f"{file}::null": "is a null dataset, which holds nothing",
        f"{file}::zero": "has no axis to be read along: its shape is (3, 0)",
        f"{file}::scalar": "has no axis to be read along: its shape is ()",
        f"{tmp_path}/junk.h5": "unknown kind of donor",
        __file__: "unknown kind of donor",
    }.items():
        assert said in refused(studies, given_name)
    assert "the name of a study should" in refused(studies, str(file), "--name", "a/b")


@pytest.mark.parametrize(("page", "donor"), [("README.md", False), ("docs/studies.md", True)])
def test_the_studies_of_the_pages_are_whole(tmp_path: Path, page: str, donor: bool) -> None:
    text = (Path(__file__).parents[2] / page).read_text(encoding="utf-8")
    (block,) = [block for block in re.findall(r"```yaml\n(.*?)```", text, re.S) if block.startswith("title:")]
    (tmp_path / "example.yaml").write_text(block, encoding="utf-8")
    assert bool(PlannedStudy(tmp_path / "example.yaml").dataset.donor) == donor


@settings(max_examples=40)
@given(
    shape=st.lists(st.integers(1, 5000), min_size=1, max_size=6),
    dtype=st.sampled_from(["uint8", "float64"]),
    chunks=st.booleans(),
    largest=st.sampled_from([1000, 10**6, 10**8]),
)
def test_any_draft_loads(
    tmp_path_factory: pytest.TempPathFactory, shape: list[int], dtype: str, chunks: bool, largest: int
) -> None:
    found = Found(
        file=Path("/data/a: b's #1.h5"), dataset="/e\"ntry", dtype=dtype, shape=shape, filters=[],
        axes=["no", "on", "1", "x", "y", "z"][: len(shape)],
        chunks=[max(1, extent // 2) for extent in shape] if chunks else None,
    )  # fmt: skip
    file = tmp_path_factory.mktemp("drafts") / "mine.yaml"
    file.write_text("\n".join(draft.lines(found, largest)) + "\n", encoding="utf-8")
    study = PlannedStudy(file)
    assert study.dataset.nbytes <= max(largest, study.dataset.itemsize)
    content: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert content["dataset"]["donor"] == {"path": str(found.file), "dataset": found.dataset}


@given(shape=st.lists(st.integers(1, 3000), min_size=1, max_size=5), size=st.sampled_from([64, 2**16, 2**20]))
def test_even_chunks_are_about_as_large_as_asked_and_even(shape: list[int], size: int) -> None:
    chunk = even_chunks(shape, 2, size)
    volume = 2 * math.prod(chunk)
    assert all(1 <= part <= extent for part, extent in zip(chunk, shape, strict=True))
    assert volume <= size
    assert chunk == shape or volume >= size / 2.5 or max(chunk) < 8
