"""The packs in packs/: each is small, has its study, and holds results of which every one still counts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from golden_specifications import ROOT, studies

from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.results.packs import SUFFIX, contents
from hyperslab.specifications import Specification
from hyperslab.studies import specification
from hyperslab.studies.claims.compared import compared

PACKS = sorted((ROOT / "packs").glob(f"*{SUFFIX}"))
# Packs that hold a part of what their studies ask for -> the layouts and cases that they lack, as the rows of
# these studies in docs/full-size.md name them.
INCOMPLETE = {
    "ncep-files": {"month-netcdf", "month-zarr", "day-zarr"},
    "ncep-service": {"hsds-2"},
    "ncep-store": {"direct", "parted"},
    "ncep-store-service": {"mixed"},
    "vl-paged": {
        "offset-vector",
        "offset-vector-1K-pages",
        "offset-vector-1M-pages",
        "write-4096",
        "read-4096",
    },  # fmt: skip
}


class Committed(NamedTuple):
    """A pack: its file, its study, what paths it holds, and of each record what tests ask of it."""

    file: Path
    study: str
    paths: list[str]
    specifications: dict[str, Specification]
    peak_memory_bytes: dict[str, int]


@pytest.fixture(scope="module", params=PACKS, ids=lambda path: path.name.removesuffix(SUFFIX))
def pack(request: pytest.FixtureRequest) -> Committed:
    """A pack that has been read to its end, once for all tests."""
    found = Committed(request.param, request.param.name.removesuffix(SUFFIX), [], {}, {})
    for path, content in contents(found.file):
        found.paths.append(path)
        if "/cells/" in path:
            record = json.loads(content)
            found.specifications[path] = record["specification"]
            found.peak_memory_bytes[path] = record["peak_memory_bytes"]
    return found


def test_it_is_small_and_has_its_study(pack: Committed) -> None:
    # Equals are told from each other by thousands of cells.
    assert pack.file.stat().st_size < max(1.5e6, 1000 * len(pack.paths))
    assert f"config/studies/{pack.study}.yaml" in pack.paths
    # results/STUDY/cells/SITE/LAYOUT/CASE.ROUND.json: of one layout alone nothing could be told.
    cells = [path.split("/") for path in pack.paths if path.startswith(f"results/{pack.study}/cells/")]
    assert all(len(cell) == 6 for cell in cells) and len(cells) >= 8
    assert len({layout for _, _, _, _, layout, _ in cells}) > 1 or len({cell[5] for cell in cells}) > 1


def test_its_study_asks_for_no_more_rounds_than_it_has(pack: Committed) -> None:
    rounds = [int(match[1]) for path in pack.paths if (match := re.search(r"\.r(\d+)\.json$", path))]
    # Equals are compared in as many rounds as there was time for.
    if pack.study != "same-twice":
        assert PlannedStudy(studies()[pack.study]).study.first_rounds <= 1 + max(rounds)


def told(study: str) -> str:
    """What the tables of docs/full-size.md say of a study."""
    text = (ROOT / "docs" / "full-size.md").read_text(encoding="utf-8")
    return "\n".join(re.findall(rf"^\| {study}[ ,].*$", text, re.M))


def lacking(pack: Committed, study: PlannedStudy) -> set[tuple[str, str]]:
    """(layout, case) without a first round at a site of the pack, or compared by a claim and at no site."""
    # results/STUDY/cells/SITE/LAYOUT/CASE.ROUND.json
    cells = [path.removesuffix(".json").split("/")[3:] for path in pack.specifications]
    first = {(site, layout, cell[:-3]) for site, layout, cell in cells if cell.endswith(".r0")}
    asked = {(site, *pair) for site in {site for site, _, _ in cells} for pair in study.pairs(site)}
    judged = {pair for claim in study.claims for pair in compared(claim)}
    return {cell[1:] for cell in asked - first} | judged - {cell[1:] for cell in first}


def test_what_it_lacks_of_its_study_is_told(pack: Committed) -> None:
    study = PlannedStudy(studies()[pack.study])
    # A case of several counts of workers is named by its family.
    lacks = {(layout, study.cases[case].get("family", case)) for layout, case in lacking(pack, study)}
    named = INCOMPLETE.get(pack.study, set())
    assert {cell for cell in lacks if not {*cell} & named} == set()
    assert named <= {name for cell in lacks for name in cell}, "measured by now: take it out of INCOMPLETE"
    assert all(f"`{name}`" in told(pack.study) for name in named)


def test_it_has_its_confirming_rounds_or_their_lack_is_told(pack: Committed) -> None:
    confirming = any(re.search(r"\.c\d+\.json$", path) for path in pack.paths)
    if PlannedStudy(studies()[pack.study]).confirms:
        assert confirming != ("without confirming rounds" in told(pack.study))


def test_every_record_counts(monkeypatch: pytest.MonkeyPatch, pack: Committed) -> None:
    monkeypatch.delenv("HYPERSLAB_DONOR", raising=False)
    study = PlannedStudy(studies()[pack.study])
    hashes = study.hashes("main") | study.hashes("confirm")
    assert pack.specifications
    # results/<study>/cells/<site>/<layout>/<case>.<round>.json
    cells = {path: path.removesuffix(".json").split("/", 4)[4] for path in pack.specifications}
    stale = [
        path
        for path, spec in pack.specifications.items()
        if specification.standing(hashes.get(cells[path]), spec, study.name) == "stale"
    ]
    assert not stale, f"{len(stale)} of {len(cells)} records are stale, such as {stale[0]}"


def test_rows_with_a_vector_take_less_than_a_gibibyte_of_memory(pack: Committed) -> None:
    own = [
        path for path, spec in pack.specifications.items() if spec["layout"].get("storage") == "offset-vector"
    ]
    for path in own:
        assert pack.peak_memory_bytes[path] < 2**30, (path, pack.peak_memory_bytes[path])
    # One whose page buffers are all that it compares has none of them yet.
    others = not pack.study.startswith(("vl-", "rows-"))
    assert own or others or pack.study.startswith(("vl-paged", "vl-page-buffer"))
