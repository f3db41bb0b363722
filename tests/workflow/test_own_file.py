"""A user's own file gets a layout of their study, or the one recommended, as a target of the workflow."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401, which registers zstd
import numpy as np
import pytest
import zarr
from clones import Clone, jobs, make_clone

from hyperslab import ragged
from hyperslab.planning.planned_study import PlannedStudy

SHAPE = (8, 8, 500)
STUDY: dict[str, Any] = {
    "title": "My own file",
    # The array that is measured is shorter than the real one.
    "dataset": {"axes": ["x", "y", "z"], "shape": [8, 8, 256], "dtype": "uint16"},
    "layouts": {
        "contiguous": None,
        "4x4x64": {"chunks": [4, 4, 64], "filters": ["shuffle", {"gzip": 4}]},
        "spectra": {"chunks": [2, 2, "all"]},
        "turned": {"chunks": [4, 4, 64], "order": ["z", "x", "y"]},
        "shards": {"format": "zarr", "chunks": [4, 4, 64], "shards": [8, 8, 128], "codecs": ["zstd"]},
    },
    "cases": {"slices": {"read": {"z": 5}, "states": ["cold"], "layouts": ["contiguous", "4x4x64"]}},
    "sites": ["disk"],
    "rounds": 1,
    "repeats": {"cold": 2},
    "recommendation": {"confirm_rounds": 0, "size_bound": 2.0},
}


# What one run rewrites: a file in two layouts, and an array in a directory.
NAMED, SPECTRA, SHARDS = (f"results/own/layout/{name}" for name in ("4x4x64.h5", "spectra.h5", "shards.zarr"))


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own") / "mine.h5"
    with h5py.File(path.with_name("part.h5"), "w") as part, h5py.File(path, "w") as file:
        counts = file.create_dataset("data/counts", data=np.arange(32000, dtype="u2").reshape(SHAPE))
        file["data/energy"] = np.arange(500.0)
        file["data/energy"].make_scale("energy")
        counts.dims[2].attach_scale(file["data/energy"])
        file["link"] = h5py.SoftLink("/data/counts")
        # Its values are in the other file.
        part["values"] = np.arange(5)
        layout = h5py.VirtualLayout((5,), part["values"].dtype)
        layout[:] = h5py.VirtualSource("part.h5", "values", (5,))
        file.create_virtual_dataset("view", layout)
    return path


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory, own: Path) -> Clone:
    made = make_clone(tmp_path_factory.mktemp("rewriting") / "clone")
    made.write_study("own", with_donor(own))
    return made


@pytest.fixture(scope="module")
def said(clone: Clone, own: Path) -> str:
    """What the run said that rewrote the file in each way."""
    before = hashlib.sha256(own.read_bytes()).hexdigest()
    printed = clone.build(NAMED, SPECTRA, SHARDS)
    assert hashlib.sha256(own.read_bytes()).hexdigest() == before
    return printed


def with_donor(path: Path, **changed: Any) -> dict[str, Any]:
    dataset = {**STUDY["dataset"], "donor": {"path": str(path), "dataset": "data/counts"}}
    return {**STUDY, "dataset": dataset, **changed}


def refused(clone: Clone, *arguments: str) -> str:
    """The one line that a run says instead of running."""
    done = clone.run(*arguments)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("hyperslab: "))
    return line


def test_a_named_layout_needs_no_measurement(clone: Clone, own: Path, said: str) -> None:
    assert jobs(said) == {"rewrite": 2, "rewrite_as_zarr": 1}
    assert "writing data/counts in chunks [4, 4, 64]" in said and said.count("compared and equal") == 3
    log = (clone.directory / "results/own/logs/layout/4x4x64.log").read_text(encoding="utf-8")
    assert "compared and equal" in log
    with h5py.File(clone.directory / NAMED) as file, h5py.File(own) as original:
        counts = file["data/counts"]
        assert (counts.chunks, counts.compression, counts.shuffle) == ((4, 4, 64), "gzip", True)
        assert (counts[...] == original["data/counts"][...]).all()
        assert counts.dims[2][0] == file["data/energy"] and file["link"] == counts
    found = {path.name for path in (clone.directory / NAMED).parent.iterdir()}
    # Another test may have made this one.
    assert found - {"recommended.h5"} == {"4x4x64.h5", "spectra.h5", "shards.zarr"}


@pytest.mark.usefixtures("said")
def test_values_of_other_files_are_taken_in_where_that_is_asked(clone: Clone, own: Path) -> None:
    clone.write_study("spread", with_donor(own))
    target = "results/spread/layout/4x4x64.h5"
    clone.build("--config", "materialise=True", "--", target)
    for rewritten, materialised in ((NAMED, False), (target, True)):
        with h5py.File(clone.directory / rewritten) as file:
            assert file["view"].is_virtual != materialised
            assert (file["view"][...] == np.arange(5)).all()


@pytest.mark.usefixtures("said")
def test_all_of_an_axis_is_all_of_the_real_one(clone: Clone) -> None:
    with h5py.File(clone.directory / SPECTRA) as file:
        assert file["data/counts"].chunks == (2, 2, 500)


@pytest.mark.usefixtures("said")
def test_a_zarr_layout_gives_a_directory(clone: Clone, own: Path) -> None:
    array = zarr.open_array(clone.directory / SHARDS, mode="r")
    assert (array.chunks, array.shards) == ((4, 4, 64), (8, 8, 128))
    with h5py.File(own) as original:
        assert (array[:] == original["data/counts"][...]).all()
    line = refused(clone, "results/own/layout/shards.h5")
    assert "layouts.shards: is stored as Zarr: name a result that ends in .zarr" in line


@pytest.mark.usefixtures("said")
def test_what_was_rewritten_is_rewritten_again_where_the_file_was_edited(clone: Clone, own: Path) -> None:
    assert not clone.planned(NAMED, SHARDS)
    with h5py.File(own, "r+") as file:
        file.attrs["edited"] = 1
    assert clone.planned(NAMED, SHARDS) == {"rewrite": 1, "rewrite_as_zarr": 1}


def test_a_drafted_study_runs(clone: Clone, own: Path) -> None:
    """What only the file says is enough: one command, and its cells are measured and its file rewritten."""
    done = subprocess.run(
        [sys.executable, "-m", "hyperslab.draft", f"{own}::/data/counts"],
        cwd=clone.directory,
        env={**os.environ, "PYTHONPATH": "workflow/scripts"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1].endswith("--dry-run results/mine/report.html")
    cell = "results/mine/cells/disk/chunks-64K/one-energy.r0.json"
    plan = clone.planned("results/mine/report.html")
    assert plan["measure_disk"] == 3 * 4 * len(
        PlannedStudy(clone.directory / "config/studies/mine.yaml").layouts
    )
    clone.build(cell, "results/mine/layout/chunks-64K.h5")
    record = json.loads((clone.directory / cell).read_text(encoding="utf-8"))
    assert record["specification"]["dataset"]["donor"] == {"path": str(own), "dataset": "/data/counts"}
    assert (clone.directory / "results/mine/layout/chunks-64K.h5").exists()


def test_rows_of_variable_length_get_a_vector_and_go_back(clone: Clone, tmp_path: Path) -> None:
    def study(path: Path) -> dict[str, Any]:
        rows = {"count": 6, "lengths": "donor", "held": 6, "elements": 15, "longest": 5}
        return {
            "title": "My own rows",
            "dataset": {"rows": rows, "dtype": "int16", "donor": {"path": str(path), "dataset": "data/hits"}},
            "layouts": {
                "vlen": {"format": "hdf5-rows", "storage": "vlen"},
                "vector": {"format": "hdf5-rows", "storage": "offset-vector", "filters": [{"zstd": 3}]},
                "flat": {"format": "hdf5-rows", "storage": "flattened"},
            },
            "cases": {"read": {"read_rows": "all"}},
            "sites": ["disk"],
        }

    with h5py.File(tmp_path / "hits.h5", "w") as file:
        file["other"] = np.arange(7)
        hits = file.create_dataset("data/hits", (6,), h5py.vlen_dtype(np.dtype("i2")))
        for number in range(6):
            hits[number] = np.arange(number)
    clone.write_study("hits", study(tmp_path / "hits.h5"))
    clone.build("results/hits/layout/vector.h5")
    made = clone.directory / "results/hits/layout/vector.h5"
    with h5py.File(made) as file:
        assert [row.tolist() for row in ragged.open(file["data/hits"])] == [list(range(n)) for n in range(6)]
        assert file["other"][:].tolist() == list(range(7))
    # A file with rows of its own is a donor, too.
    clone.write_study("back", study(made))
    clone.build("results/back/layout/vlen.h5")
    with h5py.File(clone.directory / "results/back/layout/vlen.h5") as file:
        assert sorted(file["data"]) == ["hits"] and file["data/hits"][4].tolist() == [0, 1, 2, 3]
    assert "is flattened; rows of a user's file are rewritten to" in refused(
        clone, "results/hits/layout/flat.h5"
    )


def test_the_recommended_layout_is_measured_for(clone: Clone) -> None:
    target = "results/own/layout/recommended.h5"
    assert clone.made(target)["measure_disk"] == 2
    place = clone.directory / "results/own/recommendation.json"
    recommendation = json.loads(place.read_text(encoding="utf-8"))
    (disk,) = recommendation["sites"]
    with h5py.File(clone.directory / target) as file:
        assert file["data/counts"].chunks == ((4, 4, 64) if disk["pick"] == "4x4x64" else None)
    # As if another site had been measured, too, and each had another outcome.
    first, second = ("contiguous", "4x4x64") if disk["pick"] == "4x4x64" else ("4x4x64", "contiguous")
    recommendation["sites"] = [{**disk, "pick": first}, {**disk, "site": "memory", "pick": second}]
    place.write_text(json.dumps(recommendation), encoding="utf-8")
    done = clone.run(target)
    assert done.returncode == 1
    line = f"recommends {first} at disk, {second} at memory; choose with --config site=NAME"
    assert line in done.stdout + done.stderr
    clone.build("--config", "site=disk", "--", target)
    with h5py.File(clone.directory / target) as file:
        assert file["data/counts"].chunks == ((4, 4, 64) if first == "4x4x64" else None)


def test_mistakes_are_one_line_before_anything_is_written(tmp_path: Path, own: Path) -> None:
    fresh = make_clone(tmp_path / "clone")
    fresh.write_study("own", with_donor(own))
    fresh.write_study("none", STUDY)
    fresh.write_study("absent", with_donor(own.with_name("absent.h5")))
    for target, said in {
        "own/layout/turned": "own.yaml: layouts.turned: stores the axes as z, x, y; a rewritten",
        "own/layout/4x4": "own.yaml: layouts: no layout '4x4'; there are contiguous, 4x4x64,",
        "none/layout/4x4x64": "none.yaml: dataset.donor: is missing; it names the file to rewrite",
        "absent/layout/4x4x64": "absent.h5: ",
    }.items():
        assert said in refused(fresh, f"results/{target}.h5")
    assert not (fresh.directory / "results").exists()
