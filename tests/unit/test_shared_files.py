"""Cells that read one test file: written once, named after all of them, gone with the last one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from samples import file_specification, prepared
from studies import BASE

from hyperslab import generate
from hyperslab.measuring import other_file_systems
from hyperslab.measuring.artifact import in_turn, leave, shared
from hyperslab.planning import record_keeping
from hyperslab.planning.batch_jobs import BatchJobs
from hyperslab.planning.cell_jobs import CellJobs
from hyperslab.planning.estimates import WRITE_BYTES_PER_S, estimated_seconds, total_bytes
from hyperslab.planning.inventory import Inventory
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.planning.record_keeping import RecordKeeping
from hyperslab.planning.reruns import Reruns
from hyperslab.records import record_of
from hyperslab.sites import roots
from hyperslab.sites.configuration import load_sites

PAIR = {"chunks": [4, 4, 64], "second": {"chunks": [8, 8, 1], "filters": [{"gzip": 4}], "cases": ["slices"]}}


def inventory(directory: Path, axes_reduced: bool = False, split_on: str = "", **changes: Any) -> Inventory:
    """A project with the study `mine`, which has three reads, one of which two copies serve otherwise."""
    (directory / "config/studies").mkdir(parents=True)
    sites = directory / "config/sites.yaml"
    sites.write_text("{file_systems: {disk: {root: /files}}, sites: {disk: {file_system: disk}}}", "utf-8")
    study = {**yaml.safe_load(BASE), "sites": ["disk"], "grids": [], "shared_files": True, **changes}
    study["cases"]["spectra"] = {"read": {"x": 1, "y": 1}}
    study["cases"]["short"] = {"read": {"z": 1}, "shape": {"z": 300}}
    if axes_reduced:
        study["cases"] = {
            "mean": {"reduce": {"z": 25}, "processes": [1], "layouts": ["auto"]},
            **study["cases"],
        }
    study["cases"]["write"]["layouts"] = ["auto"]
    study["layouts"] = {"auto": {"chunks": "auto"}, "pair": PAIR}
    if split_on:
        driver = {"name": "split", "metadata_on": split_on}
        study["layouts"]["split"] = {"settings": {"driver": driver}}
    study["score"] = None
    (directory / "config/studies/mine.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    return Inventory(directory, load_sites(sites), sites, {}, "")


def place(found: Inventory, layout: str, case: str) -> str:
    return found.place(found.study("mine"), "disk", (layout, case, "r2")).partition("/disk/")[2]


def test_cases_share_what_is_the_same_file(tmp_path: Path) -> None:
    found = inventory(tmp_path)
    assert place(found, "auto", "slices") == place(found, "auto", "spectra") == "auto/slices,spectra.r2"
    # A part of the array, and what makes its own file, are others.
    assert place(found, "auto", "short") == "auto/short.r2"
    assert place(found, "auto", "write") == "auto/write.r2"
    # Each of two copies is the array to the reads that it serves.
    assert place(found, "pair", "slices") == "pair/slices.r2"
    assert place(found, "pair", "spectra") == "pair/spectra.r2"


def test_in_confirming_rounds_a_file_waits_for_nothing_that_is_not_confirmed(tmp_path: Path) -> None:
    found = inventory(tmp_path, axes_reduced=True)
    study = found.study("mine")
    places = [found.place(study, "disk", ("auto", "slices", one)) for one in ("r0", "c0")]
    assert [one.rpartition("/")[2] for one in places] == ["mean-1p,slices,spectra.r0", "slices,spectra.c0"]


def test_a_run_that_fails_sweeps_what_it_was_to_measure_alone(tmp_path: Path) -> None:
    found = inventory(tmp_path)
    own = "results/mine/cells/disk/auto/slices.r0.json"
    made = [own, "results/mine/report.html", "results/other/cells/disk/auto/slices.r0.json"]
    reruns = Reruns(found, BatchJobs(found), "")
    assert reruns.unfinished(found.study("mine"), made) == [own]
    confirming = reruns.unfinished(found.study("mine"), [own, "results/mine/confirmation.json"])
    assert own in confirming


def test_a_dry_run_counts_what_cases_share_once(tmp_path: Path) -> None:
    alone = inventory(tmp_path / "alone", shared_files=False).study("mine")
    together = inventory(tmp_path / "together").study("mine")
    cells = [("auto", case, round_) for case in ("slices", "spectra", "short") for round_ in ("r0", "r1")]

    def seconds(study: PlannedStudy) -> float:
        return sum(estimated_seconds(study, layout, case, "disk") for layout, case, _ in cells)

    spared = 2 * alone.dataset.nbytes
    assert total_bytes(alone, "disk", cells) - total_bytes(together, "disk", cells) == spared
    # Side by side on several nodes each cell has its own.
    assert total_bytes(together, "disk", cells, together=False) == total_bytes(alone, "disk", cells)
    assert seconds(together) < seconds(alone) - 0.99 * spared / WRITE_BYTES_PER_S


def test_cells_that_are_measured_again_write_a_file_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study = inventory(tmp_path).study("mine")
    cells = [("auto", case, "r0") for case in ("slices", "spectra")]
    assert total_bytes(study, "disk", cells) == study.dataset.nbytes
    for cell in cells:
        record = Path(record_of("mine", "disk", cell))
        record.parent.mkdir(parents=True, exist_ok=True)
        record.touch()
    # The record of the other one lies there when the first has been measured: its file is not kept.
    assert total_bytes(study, "disk", cells) == 2 * study.dataset.nbytes


def test_rounds_may_be_added_of_all_that_reads_a_file(tmp_path: Path) -> None:
    study = inventory(tmp_path, rounds={"first": 3, "most": 5}).study("mine")
    # As rounds are added: the recommendation asks for slices, and spectra are read of the same file.
    assert study.can_be_added("disk") == {("auto", "slices"), ("auto", "spectra"), ("pair", "slices")}


def test_two_sites_on_one_file_system_have_no_file_in_common(tmp_path: Path) -> None:
    found = inventory(tmp_path)
    found.sites["twin"] = {**found.sites["disk"], "name": "twin"}
    study, cell = found.study("mine"), ("auto", "short", "r0")
    places = [found.place(study, site, cell) for site in ("disk", "twin")]
    assert [place.split("/")[3:] for place in places] == [
        [site, "auto", "short.r0"] for site in ("disk", "twin")
    ]


def test_two_clones_on_one_file_system_have_no_file_in_common(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They go through the cells of a study in the same order, and each would remove what the other reads."""
    places = []
    for name in ("one", "other"):
        (directory := tmp_path / name).mkdir()
        monkeypatch.chdir(directory)
        found = inventory(directory)
        places.append(found.place(found.study("mine"), "disk", ("auto", "short", "r0")))
        # What a dead run of a clone left, the next one finds.
        again = Inventory(directory, found.sites, found.sites_file, {}, "")
        assert again.place(again.study("mine"), "disk", ("auto", "short", "r0")) == places[-1]
    assert places[0] != places[1]


