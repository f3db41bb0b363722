"""Confirming rounds as a run knows them: cells that there can be, and those that are asked for again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pytest
import yaml
from studies import BASE

from hyperslab import confirm
from hyperslab.planning import inner_run, run_course
from hyperslab.planning.batch_jobs import BatchJobs
from hyperslab.planning.cell_jobs import CellJobs
from hyperslab.planning.confirmation import CONFIRMING, RUN_VARIABLE, wanted_records
from hyperslab.planning.inventory import Inventory
from hyperslab.planning.invocation import Invocation
from hyperslab.planning.later_rounds import LaterRounds
from hyperslab.planning.page_inputs import PageInputs
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.planning.progress import planned
from hyperslab.planning.remeasure import named
from hyperslab.planning.request import ASKED_VARIABLE, Request
from hyperslab.planning.reruns import Reruns
from hyperslab.sites.configuration import load_sites
from hyperslab.validation.errors import ConfigurationError
from report import wanted

SITES = """
platforms: {cluster: {executor: slurm, minutes: 60}}
file_systems: {disk: {root: testfiles}, far: {root: far}}
sites: {disk: {file_system: disk}, far: {platform: cluster, file_system: far, concurrency: 2}}
"""
FINALISTS = ["auto", "contiguous"]
RECOMMENDATION = {"sites": [{"site": site, "finalists": FINALISTS} for site in ("disk", "far")]}
CELLS = "results/mine/cells"
# What of them there can be: one case leaves out a layout, the other is measured at one site alone.
WANTED = [
    f"{CELLS}/disk/auto/slices.c0.json",
    f"{CELLS}/far/auto/box-0.5.c0.json",
    f"{CELLS}/far/auto/slices.c0.json",
    f"{CELLS}/far/contiguous/box-0.5.c0.json",
]
LIST = "results/mine/confirmation.json"


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inventory:
    """A project with the study `mine`, of which everything is measured on a disk and on a cluster."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config/studies").mkdir(parents=True)
    (tmp_path / "config/sites.yaml").write_text(SITES, encoding="utf-8")
    study = yaml.safe_load(BASE)
    study["cases"]["slices"]["layouts"] = ["auto", "4x4x64"]
    study["cases"]["box-0.5"] = {"read": {"x": 1, "y": 1}, "states": ["cold", "warm"], "sites": ["far"]}
    study |= {"sites": ["disk", "far"], "recommendation": {"mix": {"slices": 2}, "confirm_rounds": 1}}
    (tmp_path / "config/studies/mine.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    made = Inventory(
        tmp_path, load_sites(tmp_path / "config/sites.yaml"), tmp_path / "config/sites.yaml", {}, ""
    )
    # What is there counts as measured by today's study.
    monkeypatch.setattr(
        PlannedStudy, "standing", lambda self, record, cell: "today" if Path(record).exists() else "stale"
    )
    (tmp_path / "results/mine").mkdir(parents=True)
    Path("results/mine/recommendation.json").write_text(json.dumps(RECOMMENDATION), encoding="utf-8")
    main = [record for site in ("disk", "far") for record in made.records_of(made.study("mine"), site)]
    for record in [*WANTED, *main]:
        Path(record).parent.mkdir(parents=True, exist_ok=True)
        Path(record).touch()
    for marker in BatchJobs(made).markers(made.study("mine"), "far"):
        Path(marker).parent.mkdir(parents=True, exist_ok=True)
        Path(marker).touch()
    write_list(WANTED)
    return made


def write_list(records: list[str]) -> None:
    """A confirmation.json of these records."""
    Path(LIST).write_text(json.dumps({"wanted": records, "records": records}), encoding="utf-8")


def reruns_of(inventory: Inventory, remeasure: str = "", noted: dict[str, list[int]] | None = None) -> Reruns:
    return Reruns(inventory, BatchJobs(inventory), remeasure, noted)


def test_only_cells_that_there_can_be_are_wanted(inventory: Inventory) -> None:
    study = inventory.study("mine")
    assert sorted(wanted_records(RECOMMENDATION, study, study.read_cases(), 1)) == WANTED
    # As in the run that measures them.
    found = [record for site in ("disk", "far") for record in inventory.records_of(study, site, "confirm")]
    assert sorted(found) == WANTED


def confirm_with(monkeypatch: pytest.MonkeyPatch, **config: Any) -> None:
    """Run the command inside a run of this configuration."""
    run = {"snakefile": str(Path("Snakefile").absolute()), "config": config}
    monkeypatch.setenv(RUN_VARIABLE, json.dumps(run))
    options = {"recommendation": "results/mine/recommendation.json", "study": "mine", "rounds": "1"}
    options |= {"log": "log", "output": LIST}
    given = [word for key, value in options.items() for word in (f"--{key}", value)]
    monkeypatch.setattr(sys, "argv", ["confirm", *given, "--cases", "slices", "box-0.5"])
    confirm.main()


