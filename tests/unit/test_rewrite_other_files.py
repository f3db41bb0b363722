"""Names of other files in a rewritten file: they lead where those of the original led."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from h5py import h5d, h5p, h5s, h5t
from test_rewrite import SCRIPTS, layout

from hyperslab import rewrite
from hyperslab.formats.hdf5 import other_files
from hyperslab.rewriting import RewriteError, taking_in
from hyperslab.rewriting.differences import differences
from hyperslab.rewriting.progress import Progress

VALUES = np.arange(24, dtype="<i4").reshape(2, 12)


def write_file(folder: Path) -> Path:
    """A file whose other datasets lie in files beside it and in a folder "100% raw" below."""
    below = folder / "100% raw"
    below.mkdir(parents=True)
    for row in range(2):
        with h5py.File(below / f"row{row}.h5", "w") as file:
            file["values"] = VALUES[row]
    (folder / "values.raw").write_bytes(VALUES.tobytes())
    with h5py.File(folder / "mine.h5", "w", libver="latest") as file:
        file["counts"] = np.arange(100)
        file["beside"] = h5py.ExternalLink("100% raw/row1.h5", "/values")
        file["nowhere"] = h5py.ExternalLink("not-there.h5", "/values")
        rows = h5py.VirtualLayout(VALUES.shape, "<i4")
        for row in range(2):
            rows[row] = h5py.VirtualSource(f"100%% raw/row{row}.h5", "values", (12,))
        virtual = file.create_virtual_dataset("virtual", rows, fillvalue=-5)
        virtual.attrs["unit"] = "1"
        # One row a file, as many as there are files.
        series = h5s.create_simple(VALUES.shape, (h5s.UNLIMITED, 12))
        series.select_hyperslab((0, 0), (h5s.UNLIMITED, 1), (1, 12), (1, 12))
        creation = h5p.create(h5p.DATASET_CREATE)
        creation.set_virtual(series, b"100%% raw/row%b.h5", b"values", h5s.create_simple((12,)))
        h5d.create(file.id, b"numbered", h5t.STD_I32LE, series, creation)
        inside = h5py.VirtualLayout((100,), "i8")
        inside[:] = h5py.VirtualSource(".", "counts", (100,))
        file.create_virtual_dataset("inside", inside)
        raw = file.create_dataset("raw", VALUES.shape, "<i4", external=[("values.raw", 0, 96)], fillvalue=7)
        raw.attrs["unit"] = "1"
        raw.attrs["of"] = file["counts"].ref
    return folder / "mine.h5"


def rewritten(original: Path, new: Path, folder: Path | None = None) -> None:
    """The file with another layout for its counts."""
    new.parent.mkdir(exist_ok=True)
    rewrite.rewrite(original, new, "counts", layout([10]), 2**28, Progress(), folder)


def holds(file: Path) -> None:
    """Everything can be read from the file, by a program that runs elsewhere."""
    program = f"""
import h5py, numpy as np
values = np.arange(24, dtype="<i4").reshape(2, 12)
with h5py.File({str(file)!r}) as file:
    for name in ("virtual", "numbered", "raw"):
        assert (file[name][...] == values).all(), (name, file[name][...])
        assert file[name].shape == (2, 12)
    assert file["virtual"].fillvalue == -5 and file["raw"].fillvalue == 7
    assert file["virtual"].attrs["unit"] == file["raw"].attrs["unit"] == "1"
    assert file[file["raw"].attrs["of"]] == file["counts"]
    assert (file["beside"][...] == values[1]).all()
    assert (file["inside"][...] == np.arange(100)).all()
    assert file["numbered"].maxshape == (None, 12)
    assert file.get("nowhere", getlink=True).filename == "not-there.h5"
