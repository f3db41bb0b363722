"""Claims in the workflow: verdicts in the report, and on a page for which nothing is measured."""

from __future__ import annotations

import copy
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from clones import REPORT, TINY, Clone, make_clone

VERDICTS = "results/tiny/claims.json"
PAGE = "results/claims.html"
CLAIM: dict[str, Any] = {
    "sentence": "A chunk of 4 x 4 x 64 has 2,048 bytes.", "source": "A document", "section": "One",
    # The clone may lie on any file system.
    "testability": "V", "figure": "sizes", "at": {"in_memory": True},
    "comparisons": [
        {"says": "chunks", "a": {"layouts": "4x4x64", "case": "slices", "of": "chunks"}, "equals": 16},
        # A time: what noise makes of it decides nothing here.
        {"says": "a session's maximum over its median", "b": {"of": "median"}, "at_least": 1, "judged": False,
         "a": {"layouts": "{m}x{m}x{n}", "case": "slices", "of": "max"}},
    ],
}  # fmt: skip


def with_claim(**changes: Any) -> dict[str, Any]:
    """The tiny study with one claim."""
    return {**copy.deepcopy(TINY), "claims": {"009.1": {**CLAIM, **changes}}}


@pytest.fixture
def among_few(clone: Clone) -> Clone:
    """The measured clone with two more studies, of which one has claims: planning all takes a while."""
    for file in (clone.directory / "config" / "studies").glob("*.yaml"):
        if file.stem not in ("quick", "tiny", "knobs-cache-shuffle"):
            file.unlink()
    return clone


def test_a_claim_is_judged_without_measuring_again(clone: Clone) -> None:
    clone.write_study("tiny", with_claim())
    assert clone.made(REPORT) == {"claims": 1, "report": 1}
    content = json.loads((clone.directory / VERDICTS).read_text(encoding="utf-8"))
    (claim,) = content["claims"]
    (verdict,) = claim["verdicts"]
    assert list(content["sites"]) == ["disk"]
    chunks, ratio = [result for comparison in verdict["comparisons"] for result in comparison["results"]]
    assert (chunks["verdict"], chunks["value"]) == ("holds", 16)
    assert ratio["low"] < ratio["value"] < ratio["high"]
    page = (clone.directory / REPORT).read_text(encoding="utf-8")
    assert "A chunk of 4 x 4 x 64 has 2,048 bytes." in page
    assert not clone.planned(REPORT)
    # Another bound: verdicts, then the page, and nothing else.
    comparisons = [{**CLAIM["comparisons"][0], "equals": 17}]
    clone.write_study("tiny", with_claim(comparisons=comparisons))
    assert clone.made(VERDICTS) == {"claims": 1}
    assert clone.planned(REPORT) == {"report": 1}
    content = json.loads((clone.directory / VERDICTS).read_text(encoding="utf-8"))
    assert content["claims"][0]["verdicts"][0]["verdict"] == "fails"


def test_the_page_gathers_what_there_is_and_measures_nothing(among_few: Clone) -> None:
    clone = among_few
    clone.write_study("tiny", with_claim())
    clone.write_study("never", with_claim())
    (clone.directory / "results/tiny/cells/disk/auto/slices.r1.json").unlink()
    made = clone.made(PAGE)
    assert not any(rule.startswith(("generate", "measure")) for rule in made), made
    assert made["claims_page"] == made["claims"] == 1
    page = (clone.directory / PAGE).read_text(encoding="utf-8")
    assert "tiny at disk (" in page
    assert "the study never has no results" in page
    assert 'id="figure-tiny-disk-sizes"' in page
    text = (clone.directory / "results/claims.md").read_text(encoding="utf-8")
    assert "### 009.1: holds (tiny)" in text
    assert "001.1" in page
    assert not (clone.directory / "results/never").exists()
    assert not clone.planned(PAGE)
    # Whoever names the study itself has its missing cell measured.
    assert clone.planned(REPORT)["measure_disk"] == 1