@pytest.mark.usefixtures("inventory")
def test_the_list_of_confirming_rounds_has_no_other_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    confirm_with(monkeypatch, measure=False)
    assert sorted(json.loads(Path(LIST).read_text(encoding="utf-8"))["wanted"]) == WANTED


@pytest.mark.usefixtures("inventory")
def test_a_run_inside_begins_only_where_something_is_to_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    def measure(target: str, *_: Any) -> int:
        begun.append(target)
        return 0

    monkeypatch.setattr(inner_run, "measure", measure)
    confirm_with(monkeypatch)
    assert not begun
    confirm_with(monkeypatch, remeasure="disk/auto/slices.c0")
    Path(WANTED[-1]).unlink()
    confirm_with(monkeypatch, measure=False)
    assert len(begun) == 1
    confirm_with(monkeypatch)
    assert begun == 2 * [CONFIRMING]


def test_where_there_are_no_rounds_nothing_is_planned(tmp_path: Path) -> None:
    code = "import sys\nfrom hyperslab import confirm\nconfirm.main()\nassert 'pydantic' not in sys.modules"
    options = {"recommendation": "none", "study": "mine", "rounds": "0", "log": "log", "output": "list.json"}
    given = [word for key, value in options.items() for word in (f"--{key}", value)]
    scripts = str(Path(confirm.__file__).parents[1])
    subprocess.run(
        [sys.executable, "-c", code, *given, "--cases"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": scripts}, check=True,
    )  # fmt: skip
    written = json.loads((tmp_path / "list.json").read_text(encoding="utf-8"))
    assert written == {"wanted": [], "records": []}


@pytest.mark.usefixtures("inventory")
def test_a_study_that_has_become_faulty_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("config/studies/mine.yaml").write_text("layouts: {}\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="^hyperslab: .*mine.yaml: "):
        confirm_with(monkeypatch)


def test_a_list_is_made_again_where_it_lacks_a_record_or_names_what_cannot_be(inventory: Inventory) -> None:
    assert LIST not in reruns_of(inventory).forced(["mine"])
    Path(WANTED[0]).unlink()
    assert LIST in reruns_of(inventory).forced(["mine"])
    Path(WANTED[0]).touch()
    # As earlier versions wrote it; what is made in its place has no such cell.
    write_list([*WANTED, f"{CELLS}/disk/contiguous/slices.c0.json"])
    assert LIST in reruns_of(inventory).forced(["mine"])


def test_a_report_knows_the_cells_of_a_case_with_a_dot_in_its_name() -> None:
    assert wanted({"wanted": WANTED[1:2]}) == [("far", "auto", "box-0.5", "c0")]
    assert wanted({"wanted": [f"{CELLS}/disk/a.b/slices.r11.json"]}) == [("disk", "a.b", "slices", "r11")]
    assert wanted({}) == []


def test_a_dry_run_says_how_much_confirming_rounds_may_add(inventory: Inventory) -> None:
    made = [LIST, *inventory.all_records(inventory.study("mine"))]

    def said(remeasure: str = "") -> list[str]:
        again = reruns_of(inventory, remeasure)
        return list(planned(inventory, BatchJobs(inventory), again, ["mine"], made))

    Path(WANTED[3]).unlink()
    # At the disk one case of two layouts, of which one is there. Far away six of seven layouts lack a cell,
    # one of them two, and five are finalists at most.
    here, there = said()
    assert "; then at most 1 cell in confirming rounds of the layouts that do best, 0.0 GB to write, " in here
    assert "; then at most 6 cells in confirming rounds" in there
    # What is asked for is counted as that.
    assert "; of confirming rounds 1 cell again; then at most 1 cell in" in said("disk/auto/slices.c0")[0]
    made.remove(LIST)
    assert "confirming" not in "".join(said())


def test_confirming_rounds_are_measured_again_where_they_are_asked_for(inventory: Inventory) -> None:
    study = inventory.study("mine")
    again = reruns_of(inventory, "disk/auto/slices.c0")
    again.check(["mine"])
    assert again.asked(study, "disk") == {WANTED[0]}
    assert again.forced(["mine"]) == {LIST, WANTED[0]}
    lines = planned(inventory, BatchJobs(inventory), again, ["mine"], inventory.all_records(study))
    (line,) = [line for line in lines if "site disk" in line]
    assert ": 0 cells to measure (" in line
    assert line.endswith("; of confirming rounds 1 cell again")
    # In the run inside, the batch that has it.
    again = reruns_of(inventory, "far/contiguous/*.c0")
    assert again.forced(["mine"]) == {LIST, "results/mine/batches/far/c1of2.json"}
    # Main rounds by their own names.
    again = reruns_of(inventory, "disk/auto/slices.r*")
    assert again.asked(study, "disk") == {f"{CELLS}/disk/auto/slices.r{number}.json" for number in range(3)}
    assert LIST not in again.forced(["mine"])


def test_a_confirming_batch_without_its_record_is_measured_again(inventory: Inventory) -> None:
    Path(WANTED[1]).unlink()
    assert reruns_of(inventory).forced(["mine"]) == {LIST, "results/mine/batches/far/c0of2.json"}


def test_noisy_confirming_rounds_are_found_in_their_table(inventory: Inventory) -> None:
    rows = {"site": "disk", "layout": "auto", "case": "slices", "round": 0, "phase": "confirm", "noisy": True}
    pd.DataFrame([rows]).to_parquet("results/mine/confirmation.parquet")
    noisy = named("noisy", "mine")
    assert noisy(WANTED[0])
    assert not noisy(f"{CELLS}/disk/auto/slices.r0.json")


def test_what_was_measured_again_since_it_was_asked_for_is_not_measured_once_more(
    inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No two clocks are compared: those of a node, and of a file server, may be minutes off."""
    old, new, gone, confirming = (
        f"{CELLS}/far/auto/slices.{round_}.json" for round_ in ("r0", "r1", "r2", "c0")
    )
    for record in (old, new, confirming):
        os.utime(record, (4e9, 4e9))
    Path(gone).unlink()
    # Who comes into the confirming rounds is known only later.
    later = Path(f"{CELLS}/far/auto/slices.c1.json")
    later.touch()
    monkeypatch.setenv(ASKED_VARIABLE, "")
    study, asked = inventory.study("mine"), {"remeasure": "far/auto/slices.*"}
    outside = Request(asked, Invocation(), Path())
    reruns = reruns_of(inventory, outside.remeasure, outside.noted)
    assert reruns.asked(study, "far") == {old, new, gone, confirming}
    unused = cast(Any, None)
    run_course.RunCourse(outside, inventory, unused, unused, reruns, unused, ["mine"])._note_asked()
    noted = Request({**asked, "batched": "far"}, Invocation(), Path()).noted
    assert noted is not None and noted.keys() == {old, new, confirming, str(later)}
    # In a job that goes on where an earlier one was ended.
    os.utime(new, (1000.0, 1000.0))
    assert reruns_of(inventory, outside.remeasure, noted).asked(study, "far") == {old, gone, confirming}
    # Within one second, on a file system that knows whole seconds alone.
    with Path(old).open("a") as again:
        again.write(" ")
    os.utime(old, (4e9, 4e9))
    assert reruns_of(inventory, outside.remeasure, noted).asked(study, "far") == {gone, confirming}


def test_it_is_known_before_where_confirming_rounds_are_measured(inventory: Inventory) -> None:
    study = inventory.study("mine")

    def measured(*made: str, remeasure: str = "") -> dict[str, bool | None]:
        again = reruns_of(inventory, remeasure)
        return {site: LaterRounds(inventory, again).confirms(study, site, made) for site in ("disk", "far")}

    anew = "results/mine/recommendation.json"
    # One layout of each site has all its records, and may be the only finalist.
    assert measured(LIST) == measured(LIST, anew) == {"disk": False, "far": False}
    assert measured(LIST, remeasure="far/auto/*.c0") == {"disk": False, "far": True}
    Path(WANTED[0]).unlink()
    assert measured(LIST) == {"disk": True, "far": False}
    # There may be no finalist.
    assert measured(LIST, anew) == {"disk": None, "far": False}
    assert measured(anew) == {"disk": False, "far": False}


def test_what_would_be_refused_of_confirming_rounds_is_so_before_anything_runs(
    inventory: Inventory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(study: PlannedStudy, measured: list[str], _: Inventory) -> None:
        raise ConfigurationError("sites.yaml", measured[0], "is another place now")

    monkeypatch.setattr(run_course, "check_room", refuse)
    batches, reruns = BatchJobs(inventory), reruns_of(inventory)
    cells, inputs = CellJobs(inventory, Path()), PageInputs(inventory, reruns)
    course = run_course.RunCourse(
        Request({}, Invocation(), Path()), inventory, cells, batches, reruns, inputs, ["mine"]
    )
    course._check([LIST], lambda _: True)
    Path(WANTED[0]).unlink()
    with pytest.raises(ConfigurationError, match="^sites.yaml: disk: is another place now$"):
        course._check([LIST], lambda _: True)
    course._check([LIST, "results/mine/recommendation.json"], lambda _: True)
    assert capsys.readouterr().err == (
        "hyperslab: mine: site disk: confirming rounds will be refused, should there be any: "
        "sites.yaml: disk: is another place now\n"
    )