"""
    subprocess.run([sys.executable, "-c", program], cwd="/", check=True, timeout=60)


@pytest.mark.parametrize("start", ["data", "."])
def test_relative_names_lead_to_the_same_files_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], start: str
) -> None:
    original = write_file(tmp_path / "data")
    monkeypatch.chdir(tmp_path / start)
    new = tmp_path / "50% new" / "new.h5"
    rewritten(original, new)
    holds(new)
    said = capsys.readouterr().err
    assert f"names of other files lead there from {new.parent}, too: " in said
    assert "other files that are not there, their names kept: not-there.h5" in said
    assert not list(differences(original, new, ["counts"]))


@pytest.mark.parametrize("start", ["data", "."])
def test_names_lead_from_beside_a_symbolic_link_to_the_original(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    original, link = write_file(tmp_path / "data"), tmp_path / "links" / "mine.h5"
    monkeypatch.chdir(tmp_path / start)
    link.parent.mkdir()
    link.symlink_to(original)
    rewritten(link, link.with_name("new.h5"))
    holds(link.with_name("new.h5"))


def test_an_absolute_name_that_leads_nowhere_is_that_of_a_file_beside(tmp_path: Path) -> None:
    """HDF5 looks for its last part, as after a move; where the copy lies there may be such a file, too."""
    data, other = tmp_path / "data", tmp_path / "new"
    for number, folder in enumerate((data, other)):
        folder.mkdir()
        with h5py.File(folder / "run.h5", "w") as file:
            file["values"] = np.full(12, number + 1)
    gone = str(tmp_path / "gone" / "run.h5")
    with h5py.File(data / "mine.h5", "w", libver="latest") as file:
        file["counts"] = np.arange(100)
        file["beside"] = h5py.ExternalLink(gone, "/values")
        row = h5py.VirtualLayout((12,), "i8")
        row[:] = h5py.VirtualSource(gone, "values", (12,))
        file.create_virtual_dataset("virtual", row)
    same, new = data / "new.h5", other / "new.h5"
    for path, name in ((same, gone), (new, "../data/run.h5")):
        rewritten(data / "mine.h5", path)
        with h5py.File(path) as file:
            assert (file["beside"][...] == 1).all() and (file["virtual"][...] == 1).all()
            assert file.get("beside", getlink=True).filename == name
            assert file["virtual"].virtual_sources()[0][1] == name
    taken_in = other / "taken-in.h5"
    rewrite.rewrite(data / "mine.h5", taken_in, "counts", layout([10]), 2**28, Progress(), materialise=True)
    with h5py.File(taken_in) as file:
        assert not file["virtual"].is_virtual and (file["virtual"][...] == 1).all()


def test_where_the_file_takes_the_originals_place_names_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = write_file(tmp_path / "data")
    new = tmp_path / "elsewhere" / "new.h5"
    rewritten(original, new, original.parent)
    with h5py.File(new) as file:
        assert file.get("beside", getlink=True).filename == "100% raw/row1.h5"
    assert list(differences(original, new, ["counts"]))
    assert not list(differences(original, new, ["counts"], folder=original.parent))
    os.replace(new, original)
    monkeypatch.chdir(original.parent)
    with h5py.File(original) as file:
        assert (file["virtual"][...] == VALUES).all() and (file["raw"][...] == VALUES).all()


@pytest.mark.parametrize("what", ["beside", "virtual", "raw"])
def test_a_name_that_leads_elsewhere_is_a_difference(tmp_path: Path, what: str) -> None:
    original = write_file(tmp_path / "data")
    new = tmp_path / "elsewhere" / "new.h5"
    # As it was made before: the names as they are.
    rewritten(original, new, original.parent)
    assert any(line.startswith(f"/{what}: ") for line in differences(original, new, ["counts"]))


def test_values_of_other_files_are_taken_in_where_that_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = write_file(tmp_path / "data")
    monkeypatch.chdir(tmp_path / "data")
    new = tmp_path / "new" / "new.h5"
    new.parent.mkdir()
    rewrite.rewrite(original, new, "counts", layout([10]), 2**28, Progress(), materialise=True)
    with h5py.File(original) as before, h5py.File(new) as file:
        for name in ("virtual", "numbered", "raw", "inside"):
            assert not file[name].is_virtual and not file[name].external
            assert (file[name][...] == before[name][...]).all()
            assert file[name].maxshape == before[name].maxshape
            assert file[name].fillvalue == before[name].fillvalue
            assert dict(file[name].attrs).keys() == dict(before[name].attrs).keys()
        assert file[file["raw"].attrs["of"]] == file["counts"]
    # It needs no other file any more, but for those of external links.
    shutil.rmtree(original.parent / "100% raw")
    (original.parent / "values.raw").unlink()
    with h5py.File(new) as file:
        assert all((file[name][...] == VALUES).all() for name in ("virtual", "numbered", "raw"))


def test_a_value_that_differs_from_that_of_another_file_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = write_file(tmp_path / "data")
    monkeypatch.chdir(tmp_path / "data")
    new = tmp_path / "data" / "new.h5"
    rewrite.rewrite(original, new, "counts", layout([10]), 2**28, Progress(), materialise=True)
    with h5py.File(new, "r+") as file:
        file["virtual"][1, 3] += 1
    assert list(differences(original, new, ["counts", "virtual", "numbered", "raw", "inside"])) == [
        "/virtual: values differ"
    ]


def test_what_cannot_be_open_at_once_is_not_taken_in_as_fill_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = write_file(tmp_path / "data")
    monkeypatch.chdir(tmp_path / "data")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 65))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    with pytest.raises(RewriteError, match="^/numbered: reading 2 files at once takes a limit of 66 "):
        taking_in.paths(original)


def test_two_percent_signs_are_one_whatever_comes_behind_them(tmp_path: Path) -> None:
    (tmp_path / "50%b.h5").touch()
    name = b"50%%b.h5"
    assert other_files.found(name, tmp_path / "mine.h5", virtual=True) == tmp_path / "50%b.h5"


def test_what_is_not_there_is_not_taken_in_as_fill_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = write_file(tmp_path / "data")
    monkeypatch.chdir(tmp_path / "data")
    (tmp_path / "data/100% raw/row1.h5").unlink()
    with pytest.raises(RewriteError, match="/virtual: has values in files that are not there .*row1.h5"):
        rewrite.rewrite(
            original, tmp_path / "new.h5", "counts", layout([10]), 2**28, Progress(), materialise=True
        )


# Its sources are numbered in the name of a folder that is gone. HDF5 looks for the last part then, which is
# there whatever the number: asked for the shape it never answers, and neither does whoever waits for it.
WRITE_UNENDING = """
import h5py, numpy as np
from h5py import h5d, h5p, h5s, h5t
from pathlib import Path
from hyperslab import rewrite
from hyperslab.advising.found import arrays, look
from hyperslab.formats import donor_rows
from hyperslab.formats.donor_opening import DonorError
from hyperslab.rewriting import RewriteError, zarr_copy
from hyperslab.rewriting.opening import refused_layouts
from hyperslab.rewriting.progress import Progress
mine = Path("mine.h5")
with h5py.File(mine, "w", libver="latest") as file:
    file["counts"] = np.arange(100)
    series = h5s.create_simple((1, 4), (h5s.UNLIMITED, 4))
    series.select_hyperslab((0, 0), (h5s.UNLIMITED, 1), (1, 4), (1, 4))
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_virtual(series, b"/gone/run%b/data.h5", b"values", h5s.create_simple((4,)))
    h5d.create(file.id, b"runs", h5t.STD_I64LE, series, creation)
