"""Added rounds as a run knows them: listed in stages, shared among batches, missed, and foretold."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from studies import BASE

from hyperslab.measuring import fork_server
from hyperslab.planning import due, run_course, slurm, targets
from hyperslab.planning.batch_jobs import BatchJobs
from hyperslab.planning.batches import Batch, parse
from hyperslab.planning.inventory import Inventory
from hyperslab.planning.invocation import Invocation
from hyperslab.planning.later_rounds import LaterRounds
from hyperslab.planning.page_inputs import PageInputs
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.planning.progress import planned
from hyperslab.planning.request import Request
from hyperslab.planning.reruns import Reruns
from hyperslab.planning.run_configuration import checked
from hyperslab.planning.run_course import RunCourse
from hyperslab.planning.stages import Stage, listed
from hyperslab.sites import roots
from hyperslab.sites.configuration import load_sites
from hyperslab.validation.errors import ConfigurationError

ADAPTIVE = {"first": 3, "most": 12}


SITES = """
platforms: {cluster: {executor: slurm, minutes: 60}}
file_systems: {disk: {root: testfiles}, far: {root: far}}
sites: {disk: {file_system: disk}, far: {platform: cluster, file_system: far, concurrency: 2}}
"""
STAGE = {
    "rounds": [3, 5],
    "cells": {"disk": [["auto", "slices"]], "far": [["1by10", "slices"], ["gone", "slices"]]},
}


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inventory:
    """A project with the study `mine` on a disk and on a cluster, of which two rounds have been added."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config/studies").mkdir(parents=True)
    (tmp_path / "config/sites.yaml").write_text(SITES, encoding="utf-8")
    study = {**yaml.safe_load(BASE), "sites": ["disk", "far"], "rounds": ADAPTIVE}
    (tmp_path / "config/studies/mine.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    made = Inventory(
        tmp_path, load_sites(tmp_path / "config/sites.yaml"), tmp_path / "config/sites.yaml", {}, ""
    )
    write(tmp_path, [STAGE], made.study("mine").deciding)
    return made


def write(directory: Path, stages: list[dict[str, Any]], deciding: str, records: Iterable[str] = ()) -> Path:
    """A rounds.json, made when there were these records of stages."""
    file = directory / "results/mine/rounds.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        json.dumps({"deciding": deciding, "stages": stages, "records": list(records)}), encoding="utf-8"
    )
    return file


def touch(records: list[str]) -> None:
    for record in records:
        Path(record).parent.mkdir(parents=True, exist_ok=True)
        Path(record).touch()


def reruns_of(inventory: Inventory, remeasure: str = "") -> Reruns:
    return Reruns(inventory, BatchJobs(inventory), remeasure)


def test_stages_are_phases_of_their_own_and_rounds_count_on(inventory: Inventory) -> None:
    study = inventory.study("mine")
    assert {cell[2] for cell in inventory.cells(study, "disk", "main")} == {"r0", "r1", "r2"}
    added = [("auto", "slices", "r3"), ("auto", "slices", "r4")]
    assert inventory.cells(study, "disk", "a1") == inventory.cells(study, "disk", "added") == added
    # A layout that the study has no longer is none of its cells.
    assert inventory.cells(study, "far", "a1") == [("1by10", "slices", "r3"), ("1by10", "slices", "r4")]
    assert inventory.cells(study, "far", "a2") == []
    # The tables take every round that there may be.
    assert "results/mine/cells/disk/4x4x64/write.r11.json" in inventory.all_records(study)
    assert Stage(2, 5, 8, {}).phase == "a2"


