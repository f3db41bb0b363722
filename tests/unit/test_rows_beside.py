"""Around ragged rows: donors of them, their figure and table, the converter, and the program in C."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from pyimzml.ImzMLWriter import ImzMLWriter
from row_cells import LAYOUTS, cell, run, written
from studies import mistake

import compare_with_c
from hyperslab import convert_rows, figures, ragged
from hyperslab.convert_rows import convert
from hyperslab.data.models import open_content, raw_bytes
from hyperslab.data.rows import Rows
from hyperslab.figures import FigureData
from hyperslab.formats import donor_rows
from hyperslab.formats.donor_opening import DonorError
from hyperslab.results.statistics import summarise
from hyperslab.results.tables import tidy

SCRIPTS = Path(__file__).parents[2] / "workflow" / "scripts"
LENGTHS = np.array([3, 0, 0, 5, 1, 0])
VALUES = np.arange(9, dtype=np.float32)

# ---- donors


@pytest.fixture
def donor(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "peaks.h5", "w") as file:
        file["values"] = VALUES
        file["lengths"] = LENGTHS
        file["offsets"] = np.concatenate([[0], np.cumsum(LENGTHS)])
        rows = file.create_dataset("rows", (6,), h5py.vlen_dtype(np.float32))
        for number, row in enumerate(np.split(VALUES, np.cumsum(LENGTHS)[:-1])):
            rows[number] = row
        big = file.create_dataset("foreign", (6,), h5py.vlen_dtype(np.dtype(">f4")))
        for number, row in enumerate(rows[:]):
            big[number] = row.astype(">f4")
        with ragged.create(file, "vector", "f4") as vector:
            vector.append_block(LENGTHS, VALUES)
        with ragged.create(file, "records", [("mz", "f4"), ("charge", "i1")]) as records:
            records.append([np.zeros(3, records.dtype)])
        file["negative"] = np.array([0, 3, 2, 9])
        file["square"] = np.zeros((2, 2))
        file["waves"] = VALUES.astype(np.complex64)
    return tmp_path / "peaks.h5"


def of_donor(path: Path, donor: dict[str, str], count: int = 6) -> dict[str, Any]:
    rows = {"lengths": "donor", "held": 6, "elements": 9, "longest": 5}
    named = {"path": str(path), **donor}
    return {
        "axes": ["row"], "shape": [count], "dtype": "float32", "fill": "mixed", "rows": rows, "donor": named,
    }  # fmt: skip


WAYS: dict[str, dict[str, str]] = {
    "offsets": {"dataset": "values", "offsets": "offsets"},
    "lengths": {"dataset": "values", "lengths": "lengths"},
    "variable-length": {"dataset": "rows"},
    "foreign bytes": {"dataset": "foreign"},
    "ragged": {"dataset": "vector"},
}


@pytest.mark.parametrize("way", WAYS)
def test_a_donors_rows_are_repeated(donor: Path, tmp_path: Path, way: str) -> None:
    spec = of_donor(donor, WAYS[way], 18)
    donor_rows.check(spec)
    donor_rows.prepare(spec, tmp_path / "kept.npy")
    found = open_content(spec, str(tmp_path / "kept.npy"))
    assert isinstance(found, Rows)
    assert found.lengths.tolist() == LENGTHS.tolist() * 3
    assert found.run(0, 18).values.tolist() == VALUES.tolist() * 3
    assert found.picked(np.array([9, 4])).values.tolist() == [3, 4, 5, 6, 7, 8]
    assert raw_bytes(spec) == found.nbytes == 27 * 4


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ({"dataset": "values"}, "holds values; donor.offsets or donor.lengths has to say whose"),
        ({"dataset": "nothing"}, "no dataset 'nothing'; the file has"),
        ({}, "dataset is required"),
        ({"dataset": "square"}, "square has 2 axes; rows have one"),
        ({"dataset": "values", "offsets": "negative"}, "negative gives row 1 a negative length"),
        ({"dataset": "values", "offsets": "lengths"}, "should hold offsets from 0 on"),
        ({"dataset": "values", "lengths": "values"}, "holds float32, not whole numbers"),
        ({"dataset": "lengths", "lengths": "lengths"}, "rows have 9 elements, and there are 6 values"),
        ({"dataset": "records"}, "/records holds .*, not integers or floats"),
        ({"dataset": "waves", "lengths": "lengths"}, "/waves holds complex64, not integers or floats"),
    ],
    ids=str,
)
def test_a_donor_that_has_no_such_rows_is_one_line(donor: Path, way: dict[str, str], words: str) -> None:
    with pytest.raises(DonorError, match=words) as raised:
        donor_rows.check(of_donor(donor, way))
    assert str(donor) in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("lost", ["values", "lengths"])
def test_rows_of_a_donor_in_files_that_are_not_there_are_refused(
    donor: Path, tmp_path: Path, lost: str
) -> None:
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        for name, source in (("values", VALUES), ("lengths", LENGTHS)):
            whole = h5py.VirtualLayout(source.shape, source.dtype)
            whole[:] = h5py.VirtualSource("gone.h5" if name == lost else donor.name, name, source.shape)
            file.create_virtual_dataset(name, whole)
    with pytest.raises(DonorError, match=f"/{lost} has values in files that are not there: gone.h5$"):
        donor_rows.prepare(of_donor(tmp_path / "virtual.h5", WAYS["lengths"]), tmp_path / "kept.npy")


SPECTRA = [3, 5, 1]


@pytest.fixture
def processed(tmp_path: Path) -> Path:
    """Three spectra as the software of an instrument writes them, each with m/z values of its own."""
    with ImzMLWriter(
        str(tmp_path / "peaks.imzML"), mode="processed", mz_dtype=np.float64, intensity_dtype=np.float32
    ) as writer:
        for number, row in enumerate(np.split(VALUES, np.cumsum(SPECTRA)[:-1])):
            writer.addSpectrum(100.0 + row, row, (number + 1, 1))
    return tmp_path / "peaks.imzML"


def of_spectra(path: Path, name: str) -> dict[str, Any]:
    spec = of_donor(path, {"dataset": name})
    spec["rows"]["held"] = len(SPECTRA)
    return spec


@pytest.mark.parametrize(("name", "values"), [("intensity", VALUES), ("mz", 100 + VALUES)])
def test_spectra_of_processed_imzml_are_rows(
    processed: Path, tmp_path: Path, name: str, values: npt.NDArray[Any]
) -> None:
    spec = of_spectra(processed, name)
    donor_rows.check(spec)
    donor_rows.prepare(spec, tmp_path / "kept.npy")
    found = open_content(spec, str(tmp_path / "kept.npy"))
    assert isinstance(found, Rows)
    assert found.lengths.tolist() == SPECTRA * 2
    assert found.run(0, 6).values.tolist() == values.tolist() * 2


def test_imzml_that_cannot_be_rows_is_one_line(processed: Path) -> None:
    def refused(name: str = "intensity") -> str:
        with pytest.raises(DonorError) as raised:
            donor_rows.check(of_spectra(processed, name))
        assert "\n" not in str(raised.value)
        return str(raised.value).replace(str(processed.parent) + "/", "")

    assert refused("mass") == "peaks.imzML: donor.dataset should be mz or intensity, not 'mass'"
    text, values = processed.read_text(), processed.with_suffix(".ibd")
    processed.write_text(text.replace('accession="MS:1000576" name="no compression"',
                                      'accession="MS:1000574" name="zlib compression"'))  # fmt: skip
    assert refused() == "peaks.imzML: its values have zlib compression, which is not read; write them without"
    processed.write_text(text[:2000])
    assert refused().startswith("peaks.imzML: cannot be read: ")
    processed.write_text(text)
    values.write_bytes(values.read_bytes()[:-4])
    assert refused().startswith("peaks.ibd: is shorter than peaks.imzML says")


def test_a_donor_says_what_the_study_should(donor: Path) -> None:
    spec = of_donor(donor, WAYS["offsets"])
    spec["rows"]["elements"] = 10
    wanted = "should have held: 6, elements: 9, longest: 5, and has another elements"
    with pytest.raises(DonorError, match=wanted):
        donor_rows.check(spec)


def test_a_donor_belongs_to_rows_that_are_a_donors(tmp_path: Path) -> None:
    content: dict[str, Any] = {
        "title": "rows",
        "dataset": {"rows": {"count": 6, "longest": 3}, "donor": {"path": "a.h5"}},
        "layouts": {"vlen": LAYOUTS["vlen"]},
        "cases": {"read": {"read_rows": 1}},
    }
    wanted = "dataset: rows whose lengths are a donor's need `donor`, and no others have one"
    assert mistake(tmp_path, content) == wanted
    content["dataset"]["rows"] = {"count": 7, "lengths": "donor", "held": 6, "elements": 9, "longest": 5}
    assert mistake(tmp_path, content) == (
        "dataset.rows: count 7 should be a multiple of the 6 rows that are held"
    )


# ---- figure and table


def measured() -> pd.DataFrame:
    """Two layouts, three sizes, written and read: times are multiples of the bytes."""
    rows = []
    for layout, factor in (("vlen", 4.0), ("flattened", 1.0)):
        for size in (1, 2, 4):
            common = {
                "study": "s", "site": "disk", "layout": layout, "phase": "main", "round": 0, "repeat": 0,
                "asked_bytes": size * 1e6, "file_bytes": size * 1e6 * (1 + factor / 10), "kind": "read_rows",
            }  # fmt: skip
            read = {"time_s": factor * size, "close_s": 0.5 * factor * size}
            rows.append({**common, "case": f"read-{size}", "state": "cold", **read})
            spans = {"write_s": factor * size, "flush_s": size, "close_s": size, "create_s": 9, "fsync_s": 9}
            write = {"case": f"write-{size}", "kind": "write_rows", "state": "write", "time_s": 99}
            rows.append({**common, **write, **spans})
    return tidy(rows)


def study_of_rows() -> dict[str, Any]:
    common = {"layouts": ["vlen", "flattened"], "title": None}
    cases: dict[str, Any] = {}
    for size in (1, 2, 4):
        asked = {"rows": "all", "scattered": False}
        cases[f"read-{size}"] = {
            **common, "kind": "read_rows", "states": ["cold"], "shape": [size], "rows": asked,
            "raw_bytes": size * 1e6,
        }  # fmt: skip
        cases[f"write-{size}"] = {
            **common, "kind": "write_rows", "states": ["write"], "shape": [size], "rows": written(16),
            "raw_bytes": size * 1e6,
        }  # fmt: skip
    return {
        "shape": [4], "layouts": ["vlen", "flattened"], "grids": [], "cases": cases, "score": False,
        "tradeoff": [],
    }  # fmt: skip


def test_the_figure_holds_spans_and_ratios() -> None:
    table = measured()
    data = FigureData(table, summarise(table), {}, {}, study_of_rows())
    figure = figures.draw("rows", "disk", data)
    panels = {axes.get_title(loc="left"): axes for axes in figure.axes if axes.get_visible()}
    assert set(panels) == {"reading all rows, cold", "writing, 16 rows a call", "file over bytes of rows"}
    found = {
        (name, str(line.get_label())): np.asarray(line.get_ydata()).tolist()
        for name, axes in panels.items()
        for line in axes.lines
    }
    # First call to close: neither opening, creating nor fsync.
    assert found["reading all rows, cold", "vlen"] == pytest.approx([6, 12, 24])
    assert found["reading all rows, cold", "flattened"] == pytest.approx([1.5, 3, 6])
    assert found["writing, 16 rows a call", "vlen"] == pytest.approx([6, 12, 24])
    assert found["writing, 16 rows a call", "flattened"] == pytest.approx([3, 6, 12])
    assert found["file over bytes of rows", "vlen"] == pytest.approx([1.4] * 3)
    for name, axes in panels.items():
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log"), name
        assert np.asarray(axes.lines[0].get_xdata()).tolist() == [1e6, 2e6, 4e6]


def test_one_row_stands_at_the_size_of_all() -> None:
    table, study = measured(), study_of_rows()
    for name, case in study["cases"].items():
        if name.startswith("read"):
            case["rows"] = {"rows": 1, "scattered": False}
    table["asked_bytes"] = np.arange(len(table), dtype=float)
    figure = figures.draw("rows", "disk", FigureData(table, summarise(table), {}, {}, study))
    panels = {axes.get_title(loc="left"): axes for axes in figure.axes if axes.get_visible()}
    assert np.asarray(panels["reading one row, cold"].lines[0].get_xdata()).tolist() == [1e6, 2e6, 4e6]


# ---- the converter


def test_rows_of_a_users_file_go_there_and_back(donor: Path, tmp_path: Path) -> None:
    with h5py.File(donor, "r+") as file:
        file["rows"].attrs["unit"] = "counts"
    said = convert(donor, "/rows", tmp_path / "new.h5", "offset-vector", 4096, "gzip")
    assert "6 rows of 36 bytes, compared with the original" in said
    with h5py.File(tmp_path / "new.h5") as file:
        rows = ragged.open(file["rows"])
        assert rows.lengths.tolist() == LENGTHS.tolist()
        assert rows.primary.attrs["unit"] == "counts" and rows.vector.compression == "gzip"
    convert(tmp_path / "new.h5", "/rows", tmp_path / "back.h5", "vlen", 4096, "none")
    with h5py.File(tmp_path / "back.h5") as file, h5py.File(donor) as original:
        assert dict(file["rows"].attrs) == {"unit": "counts"}
        for there, here in zip(file["rows"][:], original["rows"][:], strict=True):
            assert there.dtype == here.dtype and there.tobytes() == here.tobytes()


def test_attributes_of_rows_keep_their_types(donor: Path, tmp_path: Path) -> None:
    quality = h5py.enum_dtype({"good": 0, "bad": 1}, basetype="i1")
    with h5py.File(donor, "r+") as file:
        file["rows"].attrs.create("quality", 1, dtype=quality)
        file["rows"].attrs.create("unit", "µs".encode(), dtype=h5py.string_dtype("utf-8", 8))
        file["rows"].attrs.create("last", np.arange(3.0), dtype=np.dtype((float, 3)))
    convert(donor, "/rows", tmp_path / "new.h5", "offset-vector", 4096, "none")
    convert(tmp_path / "new.h5", "/rows", tmp_path / "back.h5", "vlen", None, "none")
    for name in ("new.h5", "back.h5"):
        with h5py.File(donor) as original, h5py.File(tmp_path / name) as file:
            for attribute in ("quality", "unit", "last"):
                there, here = (one["rows"].attrs.get_id(attribute) for one in (original, file))
                assert here.get_type().equal(there.get_type()) and here.shape == there.shape
            assert file["rows"].attrs["quality"] == 1


def test_attributes_of_rows_that_old_headers_cannot_hold_are_kept(tmp_path: Path) -> None:
    large = np.arange(20_000.0)
    with h5py.File(tmp_path / "mine.h5", "w", libver="latest") as file:
        file.create_dataset("rows", (1,), h5py.vlen_dtype(np.float32))[0] = VALUES
        file["rows"].attrs["calibration"] = large
    convert(tmp_path / "mine.h5", "/rows", tmp_path / "new.h5", "offset-vector", 4096, "none")
    convert(tmp_path / "new.h5", "/rows", tmp_path / "back.h5", "vlen", None, "none")
    for name in ("new.h5", "back.h5"):
        with h5py.File(tmp_path / name) as file:
            assert np.array_equal(file["rows"].attrs["calibration"], large)


def test_rows_that_are_private_stay_so(donor: Path, tmp_path: Path) -> None:
    donor.chmod(0o600)
    convert(donor, "/rows", tmp_path / "new.h5", "offset-vector", 4096, "none")
    assert (tmp_path / "new.h5").stat().st_mode & 0o777 == 0o600


def test_a_new_file_is_on_its_device_before_it_gets_its_name(
    donor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        done.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    def renamed(path: Path, target: Path) -> Path:
        done.append(str(target))
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    convert(donor, "/rows", tmp_path / "new.h5", "offset-vector", 4096, "none")
    assert done == [f"{tmp_path}/.new.h5.{os.getpid()}", f"{tmp_path}/new.h5", str(tmp_path)]


def test_rows_that_a_plug_in_compressed_are_read_back(donor: Path, tmp_path: Path) -> None:
    convert(donor, "/rows", tmp_path / "new.h5", "offset-vector", 4096, "zstd")
    # In a process that has not imported what wrote them.
    command = [sys.executable, "-m", "hyperslab.convert_rows", "new.h5::/rows", "back.h5", "--to", "vlen"]
    environment = {"PYTHONPATH": str(SCRIPTS)}
    subprocess.run(command, check=True, timeout=60, cwd=tmp_path, env=environment, capture_output=True)
    with h5py.File(tmp_path / "back.h5") as file, h5py.File(donor) as original:
        assert [row.tolist() for row in file["rows"][:]] == [row.tolist() for row in original["rows"][:]]


@pytest.mark.parametrize("option", [("--filter", "gzip"), ("--chunk-bytes", "4096")])
def test_what_only_a_vector_can_have_is_refused_for_variable_length_rows(
    option: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = tmp_path / "back.h5"
    monkeypatch.setattr(sys, "argv", ["convert_rows", "new.h5::/rows", str(target), "--to", "vlen", *option])
    with pytest.raises(SystemExit):
        convert_rows.main()
    assert "no filter reaches HDF5's variable-length rows" in capsys.readouterr().err and not target.exists()


@pytest.mark.parametrize("depth", range(3))
def test_an_attribute_that_leads_to_another_place_of_its_file_is_refused(
    donor: Path, tmp_path: Path, depth: int
) -> None:
    with h5py.File(donor, "r+") as file:
        leads = file["values"].ref
        file["rows"].attrs["leads"] = leads
        if depth == 1:
            # A list of references for each axis.
            del file["rows"].attrs["leads"]
            file["rows"].dims[0].attach_scale(file["values"])
        if depth == 2:
            table = np.array([(leads, 1)], [("to", h5py.ref_dtype), ("number", int)])
            file["rows"].attrs.create("leads", table)
    with pytest.raises(ragged.RaggedError, match="attribute (leads|DIMENSION_LIST) holds references"):
        convert(donor, "/rows", tmp_path / "new.h5", "offset-vector", 4096, "none")
    assert [path.name for path in tmp_path.iterdir()] == ["peaks.h5"]


# where the rows are, the new file -> words of the one line
MISTAKES = {
    ("peaks.h5::/values", "new.h5"): "not rows of numbers of variable length",
    ("peaks.h5::/nothing", "new.h5"): "has no dataset /nothing",
    ("peaks.h5::/rows", "peaks.h5"): "is there already",
    ("no.h5::/rows", "new.h5"): "No such file",
}
MISTAKEN = """
import json, sys
from hyperslab import convert_rows
said = []
for words in json.loads(sys.argv[1]):
    sys.argv[1:] = words
    try:
        convert_rows.main()
    except SystemExit as stop:
        said.append(stop.code)
