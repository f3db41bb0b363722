"""Only what changed runs again: each change, and the jobs that a dry run then plans."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from clones import REPORT, TINY, Clone

# One job draws session, ramp, sizes, writes and counts (`tiny` has no grid and no trade-off), one the score.
FIGURES, SCORE = "figures_tiny@disk", "score_figure_tiny@disk"


def changed(**top: Any) -> dict[str, Any]:
    """The tiny study with other top-level keys."""
    return {**copy.deepcopy(TINY), **top}


def test_a_finished_study_has_nothing_to_do(clone: Clone) -> None:
    said = clone.build("--dry-run", REPORT)
    assert "Nothing to be done" in said
    assert "tiny: site disk: 0 cells to measure (12 there)\n" in said


def test_no_test_file_is_left_and_none_is_missed(measured: Clone) -> None:
    roots = measured.directory / "testfiles"
    assert not list(roots.rglob("*.h5"))
    assert not list(roots.rglob("*.json"))


def test_a_changed_criterion_reruns_scoring_and_report(clone: Clone) -> None:
    clone.write_study("tiny", changed(score={"criteria": [{"case": "slices", "below": 0.2}], "target": 1}))
    assert clone.planned(REPORT) == {"score": 1, SCORE: 1, "report": 1}


def test_a_changed_style_reruns_figures_and_report(clone: Clone) -> None:
    file = clone.directory / "config" / "config.yaml"
    config = yaml.safe_load(file.read_text(encoding="utf-8"))
    file.write_text(yaml.safe_dump({**config, "style": {"font_size": 11}}), encoding="utf-8")
    assert clone.planned(REPORT) == {FIGURES: 1, SCORE: 1, "report": 1}


def test_a_new_layout_measures_its_own_cells(clone: Clone) -> None:
    layouts = {**TINY["layouts"], "2x2x64": {"chunks": [2, 2, 64]}}
    clone.write_study("tiny", changed(layouts=layouts))
    plan = clone.planned(REPORT)
    assert plan["measure_disk"] == 3
    assert plan["summarise"] == plan["report"] == 1


def test_a_new_case_measures_its_own_cells(clone: Clone) -> None:
    cases = {**TINY["cases"], "spectra": {"read": {"x": 2, "y": 2}, "states": ["cold"]}}
    clone.write_study("tiny", changed(cases=cases))
    plan = clone.planned(REPORT)
    assert plan["measure_disk"] == 9


def test_a_further_round_measures_that_round(clone: Clone) -> None:
    clone.write_study("tiny", changed(rounds=4))
    plan = clone.planned(REPORT)
    assert plan["measure_disk"] == 4


def test_changed_repeats_measure_again_but_no_other_study(clone: Clone) -> None:
    clone.write_study("other", changed(rounds=1, layouts={"4x4x64": {"chunks": [4, 4, 64]}}))
    clone.build("results/other/measurements.parquet")
    clone.write_study("tiny", changed(repeats={**TINY["repeats"], "cold": 4}))
    assert clone.planned(REPORT)["measure_disk"] == 9
    assert not clone.planned("results/other/measurements.parquet")


def test_a_deleted_figure_is_drawn_with_those_of_its_site(clone: Clone) -> None:
    figure = clone.directory / "results/tiny/figures/disk/counts.svg"
    drawn = figure.read_bytes()
    figure.unlink()
    # The whole study also needs its page, which shows the figure.
    assert clone.planned("--config", "study=tiny", "--", "all") == {FIGURES: 1, "report": 1}
    assert clone.made("results/tiny/figures/disk/counts.svg") == {FIGURES: 1}
    assert figure.read_bytes() == drawn


def test_a_job_on_a_cluster_knows_the_figures_of_its_study(clone: Clone) -> None:
    figure = clone.directory / "results/tiny/figures/disk/counts.svg"
    figure.unlink()
    # What the executor of a cluster calls on a node; the study `quick` is the default one.
    clone.build(
        "--mode", "remote", "--cores", "1", "--nolock", "--force", "--config", "aggregate=cluster",
        "--target-jobs", f"{FIGURES}:study=tiny", "--allowed-rules", FIGURES,
    )  # fmt: skip
    assert figure.exists()


def test_results_without_metadata_are_not_measured_again(clone: Clone) -> None:
    shutil.rmtree(clone.directory / ".snakemake")
    plan = clone.planned(REPORT)
    assert not any(rule.startswith(("generate", "measure")) for rule in plan)


@pytest.mark.parametrize("metadata", [True, False], ids=["with metadata", "without metadata"])
def test_a_changed_stopwatch_marks_old_results_stale(clone: Clone, metadata: bool) -> None:
    if not metadata:
        shutil.rmtree(clone.directory / ".snakemake")
    kind = clone.directory / "workflow/scripts/hyperslab/studies/case_kinds/read.py"
    text = kind.read_text(encoding="utf-8")
    assert text.count("    protocol = ") == 1
    kind.write_text(text.replace("    protocol = ", "    protocol = 1"), encoding="utf-8")
    if metadata:
        # Those of selections; the three of writes have a stopwatch of their own.
        assert clone.planned(REPORT)["measure_disk"] == 9
    else:
        # Snakemake cannot know; the hash in each record does.
        made = "results/tiny/measurements.parquet"
        clone.build("--config", "measure=false", "--forcerun", "summarise", "--", made)
        table = pd.read_parquet(clone.directory / made)
        assert set(table["kind"]) == {"read", "write"}
        assert (table["stale"] == (table["kind"] == "read")).all()


@pytest.mark.parametrize("there", ["missing", "outdated", "made"])
def test_an_environment_is_made_for_cells_that_are_missing_and_measures_no_other(
    clone: Clone, there: str
) -> None:
    old = {"chunks": [4, 4, 64], "release": "1.12"}
    clone.write_study("tiny", changed(layouts={**TINY["layouts"], "old": old}))
    cells = clone.directory / "results" / "tiny" / "cells" / "disk"
    for number in (0, 1):
        (cells / "old").mkdir(exist_ok=True)
        shutil.copy2(cells / "4x4x64" / f"slices.r{number}.json", cells / "old")
    lock = clone.directory / "envs" / "releases" / "hdf5-1.12.lock"
    made = clone.directory / ".venv-releases" / "hdf5-1.12" / "made-from.lock"
    if there != "missing":
        made.parent.mkdir(parents=True)
        made.write_text(lock.read_text() + "# older\n" * (there == "outdated"), encoding="utf-8")
    plan = clone.planned(REPORT)
    # Snakemake alone measures all three where it is missing, and none where it is outdated.
    assert plan["measure_disk"] == plan["summarise"] == plan["report"] == 1
    assert plan["release_environment"] == (there != "made")


def test_a_prepared_donor_is_made_for_cells_that_are_measured_and_measures_no_other(
    clone: Clone, tmp_path: Path
) -> None:
    np.save(tmp_path / "donor.npy", np.zeros((8, 8, 256), "u2"))
    donor = {"path": str(tmp_path / "donor.npy")}
    slices, spectra = {"read": {"z": 5}, "states": ["cold"]}, {"read": {"x": 2, "y": 2}, "states": ["cold"]}
    given = changed(
        dataset={**TINY["dataset"], "donor": donor}, layouts={"contiguous": None}, rounds=1, score=None,
        cases={"slices": slices, "spectra": spectra}, recommendation={"confirm_rounds": 0},
    )  # fmt: skip
    clone.write_study("given", given)
    table = "results/given/summary.csv"
    clone.build(table)
    (prepared,) = (clone.directory / "results/given").glob("donor.*.npy")
    prepared.unlink()
    assert not clone.planned(table)
    clone.write_study(
        "given", {**given, "cases": {"slices": slices, "spectra": {**spectra, "read": {"x": 3}}}}
    )
    plan = clone.planned(table)
    # Snakemake alone measures both.
    assert plan["donor"] == plan["measure_disk"] == 1
    clone.write_study("given", given)
    (clone.directory / "results/given/cells/disk/contiguous/slices.r0.json").unlink()
    plan = clone.planned(table)
    assert plan["donor"] == plan["measure_disk"] == 1


def test_no_environment_is_made_where_nothing_is_measured(clone: Clone) -> None:
    old = {"chunks": [4, 4, 64], "release": "1.12"}
    clone.write_study("tiny", changed(layouts={**TINY["layouts"], "old": old}))
    cells = clone.directory / "results" / "tiny" / "cells" / "disk"
    shutil.copytree(cells / "4x4x64", cells / "old", ignore=shutil.ignore_patterns("write*"))
    assert not clone.planned(REPORT)["release_environment"]