def test_a_list_of_other_rounds_adds_nothing(inventory: Inventory, tmp_path: Path) -> None:
    study = inventory.study("mine")
    write(tmp_path, [STAGE, {"rounds": [5, 13], "cells": {}}], "")
    assert [stage.end for stage in inventory.stages(study)] == [5]
    (tmp_path / "results/mine/rounds.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"rounds.json: cannot be read .* delete it"):
        inventory.stages(study)
    (tmp_path / "results/mine/rounds.json").unlink()
    assert listed(tmp_path / "results/mine/rounds.json") == []


@pytest.mark.parametrize(
    ("name", "phase"), [("r0of2", "main"), ("c1of2", "confirm"), ("a1r0of2", "a1"), ("a12r3of4", "a12")]
)
def test_the_name_of_a_batch_tells_its_phase(name: str, phase: str) -> None:
    assert parse(name).phase == phase
    assert parse(name).name == name
    found = slurm.BATCH_COMMENT.match(f"rule_batch_far_wildcards_my_study_{name}")
    assert found is not None
    assert (found["study"], found["batch"]) == ("my_study", name)


@pytest.mark.parametrize("name", ["a1of2", "ar0of2", "a1r0", "b0of2", "r0of2x"])
def test_no_other_name_is_a_batch(name: str) -> None:
    with pytest.raises(ValueError, match="is not a batch"):
        parse(name)


def test_a_stage_is_shared_among_batches_that_know_their_cells(inventory: Inventory) -> None:
    study, jobs = inventory.study("mine"), BatchJobs(inventory)
    assert jobs.of("mine", "far", "a1") == [Batch("a1", 0, 2), Batch("a1", 1, 2)]
    markers = ["results/mine/batches/far/a1r0of2.json", "results/mine/batches/far/a1r1of2.json"]
    assert jobs.markers(study, "far", "a1") == markers
    # As the Snakemake inside a batch's job asks for them.
    assert jobs.records(study, "far", "a1r1of2") == ["results/mine/cells/far/1by10/slices.r4.json"]
    first, second = (jobs.digest(SimpleNamespace(study="mine", batch=f"a1r{n}of2"), "far") for n in (0, 1))
    assert first != second
    # The run inside the one that adds rounds waits for these, and for the records of this machine.
    waited = PageInputs(inventory, reruns_of(inventory)).table("mine", "a1")
    assert waited == [*(f"results/mine/cells/disk/auto/slices.r{n}.json" for n in (3, 4)), *markers]


def test_the_tables_wait_for_the_first_rounds_and_for_the_list(inventory: Inventory) -> None:
    inputs = PageInputs(inventory, reruns_of(inventory))
    assert not any(".r3." in record for record in inputs.table("mine"))
    assert inputs.added("mine") == "results/mine/rounds.json"
    assert inputs.report("mine")["rounds"] == "results/mine/rounds.json"


def test_a_report_is_told_of_sites_that_were_left_out(inventory: Inventory, tmp_path: Path) -> None:
    study = {**yaml.safe_load(BASE), "sites": "all"}
    (tmp_path / "config/studies/open.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    inputs = PageInputs(inventory, reruns_of(inventory))

    def told(name: str) -> Any:
        return inputs.meta(name).get("without_results")

    assert told("mine") is None and told("open") is None
    inventory.left_out["far"] = "no cluster here"
    assert told("mine") == told("open") == ["far"]
    # Of this record alone not all is missing, and the cells that are missing are listed.
    touch(inventory.records_of(inventory.study("mine"), "far")[:1])
    assert told("mine") is None


def test_what_was_measured_at_all_sites_of_others_lacks_none_of_these(
    inventory: Inventory, tmp_path: Path
) -> None:
    study = {**yaml.safe_load(BASE), "sites": "all"}
    (tmp_path / "config/studies/open.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    inventory.left_out |= dict.fromkeys(inventory.sites, "measure=false")
    touch(["results/open/cells/theirs/auto/slices.r0.json"])
    inputs = PageInputs(inventory, reruns_of(inventory))
    assert "without_results" not in inputs.meta("open")
    assert inputs.meta("mine")["without_results"] == ["disk", "far"]


def test_the_list_is_made_again_where_a_record_is_gone_or_the_study_decides_otherwise(
    inventory: Inventory, tmp_path: Path
) -> None:
    study, file = inventory.study("mine"), "results/mine/rounds.json"
    assert file in reruns_of(inventory).forced(["mine"])
    added = {site: inventory.records_of(study, site, "added") for site in ("disk", "far")}
    for site, records in added.items():
        touch(inventory.records_of(study, site) + records)
    everything = [record for records in added.values() for record in records]
    write(tmp_path, [STAGE], study.deciding, everything)
    assert file not in reruns_of(inventory).forced(["mine"])
    # Of a site that this run does not reach it tells only what has changed since.
    inventory.left_out["far"] = "no cluster here"
    Path(added["far"][0]).unlink()
    assert file in reruns_of(inventory).forced(["mine"])
    write(tmp_path, [STAGE], study.deciding, [*added["disk"], *added["far"][1:]])
    assert file not in reruns_of(inventory).forced(["mine"])
    del inventory.left_out["far"]
    assert file in reruns_of(inventory).forced(["mine"])
    touch(added["far"])
    write(tmp_path, [STAGE], study.deciding, everything)
    again = reruns_of(inventory, "disk/auto/slices.r4")
    assert {file, "results/mine/cells/disk/auto/slices.r4.json"} <= again.forced(["mine"])
    again.check(["mine"])
    # In the run inside, the batch that has it.
    assert "results/mine/batches/far/a1r1of2.json" in reruns_of(inventory, "far/*.r4").forced(["mine"])
    write(tmp_path, [STAGE], "another study")
    assert file in reruns_of(inventory).forced(["mine"])


def counted(monkeypatch: pytest.MonkeyPatch, standing: str = "today") -> None:
    """What is there counts as measured by today's study, or as what is said of it."""
    monkeypatch.setattr(
        PlannedStudy, "standing", lambda self, record, cell: standing if Path(record).exists() else "stale"
    )


def test_a_dry_run_says_the_least_and_the_most(
    inventory: Inventory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted(monkeypatch)
    study = inventory.study("mine")
    again: list[str] = inventory.all_records(study)

    def said() -> dict[str, str]:
        jobs = BatchJobs(inventory)
        made = ["results/mine/rounds.json", *again]
        found = planned(inventory, jobs, Reruns(inventory, jobs, ""), ["mine"], made)
        return {line.split(": ")[1]: line for line in found}

    # 7 layouts, two cases, three rounds, and two added ones; then read cases in nine further rounds.
    assert "site disk: 44 cells to measure (0 there)" in said()["site disk"]
    assert "then at most 61 cells in rounds 4 to 12, as far as comparisons are open" in said()["site disk"]
    touch(inventory.records_of(study, "disk"))
    assert "2 cells to measure (42 there)" in said()["site disk"]
    added = [record for site in ("disk", "far") for record in inventory.records_of(study, site, "added")]
    write(tmp_path, [STAGE], study.deciding, added)
    touch(inventory.records_of(study, "disk", "added"))
    assert "0 cells to measure (44 there); then" in said()["site disk"], "nothing takes no time"
    assert "then at most 61" in said()["site disk"], "the other site lacks records, so that it looks again"
    touch(inventory.records_of(study, "far") + inventory.records_of(study, "far", "added"))
    again.clear()
    assert all(line.endswith(": 0 cells to measure (44 there)") for line in said().values())
    # A study that changes makes all of them anew, added ones, too.
    again += inventory.records_of(study, "disk")
    counted(monkeypatch, "stale")
    assert "then at most 63 cells in rounds 4 to 12" in said()["site disk"]


def test_a_dry_run_counts_what_is_asked_for(inventory: Inventory) -> None:
    jobs = BatchJobs(inventory)

    def said(*made: str) -> list[str]:
        return list(planned(inventory, jobs, Reruns(inventory, jobs, ""), ["mine"], made))

    one = "results/mine/cells/%s/auto/slices.r0.json"
    here, there = said(one % "disk")
    assert "mine: site disk: 1 cell to measure (0 there), " in here and "then" not in here
    assert there == "mine: site far: 0 cells to measure (0 there)"
    assert said(one % "far")[1].endswith(", in 1 Slurm job of at most 1 h 0 min"), "there are two"
    # The added rounds that are listed, and further ones, come with the list.
    here, _ = said("results/mine/rounds.json")
    assert "mine: site disk: 2 cells to measure (0 there), " in here and "; then at most " in here


def test_a_dry_run_says_what_the_page_of_a_claim_may_add(inventory: Inventory, tmp_path: Path) -> None:
    told = {"sentence": "It is fast.", "source": "D", "section": "S", "testability": "V"}
    side = {"layouts": "auto", "case": "slices", "state": "cold"}
    claim = {**told, "comparisons": [{"says": "less than a minute", "a": side, "below": 60}]}
    study = {**yaml.safe_load(BASE), "sites": ["disk", "far"], "rounds": ADAPTIVE, "claims": {"1.1": claim}}
    (tmp_path / "config/studies/claimed.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    jobs = BatchJobs(inventory)
    made = ["results/claimed/claims/1.1.rounds.json", "results/claimed/cells/disk/auto/slices.r0.json"]
    here, _ = planned(inventory, jobs, Reruns(inventory, jobs, ""), ["claimed"], made)
    assert "claimed: site disk: 1 cell to measure (0 there), " in here
    assert "; then at most 9 cells in rounds 4 to 12, " in here
    planned_study = inventory.study("claimed")
    later = LaterRounds(inventory, Reruns(inventory, jobs, ""))
    assert later.adds(planned_study, "disk", made) is None
    assert later.adds(planned_study, "disk", made[1:]) is False


def test_what_is_due_tells_added_cells(inventory: Inventory) -> None:
    record = Path("results/mine/cells/disk/auto/slices.r4.json")
    touch([str(record)])
    study = inventory.study("mine")
    assert due.changed(study, "disk", [record], inventory, lambda _: False) == [("auto", "slices", "r4")]
    marker = Path("results/mine/batches/far/a1r0of2.json")
    touch(["results/mine/cells/far/1by10/slices.r3.json"])
    assert due.changed(study, "far", [marker], inventory, lambda _: True) == [("1by10", "slices", "r3")]
    # Of what came in a pack Snakemake sees no change, so that its batch does not measure it again.
    assert due.changed(study, "far", [marker], inventory, lambda _: False) == []


def test_what_is_forced_is_announced(inventory: Inventory, monkeypatch: pytest.MonkeyPatch) -> None:
    counted(monkeypatch)
    record = "results/mine/cells/disk/auto/slices.r0.json"
    touch([record])
    made = due.of_outputs([record, "results/mine/batches/far/r0of2.json"])
    (line,) = due.lines(made, inventory, lambda _: True, lambda *_: [])
    assert "mine: site disk: 1 cell to measure again because of an option such as --forcerun, " in line
    # What is asked for by name is said before.
    assert not list(due.lines(made, inventory, lambda _: True, lambda *_: [record]))


def test_how_far_a_run_is_counts_what_it_measures(inventory: Inventory, tmp_path: Path) -> None:
    jobs, unused = BatchJobs(inventory), cast(Any, None)
    asked = Request({}, Invocation(), tmp_path)
    course = RunCourse(asked, inventory, unused, jobs, reruns_of(inventory), unused, ["mine"])
    one, there = (f"results/mine/cells/disk/auto/slices.r{number}.json" for number in (0, 1))
    touch([there])
    # As where one cell is asked for: the others are not waited for, nor are confirming rounds.
    course._outputs = [one]
    course._due = due.of_outputs(course._outputs)
    assert list(course._awaited()) == [("mine", [one, there], 0)]
    course._outputs = ["results/mine/confirmation.json"]
    # Five finalists at two sites, in one case and three rounds.
    assert [later for _, _, later in course._awaited()] == [30]


def test_a_run_looks_at_the_roots_alone_at_which_it_measures(
    inventory: Inventory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server of another one may be away, and whoever looks there waits for it."""
    inventory.sites["away"] = {**inventory.sites["disk"], "name": "away", "root": "/away"}
    monkeypatch.setattr(roots, "identity_of", lambda root: f"that of {root}")
    jobs, unused = BatchJobs(inventory), cast(Any, None)
    asked = Request({}, Invocation(), tmp_path)
    course = RunCourse(asked, inventory, unused, jobs, reruns_of(inventory), unused, ["mine"])
    course._due = due.of_outputs(["results/mine/cells/disk/auto/slices.r0.json"])
    root = inventory.sites["disk"]["root"]
    assert course._identities() == {root: f"that of {root}"}


def measured_everywhere(inventory: Inventory, directory: Path) -> dict[str, list[str]]:
    """All records of the study `mine` and their list are there; returns those of added rounds by site."""
    study = inventory.study("mine")
    added = {site: inventory.records_of(study, site, "added") for site in ("disk", "far")}
    for site, records in added.items():
        touch(inventory.records_of(study, site) + records)
    write(directory, [STAGE], study.deciding, [record for records in added.values() for record in records])
    return added


def test_it_is_known_before_where_rounds_are_added(
    inventory: Inventory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted(monkeypatch)
    study, file = inventory.study("mine"), "results/mine/rounds.json"
    added = measured_everywhere(inventory, tmp_path)

    def adds(*made: str, remeasure: str = "") -> dict[str, bool | None]:
        again = reruns_of(inventory, remeasure)
        return {site: LaterRounds(inventory, again).adds(study, site, made) for site in ("disk", "far")}

    assert adds(file) == {"disk": False, "far": False}
    # What is listed is measured; and after another look, there may be more.
    assert adds(file, remeasure="far/*.r4") == {"disk": None, "far": True}
    Path(added["disk"][0]).unlink()
    assert adds(file) == {"disk": True, "far": None}
    assert adds() == {"disk": False, "far": False}
    # First rounds that are measured again may leave open what was decided.
    for first in (inventory.records_of(study, "far")[0], "results/mine/batches/far/r0of2.json"):
        assert adds(file, first) == {"disk": None, "far": None}
    write(tmp_path, [STAGE], "another study")
    assert adds(file) == {"disk": None, "far": None}
    Path(file).unlink()
    assert adds(file) == {"disk": None, "far": None}


def test_what_would_be_refused_of_added_rounds_is_so_before_anything_runs(
    inventory: Inventory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(study: PlannedStudy, measured: list[str], _: Inventory) -> None:
        raise ConfigurationError("sites.yaml", measured[0], "is another place now")

    monkeypatch.setattr(run_course, "check_room", refuse)
    counted(monkeypatch)
    added = measured_everywhere(inventory, tmp_path)
    jobs, unused, made = BatchJobs(inventory), cast(Any, None), "results/mine/rounds.json"
    asked = Request({}, Invocation(), tmp_path)
    course = RunCourse(asked, inventory, unused, jobs, reruns_of(inventory), unused, ["mine"])
    course._check([made], lambda _: True)
    Path(added["disk"][0]).unlink()
    with pytest.raises(ConfigurationError, match="^sites.yaml: disk: is another place now$"):
        course._check([made], lambda _: True)
    Path(made).unlink()
    course._check([made], lambda _: True)
    assert capsys.readouterr().err == "".join(
        f"hyperslab: mine: site {site}: added rounds will be refused, should there be any: "
        f"sites.yaml: {site}: is another place now\n"
        for site in ("disk", "far")
    )


def test_a_run_that_measures_begins_a_server_unless_it_is_inside_one_that_has(
    inventory: Inventory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unused, workflow = cast(Any, None), SimpleNamespace(deployment_settings=SimpleNamespace())
    workflow.deployment_settings.deployment_method = set()

    def begins(*made: str, target: str = "all", **config: str) -> bool:
        asked = Request({"fork": True, **config}, Invocation(targets=(target,)), tmp_path)
        batches, reruns = BatchJobs(inventory), reruns_of(inventory)
        course = RunCourse(asked, inventory, unused, batches, reruns, unused, ["mine"])
        course._due = due.of_outputs(made)
        return course._begins_server(workflow)

    cell = "results/mine/cells/disk/auto/slices.c0.json"
    monkeypatch.delenv(fork_server.VARIABLE, raising=False)
    assert not begins("results/mine/report.html")
    assert begins(cell) and begins(cell, target="confirming_cells")
    monkeypatch.setenv(fork_server.VARIABLE, "that of the run around it")
    assert begins(cell) and not begins(cell, target="confirming_cells")
    # That of a job on a cluster listens on the node where Snakemake was started.
    assert begins(cell, target="added_cells", stage="1", batched="far")


def test_a_target_may_be_of_an_added_round(inventory: Inventory) -> None:
    targets.check(["results/mine/cells/disk/auto/slices.r11.json"], inventory)
    with pytest.raises(ConfigurationError, match="the study has at most 12 rounds, counted from 0"):
        targets.check(["results/mine/cells/disk/auto/slices.r12.json"], inventory)


def test_a_run_inside_another_is_told_its_stage(tmp_path: Path) -> None:
    def asked(target: str, **config: Any) -> Request:
        return Request({"study": "mine", **config}, Invocation(targets=(target,)), tmp_path)

    adding = asked("added_cells", stage="2")
    assert (adding.phase, adding.inner) == ("a2", True)
    assert (asked("confirming_cells").phase, asked("confirming_cells").inner) == ("confirm", True)
    assert (asked("all").phase, asked("all").inner) == ("main", False)
    # The page of all claims measures nothing, nor does what runs inside for its sake.
    assert asked("results/claims.html", measure=True).forwarded["measure"] is False
    assert asked("all", measure=True).forwarded["measure"] is True
    given = {"study": "mine", "stage": 2}
    assert checked(given, ())["stage"] == "2"
