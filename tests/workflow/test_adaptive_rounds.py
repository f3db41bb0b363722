"""Adaptive rounds in the workflow: added for what is open, kept, resumed, and never for anything else."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from adaptive_studies import anew, listed, records, study
from clones import REPORT, Clone, Kept, make_clone
from faulty import wait_for
from process_tree import commands

PAGE, SUMMARY = "results/claims.html", "results/tiny/summary.csv"

ADAPTIVE = study({"first": 3, "most": 5})
ADDED = {f"disk/{layout}/slices.r{number}" for layout in ("4x4x64", "twin") for number in (3, 4)}


def record(clone: Clone, cell: str) -> Path:
    """Where the record of site/layout/case.round lies."""
    return clone.directory / f"results/tiny/cells/{cell}.json"


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone whose adaptive study was first measured in three rounds, as one that is not adaptive."""
    clone = make_clone(tmp_path_factory.mktemp("adaptive") / "clone")
    clone.keep_studies("quick", "tiny")
    clone.write_study("tiny", study(3))
    clone.build(SUMMARY)
    assert not any(re.search(r"r[3-9]$", cell) for cell in records(clone))
    before = records(clone)
    clone.write_study("tiny", ADAPTIVE)
    said = clone.build("--dry-run", REPORT)
    # The three rounds are there; of the three layouts and the writes two cells can be open, and a third.
    assert "0 cells to measure (12 there)" in said
    assert "then at most 6 cells in rounds 4 to 5" in said
    said = clone.build(REPORT)
    # Chance may tell a twin from itself in one state, hardly in three.
    assert re.search(r"after 3 rounds [123] of 4 comparisons (is|are) open: 2 more rounds of 2 cells", said)
    assert anew(before, records(clone)) == ADDED
    return clone