@pytest.mark.parametrize("case", ["slices", "spectra"])
@pytest.mark.parametrize(("count", "whole"), [(3, True), (21, False)])
def test_only_cells_of_one_batch_share_a_file(tmp_path: Path, count: int, whole: bool, case: str) -> None:
    found = inventory(tmp_path)
    study, cell = found.study("mine"), ("auto", case, "r1")
    # As many batches as rounds, or as cells.
    names = [f"r{index}of{count}" for index in range(count)]
    (found.batch,) = [name for name in names if cell in found.batch_cells(study, "disk", name)]
    name = "slices,spectra" if whole else case
    assert found.place(study, "disk", cell).endswith(f"/auto/{name}.r1")


def test_what_a_dead_job_left_is_swept_whatever_shared_it_and_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(other_file_systems.VARIABLE, raising=False)
    found = inventory(tmp_path, split_on="far")
    root, other = tmp_path / "files", tmp_path / "other"
    found.sites["disk"]["root"] = str(root)
    found.sites["far"] = {**found.sites["disk"], "file_system": "far", "root": str(other)}
    roots.prepare(str(root), roots.Root())
    own = Path(found.place(found.study("mine"), "disk", ("auto", "short", "r0"))).parent
    left, kept = (own / name for name in ("slices,spectra.r0", "short.r0"))
    metadata = Path(f"{other}{left}/data.h5")
    for directory in (left, kept, metadata.parent):
        directory.mkdir(parents=True)
    for file in (left / "data.h5", metadata):
        file.touch()
    # By now each cell has its own file.
    found.shares = False
    RecordKeeping(found).sweep(["results/mine/cells/disk/auto/slices.r0.json"])
    assert kept.exists() and not left.exists()
    assert other.exists() and not list(other.iterdir())