def test_beside_the_page_a_report_is_measured_and_nothing_else(among_few: Clone) -> None:
    clone = among_few
    results = clone.directory / "results"
    for study in ("tiny", "other", "never"):
        clone.write_study(study, with_claim())
    shutil.copytree(results / "tiny/cells", results / "other/cells")
    for study in ("tiny", "other"):
        (results / study / "cells/disk/auto/slices.r1.json").unlink()
    # Records of another array than today's stay what they are, too.
    clone.write_study("other", {**with_claim(), "seed": 7})
    made = clone.made(REPORT, PAGE)
    assert (made["measure_disk"], made["claims"], made["claims_page"]) == (1, 2, 1)
    page = (clone.directory / PAGE).read_text(encoding="utf-8")
    assert "tiny at disk (" in page and "the study never has no results" in page
    assert (results / "tiny/cells/disk/auto/slices.r1.json").exists()
    assert not (results / "other/cells/disk/auto/slices.r1.json").exists()
    assert not clone.planned(REPORT, PAGE)
    # What a study has only when it is measured is on the page, too.
    assert clone.planned("results/never/report.html", PAGE)["claims"] == 1


def test_one_claim_is_judged_from_its_own_cells(clone: Clone) -> None:
    comparisons = [CLAIM["comparisons"][0]]
    clone.write_study("tiny", with_claim(comparisons=comparisons))
    cells = clone.directory / "results/tiny/cells/disk"
    (cells / "4x4x64/slices.r1.json").unlink()
    (cells / "auto/slices.r1.json").unlink()
    one = "results/tiny/claims/009.1.html"
    assert clone.made(one) == {"measure_disk": 1, "claim": 1}
    page = (clone.directory / one).read_text(encoding="utf-8")
    assert "A chunk of 4 x 4 x 64 has 2,048 bytes." in page
    assert one in page
    assert (cells / "4x4x64/slices.r1.json").exists()
    assert not (cells / "auto/slices.r1.json").exists()


def test_the_page_needs_neither_results_nor_a_place_for_test_files(tmp_path: Path) -> None:
    fresh = make_clone(tmp_path / "fresh")
    assert fresh.made(PAGE) == {"claims_page": 1}
    page = (fresh.directory / PAGE).read_text(encoding="utf-8")
    for number in [f"000.{n}" for n in range(1, 28)] + [f"001.{n}" for n in range(1, 10)]:
        assert f"{number}</a></li>" in page or f"> {number}" in page, number
    assert not (fresh.directory / "testfiles").exists()


@pytest.mark.slow
def test_both_explanations_of_the_writes_that_are_fast_again(tmp_path: Path) -> None:
    """The study of the chunk cache with its own claims; extents and caches divided by 16, on any disk."""
    fresh = make_clone(tmp_path / "fresh")
    file = fresh.directory / "config" / "studies" / "openmsi-write-cache.yaml"
    study = yaml.safe_load(file.read_text(encoding="utf-8"))
    study["dataset"]["shape"] = [32, 32, 1024]
    # Counts are the same in every round, and nothing is asserted of times.
    study["rounds"] = 1
    # No claim speaks of these layouts.
    study["grids"] = [one for one in study["grids"] if (*one["over"]["m"], one["name"][-3:]) != (8, "-4M")]
    for grid in study["grids"]:
        if grid["name"].endswith("-64M"):
            grid["over"]["n"] = [512]
        grid["over"]["n"] = [n // 16 for n in grid["over"]["n"]]
        grid["settings"]["chunk_cache_bytes"] //= 16
    here = {"at": {"in_memory": True}}
    study["claims"] = {name: {**claim, **here} for name, claim in _divided(study["claims"]).items()}
    fresh.write_study("small", study)
    fresh.build("results/small/claims.json")
    content = json.loads((fresh.directory / "results/small/claims.json").read_text(encoding="utf-8"))
    found = {claim["id"]: claim["verdicts"][0]["comparisons"] for claim in content["claims"]}
    counted = {name: [c["results"][0] for c in compared if c["exact"]] for name, compared in found.items()}
    # Counts do not depend on the machine: a chunk that the cache cannot hold is written spectrum by spectrum.
    assert {result["verdict"] for result in counted["000.8-bypass"]} == {"holds"}
    assert [result["verdict"] for result in counted["000.8-hits"]] == ["fails"]
    words = {claim["id"]: claim["explanation"] for claim in content["claims"] if "explains" in claim}
    assert words["000.8-bypass"] == "chunks larger than the chunk cache bypass it"


def _divided(value: Any) -> Any:
    """Claims about n divided by 16 and a third of the modifications."""
    if isinstance(value, dict):
        return {key: _divided(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_divided(entry) for entry in value]
    if isinstance(value, str):
        return re.sub(r"x(\d{3,4})-", lambda found: f"x{int(found[1]) // 16}-", value)
    numbers = {n: n // 16 for n in (512, 1024, 2048, 4096, 8192)} | {24576: 8192, 49152: 16384}
    return numbers.get(value, value) if isinstance(value, int) else value