@pytest.fixture(scope="module")
def kept(added: Clone, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return Kept(added, tmp_path_factory.mktemp("kept") / "clone")


@pytest.fixture
def clone(added: Clone, kept: Kept) -> Iterator[Clone]:
    """The measured clone, put back as it was after the test."""
    yield added
    kept.put_back()


def test_rounds_are_added_for_what_is_open_and_the_report_says_why_no_more(clone: Clone) -> None:
    found = listed(clone)
    assert found["looks"] == [3, 5]
    assert found["stages"] == [
        {"rounds": [3, 5], "cells": {"disk": [["4x4x64", "slices"], ["twin", "slices"]]}}
    ]
    told = {entry["says"]: (entry["rounds"], entry["open"]) for entry in found["comparisons"]}
    assert told["9.1: less than a minute"] == (3, False)
    twins = [
        told[f"9.{number}: twin, {state}"] for number, state in ((2, "cold"), (3, "warm"), (4, "session"))
    ]
    assert all(rounds == 5 for rounds, _ in twins)
    table = pd.read_parquet(clone.directory / "results/tiny/measurements.parquet")
    assert not table["stale"].any()
    assert set(table[table["round"] >= 3]["layout"]) == {"4x4x64", "twin"}
    page = (clone.directory / REPORT).read_text(encoding="utf-8")
    assert "3 to 5 rounds, as many as decide" in page
    assert "still open after the most rounds" in page
    assert "None: there are results of all 16 planned cells." in page
    said = clone.build("--dry-run", REPORT)
    assert "Nothing to be done" in said
    assert "0 cells to measure (16 there)" in said
    assert "then at most" not in said


def test_a_record_that_went_away_or_is_asked_for_is_measured_again_and_no_other(clone: Clone) -> None:
    gone = "disk/twin/slices.r4"
    record(clone, gone).unlink()
    assert "measure_disk" not in clone.planned(REPORT), "Snakemake itself plans no added round"
    before = records(clone)
    clone.build("--config", "remeasure=*/4x4x64/slices.r3", "--", SUMMARY)
    assert anew(before, records(clone)) == {gone, "disk/4x4x64/slices.r3"}
    assert not clone.planned(SUMMARY)


def test_the_page_of_one_claim_has_its_rounds_added_and_no_others(clone: Clone) -> None:
    open_ = next(entry["says"] for entry in listed(clone)["comparisons"] if entry["open"])
    claim = open_.partition(":")[0]
    one, stages = f"results/tiny/claims/{claim}.html", f"results/tiny/claims/{claim}.rounds.json"
    (clone.directory / "results/tiny/rounds.json").unlink()
    for cell in ADDED:
        record(clone, cell).unlink()
    before = records(clone)
    said = clone.build(one)
    assert f"tiny, {claim}: after 3 rounds 1 of 1 comparison is open: 2 more rounds of 2 cells" in said
    assert anew(before, records(clone)) == ADDED
    assert "5 rounds" in (clone.directory / one).read_text(encoding="utf-8")
    assert not (clone.directory / "results/tiny/rounds.json").exists()
    assert not clone.planned(one)
    gone = "disk/twin/slices.r4"
    record(clone, gone).unlink()
    before = records(clone)
    clone.build(one)
    assert anew(before, records(clone)) == {gone}
    assert (clone.directory / stages).exists()


def test_added_rounds_are_kept_by_a_plain_study_and_used_by_a_longer_one(clone: Clone) -> None:
    before = records(clone)
    clone.write_study("tiny", study(3))
    clone.build(SUMMARY)
    table = pd.read_parquet(clone.directory / "results/tiny/measurements.parquet")
    assert table["round"].max() == 2
    assert records(clone) == before
    clone.write_study("tiny", study({"first": 3, "most": 7}))
    clone.build(SUMMARY)
    further = {f"disk/{layout}/slices.r{number}" for layout in ("4x4x64", "twin") for number in (5, 6)}
    assert anew(before, records(clone)) == further
    assert [stage["rounds"] for stage in listed(clone)["stages"]] == [[3, 5], [5, 7]]
    # All rounds of every cell, among which are these: nothing of them again.
    before = records(clone)
    clone.write_study("tiny", study(4))
    assert clone.planned(SUMMARY)["measure_disk"] == 4 - 2
    assert records(clone) == before


def test_the_page_of_claims_takes_in_rounds_that_were_brought_to_its_table(clone: Clone) -> None:
    brought = {record(clone, cell): record(clone, cell).read_bytes() for cell in ADDED}
    for file in brought:
        file.unlink()
    # It shows what there is, and has nothing measured.
    clone.build(PAGE)
    assert listed(clone)["records"] == [] and not ADDED & records(clone).keys()
    for file, content in brought.items():
        file.write_bytes(content)
    before = records(clone)
    clone.build(PAGE)
    assert len(listed(clone)["records"]) == len(ADDED)
    table = pd.read_parquet(clone.directory / "results/tiny/measurements.parquet")
    assert table["round"].max() == 4
    # Nothing was measured for it, and now there is nothing to be done.
    assert records(clone) == before and not clone.planned(PAGE)


def test_added_rounds_go_on_after_a_kill_and_a_cell_that_fails_leaves_a_report(clone: Clone) -> None:
    failing = "disk/twin/slices.r4"
    for cell in ADDED:
        record(clone, cell).unlink()
    before = records(clone)
    program = clone.directory / "workflow/scripts/hyperslab/measure.py"
    text = program.read_text(encoding="utf-8")
    broken = """                if (spec["round"], options.artifact.parent.name) == ("r4", "twin"):
                    raise OSError("broken on purpose")
"""
    place = "                measured = measure("
    assert text.count(place) == 1
    program.write_text(text.replace(place, broken + place), encoding="utf-8")
    with clone.running(SUMMARY) as process:
        end = time.monotonic() + 300
        # The second one is there, so that the first is one that its run knows to be whole.
        while len(made := anew(before, records(clone))) < 2 and process.poll() is None:
            assert time.monotonic() < end
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
    here = os.fsencode(clone.directory)
    wait_for(lambda: not any(here in command for command in commands()), "the last process of the run to end")
    killed = records(clone)
    assert anew(before, killed) <= ADDED
    clone.build("--unlock", SUMMARY)
    # All that the kill has cost is measured by the next run.
    done = clone.run(REPORT)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "not every added cell could be measured; see results/tiny/logs/add-rounds.log" in said
    assert "broken on purpose" in (clone.directory / "results/tiny/logs/add-rounds.log").read_text()
    assert f"{REPORT} is made of what was measured" in said
    assert anew(before, between := records(clone)) == ADDED - {failing}
    first = min(made, key=lambda cell: killed[cell])
    assert between[first] == killed[first], "what was measured before the kill stays"
    page = (clone.directory / REPORT).read_text(encoding="utf-8")
    assert "1 of 16 planned cells have no result" in page
    # It was made without measuring.
    assert "which this run did not measure" in page
    program.write_text(text, encoding="utf-8")
    clone.build(SUMMARY)
    assert anew(between, records(clone)) == {failing}
    assert not clone.planned(SUMMARY)