print(json.dumps(said))
"""


def test_a_mistake_of_the_converter_is_one_line(donor: Path, tmp_path: Path) -> None:
    before = donor.read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", MISTAKEN, json.dumps(list(MISTAKES))],
        capture_output=True, text=True, timeout=60, cwd=tmp_path, env={"PYTHONPATH": str(SCRIPTS)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    for line, words in zip(json.loads(done.stdout), MISTAKES.values(), strict=True):
        assert words in line and "\n" not in line
    assert donor.read_bytes() == before and [path.name for path in tmp_path.iterdir()] == ["peaks.h5"]


# ---- the program in C


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, require: Callable[[str | None], None]) -> Path:
    compiler = next(filter(None, map(shutil.which, ("h5cc", "h5pcc"))), None)
    require(None if compiler else "no h5cc or h5pcc is here: apt-get install libhdf5-dev")
    directory = tmp_path_factory.mktemp("c")
    command = [str(compiler), "-O2", "-Wall", "-Werror", "-o", "rows", str(SCRIPTS / "rows_benchmark.c")]
    subprocess.run(command, check=True, cwd=directory, capture_output=True, timeout=120)
    return directory / "rows"


def through_c(program: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = [str(program), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def flat_values(file: h5py.File, way: str) -> Any:
    """All values of the rows in a file, end to end."""
    if way == "offset-vector":
        return ragged.open(file["rows0"]).read(slice(0, 100))[1]
    rows = file["rows0"][:]
    return np.concatenate(rows) if way == "vlen" else rows


@pytest.mark.parametrize("way", ["vlen", "flattened", "offset-vector"])
@pytest.mark.parametrize("call", [1, 7, 100])
def test_c_writes_what_h5py_reads_and_reads_it_back(
    program: Path, tmp_path: Path, way: str, call: int
) -> None:
    path = tmp_path / "a.h5"
    for action in ("write", "read"):
        done = through_c(program, way, action, path, 100, 30, call)
        span, calls = map(float, done.stdout.split())
        assert done.returncode == 0 and span >= calls > 0
    with h5py.File(path) as file:
        flat = flat_values(file, way)
        assert len(flat) == 3000 and len(np.unique(flat)) == 3000
        if way == "flattened":
            assert (file["rows0.lengths"][:] == 30).all()
    with h5py.File(path, "r+") as file:
        if way == "vlen":
            changed = file["rows0"][50]
            changed[3] += 1
            file["rows0"][50] = changed
        elif way == "offset-vector":
            file["rows0.vector"][(50 * 30 + 3) * 4] += 1
        else:
            file["rows0"][50 * 30 + 3] += 1
    assert "finding a row's values failed" in through_c(program, way, "read", path, 100, 30, call).stderr


def test_c_and_h5py_are_compared(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    size = (50, 20, 5)
    for way in compare_with_c.WAYS:
        for action in ("write", "read"):
            span, calls = compare_with_c.timed(way, action, str(tmp_path / way), *size)
            assert span >= calls > 0
    # Each time of h5py is that of an interpreter, so that one way is enough.
    monkeypatch.setattr(compare_with_c, "WAYS", ("vlen",))
    # The command sets it for what it starts.
    monkeypatch.setenv("PYTHONPATH", "")
    (place := tmp_path / "place").mkdir()
    assert compare_with_c.compare(size, 1, place) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines[2:]] == ["vlen, write", "vlen, read"]
    assert all(line.endswith(" µs") for line in lines[2:]) and list(place.iterdir()) == []


def test_the_page_says_what_h5py_costs_for_each_row() -> None:
    page = (SCRIPTS.parents[1] / "docs" / "rows.md").read_text(encoding="utf-8")
    section = page.split("## What h5py costs\n")[1].split("\n## ")[0]
    # | `way`, action | C | h5py | ratio | µs a row |
    found = re.findall(r"^\| `([\w-]+)`, (\w+) \|.*\| -?[\d.,]+ \|$", section, re.M)
    assert "µs a row" in section
    assert set(found) == {(way, action) for way in compare_with_c.WAYS for action in ("write", "read")}


def test_a_record_of_rows_becomes_a_table(tmp_path: Path) -> None:
    """Columns of rows are those that the tables declare."""
    from hyperslab.results.columns import MEASUREMENTS

    outcome = run(cell(LAYOUTS["vlen"], "write_rows", written(7)), tmp_path / "a.h5")
    named = {key for row in outcome.repeats for key in row} - {"each_call_s"}
    assert named <= MEASUREMENTS.keys()
    kept = {"settings", "stored_bytes"}
    assert outcome.report.keys() - kept <= MEASUREMENTS.keys()