def test_a_sweep_asks_no_root_on_which_no_layout_of_its_study_has_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server of another one may be away, and whoever looks there waits for it."""
    found = inventory(tmp_path, split_on="far")
    for name in ("far", "away"):
        found.sites[name] = {**found.sites["disk"], "file_system": name, "root": f"/{name}"}
    asked: list[dict[str, str]] = []
    monkeypatch.setattr(record_keeping, "remove_directory", lambda _, elsewhere: asked.append(elsewhere))
    RecordKeeping(found).sweep(["results/mine/cells/disk/auto/slices.r0.json"])
    assert asked == [{"far": "/far"}]


def test_a_name_that_no_file_system_has_is_not_made(tmp_path: Path) -> None:
    names = [letter * 70 for letter in "abc"]
    cases = {**yaml.safe_load(BASE)["cases"], **dict.fromkeys(names, {"read": {"z": 1}})}
    found = inventory(tmp_path, cases=cases)
    assert place(found, "auto", names[0]) == f"auto/{names[0]}.r2"


@pytest.mark.parametrize("changes", [{"shared_files": False}, {}])
def test_each_cell_has_its_own_file_unless_the_study_says_otherwise(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    found = inventory(tmp_path, **changes)
    if not changes:
        # Nor where single cells are asked for: nobody would remove it.
        found.shares = False
    assert place(found, "auto", "slices") == "auto/slices.r2"


def test_cells_that_share_a_file_follow_each_other(tmp_path: Path) -> None:
    found = inventory(tmp_path)
    jobs = CellJobs(found, tmp_path)

    def priority(layout: str, case: str) -> float:
        return jobs.priority(SimpleNamespace(study="mine", layout=layout, case=case, round="r1"), "disk")

    assert priority("auto", "slices") == priority("auto", "spectra") != priority("auto", "short")
    assert priority("pair", "slices") != priority("pair", "spectra")


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    with prepared(tmp_path) as found:
        yield found


def test_a_shared_file_is_written_once_and_removed_with_the_last_cell(root: Path, tmp_path: Path) -> None:
    spec = file_specification((8, 8, 50), (4, 4, 50))
    directory = root / "mine" / "auto" / f"{shared(['slices', 'spectra'])}.r0"
    assert not generate.written(directory, spec)
    generate.generate(spec, directory, None)
    assert generate.written(directory, spec)
    # One of another study, or of another version of it, is not taken for it.
    assert not generate.written(directory, file_specification((8, 8, 50), (4, 4, 25)))
    records = [tmp_path / f"{case}.r0.json" for case in ("slices", "spectra")]
    assert in_turn(directory, records[0]) == [records[1]]
    records[0].write_text("{}")
    leave(directory, records[0])
    note = json.loads((directory / "note.json").read_text())
    # The next one has the file, and not the time that it took, which is in the first one's record.
    assert generate.written(directory, spec) and not {"began", "ended", "generate_s"} & set(note)
    records[1].write_text("{}")
    leave(directory, records[1])
    assert not directory.exists() and not (root / "mine").exists()


def test_a_file_of_one_cell_is_always_written_anew_and_removed(root: Path, tmp_path: Path) -> None:
    spec = file_specification((8, 8, 50), (4, 4, 50))
    directory = root / "mine" / "auto" / "slices.r0"
    generate.generate(spec, directory, None)
    assert not generate.written(directory, spec) and in_turn(directory, tmp_path / "slices.r0.json") == []
    leave(directory, tmp_path / "slices.r0.json")
    assert not directory.exists()
