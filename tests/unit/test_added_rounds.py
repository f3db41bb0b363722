"""Added rounds: which comparisons are open, which cells they need, and how a run lists and misses them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from studies import BASE, changed, load, mistake

from hyperslab.claims.open_comparisons import (
    Comparison,
    candidates,
    comparisons,
    open_cells,
    rounds_by_cell,
    rounds_of,
)
from hyperslab.planning import due, slurm, targets
from hyperslab.planning.batch_jobs import BatchJobs
from hyperslab.planning.batches import Batch, parse
from hyperslab.planning.inventory import Inventory
from hyperslab.planning.page_inputs import PageInputs
from hyperslab.planning.progress import lines
from hyperslab.planning.reruns import Reruns
from hyperslab.planning.stages import Stage, listed
from hyperslab.results.measurements import without_leftovers
from hyperslab.sites.configuration import load_sites
from hyperslab.validation.errors import ConfigurationError

# ---- what a study may say

ADAPTIVE = {"first": 3, "most": 12}
SIDE = {"case": "slices", "state": "cold"}
CLAIM = {
    "sentence": "S.", "source": "D", "section": "T", "testability": "V",
    "comparisons": [
        {"says": "{m}: twice as fast", "a": {**SIDE, "layouts": "{m}by10"}, "b": {"layouts": "auto"},
         "below": 0.5, "for_all": {"m": [1, 2]}},
        {"says": "chunks", "a": {**SIDE, "layouts": "4x4x64", "of": "chunks"}, "equals": 16},
    ],
}  # fmt: skip


def test_rounds_are_a_number_or_as_many_as_decide(tmp_path: Path) -> None:
    plain = load(tmp_path, changed("rounds", 4)).study
    assert (plain.first_rounds, plain.most_rounds, plain.adaptive) == (4, 4, False)
    more = load(tmp_path, changed("rounds", ADAPTIVE)).study
    assert (more.first_rounds, more.most_rounds, more.adaptive) == (3, 12, True)


def test_no_cell_specifies_how_many_rounds_there_may_be(tmp_path: Path) -> None:
    plain = load(tmp_path, changed("rounds", 12)).hashes("main")
    assert load(tmp_path, changed("rounds", ADAPTIVE)).hashes("main") == plain


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"first": 3}, "rounds.most: this key is required"),
        ({"first": 2, "most": 5}, "rounds.first: should be greater than or equal to 3, not 2"),
        ({"first": 5, "most": 5}, "rounds: most should be more than first, not 5 beside 5"),
        ({"most": 5, "step": 2}, "rounds.step: unknown key; allowed are first, most"),
        ({"most": 5000}, "rounds.most: should be less than or equal to 1000, not 5000"),
        ([3, 12], "rounds: should be a valid integer"),
        ("many", "rounds: should be a valid integer, not 'many'"),
    ],
)
def test_a_mistake_in_rounds_is_one_of_the_form_that_is_given(tmp_path: Path, given: Any, said: str) -> None:
    assert mistake(tmp_path, changed("rounds", given)).startswith(said)


def test_rounds_are_not_added_for_nothing(tmp_path: Path) -> None:
    content = changed("rounds", ADAPTIVE)
    content["recommendation"] = {"confirm_rounds": 0}
    assert "there is nothing to decide" in mistake(tmp_path, content)
    assert load(tmp_path, {**content, "claims": {"1.1": CLAIM}}).study.adaptive


# ---- what is open


def judged(
    *verdicts: str, overall: str = "cannot tell", sites: tuple[str, ...] = ("disk",)
) -> dict[str, Any]:
    """The content of claims.json for CLAIM, with the verdicts on its two timed comparisons."""
    results = [{"verdict": verdict} for verdict in verdicts]
    told = [{"results": results}, {"results": [{"verdict": "cannot tell"}]}]
    verdict = {"sites": list(sites), "verdict": overall, "comparisons": told}
    return {"claims": [{"id": "1.1", "verdicts": [verdict]}]}


@pytest.fixture
def claims(tmp_path: Path) -> list[dict[str, Any]]:
    return load(tmp_path, {**changed("rounds", ADAPTIVE), "claims": {"1.1": CLAIM}}).claims


def test_what_a_claim_leaves_open_needs_both_sides_and_no_count(claims: list[dict[str, Any]]) -> None:
    found = comparisons(claims, judged("holds", "cannot tell"), None)
    assert [(one.says, one.open) for one in found] == [
        ("1.1: 1: twice as fast", False),
        ("1.1: 2: twice as fast", True),
    ]
    # The reference of both is measured once.
    assert open_cells(found) == {"disk": [("2by10", "slices"), ("auto", "slices")]}
    both = comparisons(claims, judged("cannot tell", "cannot tell"), None)
    assert open_cells(both)["disk"] == [("1by10", "slices"), ("2by10", "slices"), ("auto", "slices")]


def test_a_claim_that_is_decided_leaves_nothing_open(claims: list[dict[str, Any]]) -> None:
    found = comparisons(claims, judged("fails", "cannot tell", overall="fails"), None)
    assert len(found) == 2
    assert open_cells(found) == {}
    untested = judged("cannot tell", "cannot tell", overall="cannot be tested")
    assert comparisons(claims, untested, None) == []


def test_a_claim_of_which_one_is_enough_may_be_open_though_each_is_decided(
    claims: list[dict[str, Any]],
) -> None:
    assert len(open_cells(comparisons(claims, judged("fails", "fails"), None))["disk"]) == 3


def test_a_claim_across_sites_needs_cells_at_both(claims: list[dict[str, Any]]) -> None:
    found = comparisons(claims, judged("cannot tell", "holds", sites=("disk", "memory")), None)
    assert open_cells(found) == {"disk": [("1by10", "slices")], "memory": [("auto", "slices")]}


def ranked(
    layout: str, low: float | None, high: float | None, tied: bool, fits: bool = True
) -> dict[str, Any]:
    return {"layout": layout, "low": low, "high": high, "tied": tied, "fits": fits}


def test_a_pick_is_open_against_what_cannot_be_told_from_it_and_is_not_as_fast() -> None:
    site = {
        "site": "disk", "best": "a", "shares": {"slices cold": 0.5, "spectra cold": 0.5},
        "ranking": [
            ranked("a", None, None, tied=True),
            ranked("near", 0.9, 1.3, tied=True),
            ranked("as-fast", 0.97, 1.04, tied=True),
            ranked("slower", 1.2, 1.5, tied=False),
            ranked("large", None, None, tied=False, fits=False),
        ],
    }  # fmt: skip
    found = comparisons([], {"claims": []}, {"sites": [site]})
    assert {one.says: one.open for one in found} == {
        "a against near": True, "a against as-fast": False, "a against slower": False,
    }  # fmt: skip
    cells = [("a", "slices"), ("a", "spectra"), ("near", "slices"), ("near", "spectra")]
    assert open_cells(found) == {"disk": cells}
    nothing = {**site, "best": None, "ranking": []}
    assert comparisons([], {"claims": []}, {"sites": [nothing]}) == []


def test_a_comparison_has_the_rounds_that_all_its_cells_have() -> None:
    import pandas as pd

    rows = [("disk", "a", "slices", number) for number in range(5)]
    rows += [("disk", "b", "slices", number) for number in (0, 1, 2, 4)]
    table = pd.DataFrame(rows * 2, columns=["site", "layout", "case", "round"])
    both = Comparison("a against b", (("disk", "a", "slices"), ("disk", "b", "slices")), True)
    assert rounds_of(both, rounds_by_cell(table)) == 4
    assert rounds_of(Comparison("", (("disk", "c", "slices"),), True), rounds_by_cell(table)) == 0


def test_only_what_can_be_open_at_all_can_be_added(tmp_path: Path) -> None:
    content = {
        **changed("rounds", ADAPTIVE),
        "claims": {"1.1": CLAIM},
        "recommendation": {"confirm_rounds": 0},
    }
    claimed = {("1by10", "slices"), ("2by10", "slices"), ("auto", "slices")}
    assert load(tmp_path, content).can_be_added("disk") == claimed
    assert candidates(load(tmp_path, content).claims, []) == claimed
    content["recommendation"] = {"confirm_rounds": 1}
    everything = load(tmp_path, content).can_be_added("disk")
    assert {case for _, case in everything} == {"slices"}, "nobody recommends by a write that has no weight"
    assert len({layout for layout, _ in everything}) == 7
    assert load(tmp_path, {**content, "rounds": 3}).can_be_added("disk") == set()


def test_stale_rounds_that_nobody_adds_any_more_are_no_rows() -> None:
    import pandas as pd

    rows = [
        ("disk", layout, "slices", number, stale)
        for layout in ("a", "b")
        for number in (0, 3)
        for stale in (True, False)
    ]
    table = pd.DataFrame(rows, columns=["site", "layout", "case", "round", "stale"])
    added = {"first": 3, "wanted": ["results/mine/cells/disk/a/slices.r3.json"]}
    kept = set(without_leftovers(table, added).itertuples(index=False, name=None))
    assert set(rows) - kept == {("disk", "b", "slices", 3, True)}


# ---- how a run knows of them

SITES = """
platforms: {cluster: {executor: slurm, minutes: 60}}
file_systems: {disk: {root: testfiles}, far: {root: far}}
sites: {disk: {file_system: disk}, far: {platform: cluster, file_system: far}}
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
    made.concurrency = lambda site: 2  # type: ignore[method-assign]
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
    assert found[1] == "my_study"


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


