"""The packs in packs/: each is small, has its study, and holds results of which every one still counts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from golden_specifications import ROOT, planned

from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.results.archive import members
from hyperslab.results.packs import SUFFIX, records
from hyperslab.specifications import Specification
from hyperslab.studies import specification
from hyperslab.studies.claims.compared import compared

PACKS = sorted((ROOT / "packs").glob(f"*{SUFFIX}"))


class Committed(NamedTuple):
    """A pack: its file, its study, and of each record, by site/layout/case.round, what tests ask of it."""

    file: Path
    study: PlannedStudy
    specifications: dict[str, Specification]
    peak_memory_bytes: dict[str, int]

    @property
    def name(self) -> str:
        """The study's name, which is the file's."""
        return self.file.name.removesuffix(SUFFIX)


@pytest.fixture(scope="module", params=PACKS, ids=lambda path: path.name.removesuffix(SUFFIX))
def pack(request: pytest.FixtureRequest) -> Committed:
    """A pack that has been read to its end, and its study, once for all tests."""
    file: Path = request.param
    found = Committed(file, planned(file.name.removesuffix(SUFFIX)), {}, {})
    for layout, record in records(file):
        spec = record["specification"]
        cell = f"{record['site']}/{layout}/{spec['case']['name']}.{spec['round']}"
        found.specifications[cell] = spec
        found.peak_memory_bytes[cell] = record["peak_memory_bytes"]
    return found


def test_it_is_small_and_has_its_study(pack: Committed) -> None:
    cells = [cell.split("/") for cell in pack.specifications]
    # Equals are told from each other by thousands of cells.
    assert pack.file.stat().st_size < max(1.5e6, 1000 * len(cells))
    # All records of a pack are of the study that it begins with.
    assert next(members(pack.file))[0] == f"config/studies/{pack.name}.yaml"
    # Of one layout alone nothing could be told.
    assert len(cells) >= 8
    assert len({layout for _, layout, _ in cells}) > 1 or len({case for _, _, case in cells}) > 1


def test_its_study_asks_for_no_more_rounds_than_it_has(pack: Committed) -> None:
    rounds = [int(match[1]) for cell in pack.specifications if (match := re.search(r"\.r(\d+)$", cell))]
    # Equals are compared in as many rounds as there was time for.
    if pack.name != "same-twice":
        assert pack.study.study.first_rounds <= 1 + max(rounds)


def told(study: str) -> str:
    """What the tables of docs/full-size.md say of a study."""
    text = (ROOT / "docs" / "full-size.md").read_text(encoding="utf-8")
    return "\n".join(re.findall(rf"^\| {study}[ ,].*$", text, re.M))


def test_it_lacks_nothing_of_its_study(pack: Committed) -> None:
    study = pack.study
    cells = [cell.split("/") for cell in pack.specifications]
    first = {(site, layout, cell[:-3]) for site, layout, cell in cells if cell.endswith(".r0")}
    asked = {(site, *pair) for site in {site for site, _, _ in cells} for pair in study.pairs(site)}
    assert asked - first == set()
    # What a claim compares is measured at one of its sites.
    judged = {pair for claim in study.claims for pair in compared(claim)}
    assert judged - {cell[1:] for cell in first} == set()


def test_it_has_its_confirming_rounds_or_their_lack_is_told(pack: Committed) -> None:
    confirming = any(re.search(r"\.c\d+$", cell) for cell in pack.specifications)
    if pack.study.confirms:
        assert confirming != ("without confirming rounds" in told(pack.name))


def test_every_record_counts(monkeypatch: pytest.MonkeyPatch, pack: Committed) -> None:
    monkeypatch.delenv("HYPERSLAB_DONOR", raising=False)
    study = pack.study
    hashes = study.hashes("main") | study.hashes("confirm")
    assert pack.specifications
    stale = [
        cell
        for cell, spec in pack.specifications.items()
        if specification.standing(hashes.get(cell.partition("/")[2]), spec, study.name) == "stale"
    ]
    assert not stale, f"{len(stale)} of {len(pack.specifications)} records are stale, such as {stale[0]}"


def test_rows_with_a_vector_take_less_than_a_gibibyte_of_memory(pack: Committed) -> None:
    own = [
        cell for cell, spec in pack.specifications.items() if spec["layout"].get("storage") == "offset-vector"
    ]
    for cell in own:
        assert pack.peak_memory_bytes[cell] < 2**30, (cell, pack.peak_memory_bytes[cell])
    # One whose page buffers are all that it compares has none of them yet.
    others = not pack.name.startswith(("vl-", "rows-"))
    assert own or others or pack.name.startswith(("vl-paged", "vl-page-buffer"))
