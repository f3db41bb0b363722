"""The studies of image-aligned chunks, compression and filters: each small from end to end, and its plan."""

from __future__ import annotations

import copy
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from clones import Clone, make_clone
from knob_studies import shipped

from hyperslab.data.values import Counts
from hyperslab.planning.planned_study import PlannedStudy

pytestmark = pytest.mark.slow

DONOR = "HYPERSLAB_DONOR"
SLICES = {"title": "slices", "read": {"z": 25}, "states": ["cold"], "repeats": {"cold": 2}}
WRITE = {"title": "write", "write": "chunk", "repeats": {"write": 1}}
# study -> what is smaller; what is not named here is that of the study.
SMALL: dict[str, dict[str, Any]] = {
    "openmsi-image-aligned": {
        "dataset": {"shape": [80, 80, 2048]}, "repeats": {"cold": 1, "warm": 2},
        "layouts": ["contiguous", "4x4x2048", "80x50x100", "z-first-80x50x100"],
    },
    "openmsi-compression": {"dataset": {"shape": [11, 12, 2500]}, "grids": [1, 4]},
    "openmsi-aggression": {
        "dataset": {"shape": [11, 12, 2500]}, "layouts": ["none", "gzip0", "gzip9"],
    },
    # Of each kind one: every filter by itself has tests of its own.
    "openmsi-filters": {
        "dataset": {"shape": [11, 12, 2500]},
        "layouts": [
            "none", "fletcher32", "shuffle-gzip4", "szip-entropy", "blosc-bit-zstd", "fcidecomp", "nbit12",
            "scaleoffset8",
        ],
    },
    "openmsi-filters-float": {
        "dataset": {"shape": [17, 16, 300], "dtype": "float32"},
        "layouts": [
            "none", "zfp-reversible", "scaleoffset-digits0", "zfp-accuracy1", "sz3-absolute1",
            "sperr-absolute1", "zfp-rate8",
        ],
    },
}  # fmt: skip
LOSSY = {
    "openmsi-filters": {"nbit12", "scaleoffset8"},
    "openmsi-filters-float": {
        "scaleoffset-digits0", "zfp-accuracy1", "sz3-absolute1", "sperr-absolute1", "zfp-rate8",
    },
}  # fmt: skip
WHOLE = [*SMALL, "spectrum-image", "spectrum-image-tall"]
# With filters, some of which are lossy, and without any.
REPORTED = ("openmsi-filters", "openmsi-image-aligned")
CHOSEN = "results/other/recommendation.json"


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return make_clone(tmp_path_factory.mktemp("storage") / "clone")


@pytest.fixture(scope="module")
def donor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file of counts that a study finds by the environment; some need more than 8 bits, and of 12."""
    file = tmp_path_factory.mktemp("donor") / "donor.npy"
    values = Counts((10, 9, 2000), "uint16").block((0, 0, 0), (10, 9, 2000))
    values[::3, ::2, ::50] *= 70
    np.save(file, values)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(DONOR, str(file))
        yield file


@pytest.fixture(scope="module")
def measured(workplace: Clone, donor: Path) -> Clone:
    """The clone in which the small studies were measured up to their figures, some up to their reports, and
    one of a single layout.
    """
    studies = {**{f"small-{name}": small(name) for name in SMALL}, "other": single()}
    for name, study in studies.items():
        workplace.write_study(name, study)
    drawn = (f"results/small-{name}/figures/disk/sizes.svg" for name in SMALL)
    workplace.build(*drawn, *(f"results/small-{name}/report.html" for name in REPORTED), CHOSEN)
    return workplace


def small(name: str) -> dict[str, Any]:
    """The study with its layouts, or some of them, each read once, and two written by a case of their own.

    Its finalists are not measured again.
    """
    study: dict[str, Any] = {
        "extends": name, "rounds": 1, "recommendation": {"confirm_rounds": 0}, **copy.deepcopy(SMALL[name]),
    }  # fmt: skip
    content = shipped(name)
    if "grids" in study:
        study["grids"] = [{**grid, "over": {"m": study["grids"]}} for grid in content["grids"]]
    if "layouts" in study:
        study["layouts"] = {layout: content["layouts"][layout] for layout in study["layouts"]}
    if name != "openmsi-image-aligned":
        written = (
            ["none", *sorted(LOSSY.get(name, []))[:1]] if name != "openmsi-compression" else ["4x4x2048*"]
        )
        study["cases"] = {"slices": SLICES, "write": {**WRITE, "layouts": written}}
        study["tradeoff"] = []
    return study


def single(**changed: Any) -> dict[str, Any]:
    """A small study of a single layout."""
    return {**small("openmsi-aggression"), "layouts": {"none": {"chunks": [4, 4, 2048]}}, **changed}


# The first one waits for all of them to be measured.
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("name", SMALL)
def test_the_study_small(measured: Clone, name: str) -> None:
    here = measured.directory / "results" / f"small-{name}"
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


@pytest.fixture(scope="module")
def plan(workplace: Clone, donor: Path) -> str:
    """What a dry run of the whole studies prints."""
    return workplace.build("--dry-run", *(f"results/{name}/report.html" for name in WHOLE))


@pytest.mark.parametrize("name", WHOLE)
def test_the_whole_study_is_planned(workplace: Clone, plan: str, name: str) -> None:
    study = PlannedStudy(workplace.directory / "config/studies" / f"{name}.yaml")
    cells = {case["kind"]: len(case["layouts"]) for case in study.cases.values()}
    reads = len(study.read_cases()) * cells["read"] * study.study.first_rounds
    made = Counter(re.findall(rf"output: results/{name}/(cells/disk/|donor\.)", plan))
    assert made["cells/disk/"] == reads + cells.get("write", 0) * study.study.first_rounds
    assert made["donor."] == bool(study.dataset.donor)


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
    measured: Clone, donor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workplace = measured
    assert not workplace.planned(CHOSEN)
    # A donor copied here again is the same; Snakemake would make it anew and overlook all other changes.
    os.utime(donor)
    workplace.write_study("other", single(recommendation={"confirm_rounds": 0, "size_bound": 3}))
    plan = workplace.planned(CHOSEN)
    assert (plan["donor"], plan["measure_disk"], plan["recommend"]) == (0, 0, 1)
    workplace.write_study("other", single())
    other = donor.with_name("other.npy")
    np.save(other, np.load(donor)[::-1])
    monkeypatch.setenv(DONOR, str(other))
    plan = workplace.planned(CHOSEN)
    assert (plan["donor"], plan["measure_disk"]) == (1, 2)
    monkeypatch.delenv(DONOR)
    # What was measured can be shown where the donor is not.
    page = workplace.build("--config", "measure=false", "--", "results/other/report.html")
    assert "Traceback" not in page
    table = pd.read_parquet(workplace.directory / "results/other/measurements.parquet")
    assert not table["stale"].any()