def test_a_dry_run_says_the_least_and_the_most(inventory: Inventory, tmp_path: Path) -> None:
    study = inventory.study("mine")

    def said() -> dict[str, str]:
        jobs = BatchJobs(inventory)
        found = lines(inventory, jobs, Reruns(inventory, jobs, ""), ["mine"], dry_run=True)
        return {line.split(": ")[1]: line for line in found}

    # 7 layouts, two cases, three rounds, and two added ones; then read cases in nine further rounds.
    assert "site disk: 44 cells to measure (0 there)" in said()["site disk"]
    assert "then at most 61 cells in rounds 4 to 12, as far as comparisons are open" in said()["site disk"]
    touch(inventory.records_of(study, "disk"))
    assert "2 cells to measure (42 there)" in said()["site disk"]
    added = [record for site in ("disk", "far") for record in inventory.records_of(study, site, "added")]
    write(tmp_path, [STAGE], study.deciding, added)
    touch(inventory.records_of(study, "disk", "added"))
    assert "0 cells to measure (44 there)" in said()["site disk"]
    assert "then at most 61" in said()["site disk"], "the other site lacks records, so that it looks again"
    touch(inventory.records_of(study, "far") + inventory.records_of(study, "far", "added"))
    assert "then" not in said()["site disk"]


def test_what_is_due_tells_added_cells(inventory: Inventory) -> None:
    record = Path("results/mine/cells/disk/auto/slices.r4.json")
    touch([str(record)])
    study = inventory.study("mine")
    assert due.changed(study, "disk", [record], inventory) == [("auto", "slices", "r4")]
    marker = Path("results/mine/batches/far/a1r0of2.json")
    touch(["results/mine/cells/far/1by10/slices.r3.json"])
    assert due.changed(study, "far", [marker], inventory) == [("1by10", "slices", "r3")]


def test_a_target_may_be_of_an_added_round(inventory: Inventory) -> None:
    targets.check(["results/mine/cells/disk/auto/slices.r11.json"], inventory)
    with pytest.raises(ConfigurationError, match="the study has at most 12 rounds, counted from 0"):
        targets.check(["results/mine/cells/disk/auto/slices.r12.json"], inventory)
