"""Targets of a run: however they are spelt they are of their study, and of no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from studies import BASE

from hyperslab.planning import targets
from hyperslab.planning.inventory import Inventory
from hyperslab.sites.configuration import load_sites
from hyperslab.validation.errors import ConfigurationError

SITES = """
platforms: {cluster: {executor: slurm}}
file_systems: {disk: {root: testfiles}, far: {root: /far}}
sites: {disk: {file_system: disk}, far: {platform: cluster, file_system: far}}
"""
CLAIM = {
    "sentence": "S.",
    "source": "D",
    "section": "T",
    "testability": "V",
    "comparisons": [
        {
            "says": "a",
            "a": {"layouts": "auto", "case": "slices"},
            "b": {"layouts": "contiguous"},
            "below": 1,
        }
    ],
}


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inventory:
    """A project with the study `mine` on a disk and on a cluster that this run cannot reach."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config/studies").mkdir(parents=True)
    (tmp_path / "config/sites.yaml").write_text(SITES, encoding="utf-8")
    study = {**yaml.safe_load(BASE), "sites": ["disk", "far"], "claims": {"000.1": CLAIM}}
    (tmp_path / "config/studies/mine.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    sites = load_sites(tmp_path / "config/sites.yaml")
    return Inventory(tmp_path, sites, tmp_path / "config/sites.yaml", {"far": "no cluster here"}, "")


@pytest.mark.parametrize(
    "spelling",
    ["results/mine/x", "./results/mine/x", "results//mine/x", "results/./mine/x/", "a/../results/mine/x"],
)
def test_a_target_is_of_its_study_however_it_is_spelt(spelling: str) -> None:
    assert targets.spelt(spelling) == "results/mine/x"
    assert targets.studies([targets.spelt(spelling)], "quick") == ["mine"]


def test_an_absolute_target_is_of_its_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert targets.spelt(f"{tmp_path}/results/mine/x") == "results/mine/x"


def test_the_default_study_is_made_only_where_it_is_asked_for() -> None:
    assert targets.studies([], "quick") == ["quick"]
    assert targets.studies(["all"], "quick") == ["quick"]
    assert targets.studies(["results/mine/x", "all"], "quick") == ["mine", "quick"]
    assert targets.studies([targets.spelt("claims_page")], "quick") == []
    assert targets.studies([".venv-mpi/made-from.lock"], "quick") == []


def test_both_pages_of_all_claims_are_one_target() -> None:
    assert targets.spelt("results/claims.md") == targets.spelt("claims_page") == "results/claims.html"
    assert targets.studies([targets.spelt("./results/claims.md")], "quick") == []


@pytest.mark.parametrize(
    "target",
    [
        "report",
        "summarise",
        "mine",
        "results",
        "results/mine",
        "config/x",
        "/x/y",
        "testfiles/mine/auto/slices.r0",
    ],
)
def test_a_target_of_no_study_is_refused(target: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        targets.studies([target], "quick")
    assert str(error.value) == (
        f"{target}: there is no such target; a target is a file, such as results/quick/report.html, or the "
        "rule all"
    )


GOOD = (
    "results/mine/report.html",
    "results/mine/cells/disk/auto/slices.r2.json",
    "results/mine/cells/disk/1by10/write.r0.json",
    "results/mine/cells/disk/auto/slices.c2.json",
    "results/mine/figures/disk/session-slices.svg",
    "results/mine/claims/000.1.html",
    "results/claims.html",
)
WRONG = {
    "results/mind/report.html": "there is no such study; there are mine",
    "results/mine/cells/dsk/auto/slices.r0.json": "no site 'dsk' in this study; it has disk, far",
    "results/mine/cells/far/auto/slices.r0.json": "site far is left out (no cluster here)",
    "results/mine/cells/disk/auto/slice.r0.json": "no case 'slice' in this study; it has slices, write",
    "results/mine/cells/disk/aut/slices.r0.json": "no layout 'aut' in this case; it has ",
    "results/mine/cells/disk/auto/slices.r3.json": "the study has 3 rounds, counted from 0",
    "results/mine/cells/disk/auto/slices.r00.json": "there is no such record",
    "results/mine/cells/disk/auto/slices.c3.json": "the study has 3 confirming rounds, counted from 0",
    "results/mine/cells/disk/auto/slices.json": "there is no such record; one is cells/SITE/LAYOUT/",
    "results/mine/cells/disk/auto": "there is no such record",
    "results/mine/figures/disk/session-slice.svg": "no figure 'session-slice' of this site; it has ",
    "results/mine/figures/dsk/sizes.svg": "no site 'dsk'",
    "results/mine/figures/disk/sizes.png": "there is no such figure; one is figures/SITE/NAME.svg",
    "results/mine/claims/000.2.html": "no claim '000.2' that is tested in this study; it has 000.1",
    "results/mine/claims/000.1.json": "there is no such page; one is claims/CLAIM.html",
    "results/mine/advice.html": "this study asks for no advice; make advise FILE=",
    "results/mine/batches/disk/r0of1.json": "site disk is not measured in batches by this run",
}


@pytest.mark.parametrize("target", GOOD)
def test_a_target_that_there_can_be(inventory: Inventory, target: str) -> None:
    targets.check([target], inventory)


@pytest.mark.parametrize("target", WRONG)
def test_a_target_that_there_cannot_be_is_one_line(inventory: Inventory, target: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        targets.check([target], inventory)
    text = str(error.value)
    assert text.splitlines() == [text]
    assert f": {WRONG[target]}" in text


def test_a_result_that_no_rule_makes_is_refused_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    targets.check_names([*GOOD, "results/mine/donor.0123.npy", "results/mine/layout/recommended.h5", "all"])
    with pytest.raises(ConfigurationError) as error:
        targets.check_names(["results/mine/raport.html"])
    assert str(error.value).startswith(
        "results/mine/raport.html: there is no such result of a study; there are"
    )
    assert "report.html" in str(error.value)
    # What is there is asked for in vain, and no mistake.
    Path("results/mine").mkdir(parents=True)
    Path("results/mine/raport.html").touch()
    targets.check_names(["results/mine/raport.html"])


def test_results_are_what_rules_make(pytestconfig: pytest.Config) -> None:
    rules = "".join(file.read_text("utf-8") for file in (pytestconfig.rootpath / "rules").glob("*.smk"))
    made = set(re.findall(r'"results/\{study\}/([\w.-]+)"', rules))
    # Advice writes it before any rule runs.
    assert made - {"prediction.json"} == set(targets.FILES)


SUBMITTED = {
    "cells/far/auto/slices.r0.json": "site far is measured in batches, not cell by cell; ask for "
    "results/mine/report.html, with --config remeasure=far/auto/slices.r0 where it was measured before",
    "batches/far/foo.json": "no batch 'foo' of site far; it has r0of1",
    "batches/far/r9of2.json": "no batch 'r9of2' of site far; it has r0of1",
    "batches/far/c0of1.json": "no batch 'c0of1' of site far; it has r0of1",
    "batches/far/r0of1.txt": "there is no such batch; one is batches/SITE/BATCH.json",
}


@pytest.mark.parametrize("target", SUBMITTED)
def test_what_jobs_of_batches_do_not_make_is_refused(inventory: Inventory, target: str) -> None:
    inventory.left_out.clear()
    with pytest.raises(ConfigurationError) as error:
        targets.check([f"results/mine/{target}"], inventory)
    assert str(error.value) == f"results/mine/{target}: {SUBMITTED[target]}"


def test_what_jobs_of_batches_make_and_what_is_there_is_no_mistake(inventory: Inventory) -> None:
    inventory.left_out.clear()
    record = Path("results/mine/cells/far/auto/slices.r0.json")
    record.parent.mkdir(parents=True)
    record.touch()
    targets.check(["results/mine/batches/far/r0of1.json", str(record)], inventory)


def test_beside_the_page_of_claims_only_the_studies_named_are_measured(inventory: Inventory) -> None:
    both = [targets.spelt("results/mine/report.html"), targets.spelt("claims_page")]
    targets.check(both, inventory)
    assert targets.studies(both, "quick") == ["mine"]
    assert not inventory.leaves_out("other", "disk")
    assert inventory.leaves_out("mine", "far")
    inventory.measured = frozenset(["mine"])
    assert inventory.leaves_out("other", "disk")
    assert not inventory.leaves_out("mine", "disk")
    assert re.fullmatch(inventory.measured_pattern, "mine")
    assert not re.fullmatch(inventory.measured_pattern, "other")
    inventory.measured = frozenset()
    assert not re.match(inventory.measured_pattern, "mine")


def test_a_site_that_a_rewritten_file_cannot_follow(inventory: Inventory) -> None:
    targets.check(["results/mine/layout/recommended.h5"], inventory, "far")
    with pytest.raises(
        ConfigurationError, match="--config: site: no site 'dsk' in study mine; it has disk, far"
    ):
        targets.check(["results/mine/layout/recommended.h5"], inventory, "dsk")


@pytest.mark.parametrize("site", ["disk", "node"])
def test_where_nothing_is_measured_sites_need_no_description(inventory: Inventory, site: str) -> None:
    """A pack of a study at several sites may have results of some alone: its report needs nobody's file."""
    del inventory.sites["far"]
    study = inventory.study("mine")
    (record := Path(f"results/mine/cells/{site}/auto/slices.r0.json")).parent.mkdir(parents=True)
    record.touch()
    with pytest.raises(ConfigurationError, match="sites: no site 'far'; .* has disk"):
        inventory.sites_of(study)
    directory, sites, file = inventory.directory, inventory.sites, inventory.sites_file
    here = Inventory(directory, sites, file, {"disk": "measure=false"}, "")
    here.all_described = False
    assert here.sites_of(here.study("mine")) == ["disk", "far"]
    assert here.leaves_out("mine", "far") and here.without_results(here.study("mine"))[-1] == "far"
    # What has no results at all is checked as ever.
    record.unlink()
    again = Inventory(directory, sites, file, {}, "")
    again.all_described = False
    with pytest.raises(ConfigurationError, match="sites: no site 'far'"):
        again.sites_of(again.study("mine"))