layout = {"chunks": [10], "filters": [], "settings": {"libver": "earliest"}, "compact": False}
in_zarr = {"format": "zarr", "chunks": "auto"}
def said(ask):
    try:
        ask()
    except (DonorError, RewriteError) as error:
        print(error)
"""
UNENDING = """
with h5py.File("data.h5", "w") as file:
    file["values"] = np.arange(4)
assert list(arrays(mine)) == ["/counts"]
assert "is a virtual dataset" in refused_layouts(mine, "/runs", {"it": layout})["it"]
said(lambda: look(mine, "/runs"))
said(lambda: donor_rows.check({"donor": {"path": "mine.h5", "dataset": "/runs"}, "rows": {}, "dtype": "i8"}))
said(lambda: rewrite.rewrite(mine, Path("new.h5"), "counts", layout, 2**28, Progress()))
said(lambda: rewrite.rewrite(mine, Path("new.h5"), "counts", layout, 2**28, Progress(), materialise=True))
said(lambda: zarr_copy.copy(mine, Path("new.zarr"), "/runs", in_zarr, 2**28, Progress()))
"""
# Beside the new file alone.
UNENDING_ELSEWHERE = """
Path("other").mkdir()
with h5py.File("other/data.h5", "w") as file:
    file["values"] = np.arange(4)
said(lambda: rewrite.rewrite(mine, Path("other/new.h5"), "counts", layout, 2**28, Progress()))
"""


@pytest.mark.parametrize(
    ("asked", "lines"), [(UNENDING, 5), (UNENDING_ELSEWHERE, 1)], ids=["of all", "of the new file"]
)
def test_virtual_sources_without_an_end_are_refused_before_hdf5_looks_for_it(
    tmp_path: Path, asked: str, lines: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRITE_UNENDING + asked],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    said = "values in files that are not there.*: /gone/run%b/data.h5 "
    said += r"\(in whose place HDF5 finds data.h5 for every number, without end\)"
    found = [bool(re.search(f"/runs:? has {said}$", line)) for line in done.stdout.splitlines()]
    assert found == [True] * lines


def test_the_command_says_where_names_lead(tmp_path: Path) -> None:
    original = write_file(tmp_path / "data")
    new = tmp_path / "new.h5"
    command: list[Any] = [sys.executable, "-m", "hyperslab.rewrite", original, new, "--dataset", "counts"]
    done = subprocess.run(
        [*command, "--layouts", json.dumps({"it": layout([10])})],
        env={**os.environ, "PYTHONPATH": str(SCRIPTS)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "100% raw/row1.h5 is now data/100% raw/row1.h5" in done.stderr
    holds(new)


def test_a_dataset_of_another_file_is_rewritten_there(tmp_path: Path) -> None:
    original = write_file(tmp_path / "data")
    with pytest.raises(RewriteError, match="'beside' is a link to a dataset of another file, .*row1.h5"):
        rewrite.rewrite(original, tmp_path / "new.h5", "beside", layout([4]), 2**28, Progress())
