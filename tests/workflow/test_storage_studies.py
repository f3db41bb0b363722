"""The studies of image-aligned chunks, compression and filters: each small from end to end, and its plan."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from clones import Clone, make_clone

from hyperslab.data.values import Counts
from hyperslab.planning.planned_study import PlannedStudy

pytestmark = pytest.mark.slow

DONOR = "HYPERSLAB_DONOR"
SLICES = {"title": "slices", "read": {"z": 25}, "states": ["cold"], "repeats": {"cold": 2}}
WRITE = {"title": "write", "write": "chunk", "repeats": {"write": 1}}
# study -> what is smaller; layouts and everything else are those of the study.
SMALL: dict[str, dict[str, Any]] = {
    "openmsi-image-aligned": {"dataset": {"shape": [80, 80, 2048]}, "repeats": {"cold": 1, "warm": 2}},
    "openmsi-compression": {"dataset": {"shape": [11, 12, 2500]}},
    "openmsi-aggression": {"dataset": {"shape": [11, 12, 2500]}},
    "openmsi-filters": {"dataset": {"shape": [11, 12, 2500]}},
    "openmsi-filters-float": {"dataset": {"shape": [17, 16, 300], "dtype": "float32"}},
}
LOSSY = {
    "openmsi-filters": {"nbit12", "scaleoffset8"},
    "openmsi-filters-float": {
        "scaleoffset-digits0", "zfp-accuracy1", "sz3-absolute1", "sperr-absolute1", "zfp-rate8",
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return make_clone(tmp_path_factory.mktemp("storage") / "clone")


@pytest.fixture
def donor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of counts that a study finds by the environment; some need more than 8 bits, and of 12."""
    file = tmp_path / "donor.npy"
    values = Counts((10, 9, 2000), "uint16").block((0, 0, 0), (10, 9, 2000))
    values[::3, ::2, ::50] *= 70
    np.save(file, values)
    monkeypatch.setenv(DONOR, str(file))
    return file


def small(name: str) -> dict[str, Any]:
    """The study with all its layouts, each read once, and two of them written by a case of their own."""
    study: dict[str, Any] = {"extends": name, "rounds": 1, **copy.deepcopy(SMALL[name])}
    if name != "openmsi-image-aligned":
        written = (
            ["none", *sorted(LOSSY.get(name, []))[:1]] if name != "openmsi-compression" else ["4x4x2048*"]
        )
        study["cases"] = {"slices": SLICES, "write": {**WRITE, "layouts": written}}
        study["tradeoff"] = []
    return study


@pytest.mark.parametrize("name", SMALL)
def test_the_study_small(workplace: Clone, donor: Path, name: str) -> None:
    workplace.write_study(f"small-{name}", small(name))
    done = workplace.run(f"results/small-{name}/report.html", timeout=1800)
    assert done.returncode == 0, done.stderr[-4000:]
    here = workplace.directory / "results" / f"small-{name}"
    table = pd.read_parquet(here / "measurements.parquet")
    filtered = table[table["filters"] != ""]
    assert set(table[table["error_max"].notna()]["layout"]) == LOSSY.get(name, set())
    assert (table["ratio_padded"] >= table["ratio_raw"]).all()
    assert (here / "figures/disk/ratios.svg").exists() == (len(filtered) > 0)
    bound = table["error_bound"].notna()
    assert (table[bound]["error_max"] <= table[bound]["error_bound"] * (1 + 1e-6)).all()
    if name == "openmsi-filters":
        assert table.loc[table["layout"] == "scaleoffset8", "error_max"].min() > 0
    if name == "openmsi-image-aligned":
        chunks = table[table["case"] == "image"].groupby("layout")["chunks_touched"].max()
        assert chunks["80x50x100"] == chunks["z-first-80x50x100"] == 2
        assert chunks["4x4x2048"] == 400
    if name == "openmsi-compression":
        assert (filtered["ratio_raw"] > 1.5).all()


@pytest.mark.parametrize("name", [*SMALL, "spectrum-image", "spectrum-image-tall"])
def test_the_whole_study_is_planned(workplace: Clone, donor: Path, name: str) -> None:
    plan = workplace.planned(f"results/{name}/report.html")
    study = PlannedStudy(workplace.directory / "config/studies" / f"{name}.yaml")
    cells = {case["kind"]: len(case["layouts"]) for case in study.cases.values()}
    reads = len(study.read_cases()) * cells["read"] * study.study.first_rounds
    assert plan["measure_disk"] == reads + cells.get("write", 0) * study.study.first_rounds
    assert plan["donor"] == bool(study.dataset.donor)


def test_without_a_donor_one_line_says_what_to_set(workplace: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DONOR, raising=False)
    done = workplace.run("--dry-run", "results/openmsi-filters/report.html")
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("hyperslab: ")]
    assert done.returncode == 1
    file = workplace.directory / "config/studies/openmsi-filters.yaml"
    assert line == (
        f"hyperslab: {file}: dataset.donor: ${DONOR}: the environment variable {DONOR} is not set; it should "
        "name a file of real data, as FILE or FILE::DATASET"
    )


def test_counts_serve_where_there_is_no_donor(workplace: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DONOR, raising=False)
    plan = workplace.planned("results/openmsi-aggression-counts/report.html")
    assert plan["donor"] == 0
    assert plan["measure_disk"] == 8 * 4 * 3
    compression = PlannedStudy(workplace.directory / "config/studies/openmsi-compression-counts.yaml")
    assert (compression.dataset.fill, compression.dataset.donor) == ("counts", None)


def test_another_donor_is_measured_anew(
    workplace: Clone, donor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = {**small("openmsi-aggression"), "layouts": {"none": {"chunks": [4, 4, 2048]}}}
    workplace.write_study("other", study)
    workplace.build("results/other/report.html")
    assert not workplace.planned("results/other/report.html")
    # A donor copied here again is the same; Snakemake would make it anew and overlook all other changes.
    os.utime(donor)
    workplace.write_study("other", {**study, "recommendation": {"size_bound": 3}})
    plan = workplace.planned("results/other/report.html")
    assert (plan["donor"], plan["measure_disk"], plan["recommend"]) == (0, 0, 1)
    workplace.write_study("other", study)
    other = donor.with_name("other.npy")
    np.save(other, np.load(donor)[::-1])
    monkeypatch.setenv(DONOR, str(other))
    plan = workplace.planned("results/other/report.html")
    assert (plan["donor"], plan["measure_disk"]) == (1, 2)
    monkeypatch.delenv(DONOR)
    # What was measured can be shown where the donor is not.
    page = workplace.build("--config", "measure=false", "--", "results/other/report.html")
    assert "Traceback" not in page
    table = pd.read_parquet(workplace.directory / "results/other/measurements.parquet")
    assert not table["stale"].any()
