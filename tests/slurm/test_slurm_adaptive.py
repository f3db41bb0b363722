"""Adaptive rounds on a cluster: a stage is measured in batches of its own, from inside the job that looks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from adaptive_studies import listed, records, study

from cluster import Cluster
from hyperslab.planning.stages import ADDING
from slurm_clones import NODES, Clusters, look_early, make_slurm_clone

pytestmark = [pytest.mark.slurm, pytest.mark.slow]
# The first that is made of all rounds.
SUMMARY = "results/tiny/summary.csv"


@pytest.fixture(scope="module")
def cluster(clusters: Clusters) -> Cluster:
    return clusters.of()


@pytest.mark.usefixtures("cluster")
def test_rounds_are_added_in_batches_of_their_own(tmp_path: Path) -> None:
    clone = make_slurm_clone(
        tmp_path / "clone",
        {"nodes": NODES},
        {"shared": {"root": str(tmp_path / "root")}},
        {"nodes": ("nodes", "shared")},
    )
    look_early(clone)
    clone.write_study("tiny", {**study({"first": 3, "most": 5}), "sites": ["nodes"]})
    said = clone.build(SUMMARY)
    # Chance may tell a twin from itself in one state, hardly in three.
    assert re.search(r"after 3 rounds [123] of 4 comparisons (is|are) open: 2 more rounds of 2 cells", said)
    cells = [["4x4x64", "slices"], ["twin", "slices"]]
    assert listed(clone)["stages"] == [{"rounds": [3, 5], "cells": {"nodes": cells}}]
    added = {f"nodes/{layout}/slices.r{number}" for layout, _ in cells for number in (3, 4)}
    assert {cell for cell in records(clone) if cell.endswith((".r3", ".r4"))} == added
    markers = sorted(file.name for file in (clone.directory / "results/tiny/batches/nodes").glob("*.json"))
    assert markers == ["a1r0of1.json", "r0of1.json"]
    assert not clone.planned(SUMMARY)
    # A record that went away is asked of its batch again, from inside. That such a run measures no other is
    # tests/workflow/test_adaptive_rounds.py, and that such a batch does not test_slurm_sites.py.
    inside = ("--config", "study=tiny", "stage=1", "--", ADDING)
    assert not clone.planned(*inside)["batch_nodes"]
    (clone.directory / "results/tiny/cells/nodes/twin/slices.r4.json").unlink()
    assert clone.planned(SUMMARY)["add_rounds"] == 1
    assert clone.planned(*inside)["batch_nodes"] == 1
