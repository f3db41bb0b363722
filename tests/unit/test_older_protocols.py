"""Results of an older timing protocol: which of them count, where they give way, and where it is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from claim_samples import judged, measured, resolved
from report_samples import MAIN, check_of, inputs
from report_samples import measured as repeats_of
from samples import file_specification
from studies import BASE, load
from yaml import safe_load

from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.planning.reruns import out_of_step
from hyperslab.records import write_record
from hyperslab.report import claims as claims_page
from hyperslab.report.build import build_page
from hyperslab.report.data import Inputs
from hyperslab.results.tables import superseded
from hyperslab.specifications import Specification
from hyperslab.studies import specification
from hyperslab.studies.case_kinds import KINDS

READ, REDUCE = KINDS["read"], KINDS["reduce"]
(OLDER,) = READ.older_protocols


def study_of(directory: Path, **changes: Any) -> PlannedStudy:
    """A study that says nothing of cold repeats, unless changed."""
    content = {**safe_load(BASE), "repeats": {}}
    content["cases"]["team"] = {"reduce": {"z": 25}, "processes": [2]}
    return load(directory, {**content, **changes})


def before(spec: Specification, cold: int = 15) -> Any:
    """The specification of the same cell as the older protocol had it."""
    kind = KINDS[spec["case"]["kind"]]
    (number,) = kind.older_protocols
    kept: Any = {key: value for key, value in spec.items() if key not in ("study", "most_repeats")}
    return {**kept, "protocol": number, "repeats": {**spec["repeats"], "cold": cold}}


def standing(study: PlannedStudy, spec: Any, case: str = "slices") -> str:
    today = specification.cell_specification(study, "auto", case, "r0")
    return specification.standing(specification.digest(today), spec, study.name)


@pytest.mark.parametrize("case", ["slices", "team-2p"])
@pytest.mark.parametrize("cold", [None, 15, 20])
def test_those_of_the_same_cell_count(tmp_path: Path, case: str, cold: int | None) -> None:
    study = study_of(tmp_path, repeats={"cold": cold} if cold else {})
    today = specification.cell_specification(study, "auto", case, "r0")
    assert standing(study, today, case) == "today"
    assert standing(study, before(today, cold or 15), case) == "older protocol"
    # Other repeats than the study's were other ones then, too.
    assert standing(study, before(today, 16), case) == "stale"


@pytest.mark.parametrize(
    "change", [{"seed": 2}, {"round": "r1"}, {"protocol": OLDER - 1}, {"study": "other"}, {"protocol": 99}]
)
def test_those_of_another_cell_do_not(tmp_path: Path, change: dict[str, Any]) -> None:
    study = study_of(tmp_path)
    today = specification.cell_specification(study, "auto", "slices", "r0")
    assert standing(study, {**before(today), **change}) == (
        "older protocol" if "study" in change else "stale"
    )
    assert standing(study, {**today, **change}) == "stale"


def test_a_cell_that_the_study_has_no_more_is_stale(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    today = specification.cell_specification(study, "auto", "slices", "r0")
    assert specification.standing(None, before(today), study.name) == "stale"


def test_writes_keep_their_protocol(tmp_path: Path) -> None:
    spec = specification.cell_specification(study_of(tmp_path), "auto", "write", "r0")
    assert not KINDS["write"].older_protocols
    assert "study" not in spec
    assert file_specification((2, 2, 2)).get("study") is None


def test_a_record_of_an_older_protocol_counts_but_is_not_todays(tmp_path: Path) -> None:
    study, cell = study_of(tmp_path), ("auto", "slices", "r0")
    today = specification.cell_specification(study, *cell)
    path = tmp_path / "a.json"
    for spec, found in (
        (today, (True, True)),
        (before(today), (False, True)),
        (before(today, 9), (False, False)),
    ):
        write_record(path, {"specification": spec, "repeats": []})
        assert (study.is_todays(path, cell), study.counts(path, cell)) == found
    assert not study.counts(tmp_path / "none.json", cell)


def test_they_are_measured_again_only_beside_what_is_or_will_be_todays(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    folder = tmp_path / "results/mine/cells/disk"

    def placed(layout: str, round_: str, older: bool) -> Path:
        today = specification.cell_specification(study, layout, "slices", round_)
        path = folder / layout / f"slices.{round_}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_record(path, {"specification": before(today) if older else today, "repeats": []})
        return path

    first = [placed(layout, "r0", older=True) for layout in ("auto", "contiguous")]
    assert out_of_step(study, first) == []
    mixed = [placed("auto", "r1", older=True), placed("contiguous", "r1", older=False)]
    assert out_of_step(study, first + mixed) == [mixed[0]]
    gone = folder / "4x4x64/slices.r0.json"
    assert out_of_step(study, [*first, gone]) == [*first, gone]


# ---- in tables


def test_they_give_way_where_the_same_round_was_measured_under_todays() -> None:
    table = repeats_of(MAIN, "main")
    older = (table["case"] == "slices") & ~((table["layout"] == "auto") & (table["round"] == 2))
    both = superseded(table.assign(older_protocol=older.map({True: OLDER, False: None}).astype(float)))
    assert both["stale"].tolist() == (older & (table["round"] == 2)).tolist()
    # What is stale is not also of an older protocol that counts.
    assert (both["older_protocol"].notna() == (older & (table["round"] < 2))).all()


def test_rounds_may_be_added_to_them() -> None:
    table = repeats_of(MAIN, "main", rounds=5)
    older = table["round"] < 3
    both = superseded(table.assign(older_protocol=older.map({True: OLDER, False: None}).astype(float)))
    assert not both["stale"].any()
    assert (both["older_protocol"].notna() == older).all()


def test_they_stay_where_nothing_else_was_measured() -> None:
    table = repeats_of(MAIN, "main")
    older = table["case"] == "slices"
    table = table.assign(older_protocol=older.map({True: OLDER, False: None}).astype(float))
    assert not superseded(table)["stale"].any()
    assert (superseded(table)["older_protocol"].notna() == older).all()
    # A stale result of today's protocol takes nobody's place, nor does one of another phase or site.
    gone = (table["layout"] == "auto") & (table["round"] == 2)
    others = older & ~gone
    for change in ({"stale": gone}, {"phase": gone.map({True: "confirm", False: "main"})},
                   {"site": gone.map({True: "far", False: "disk"})}):  # fmt: skip
        mixed = table.assign(**change, older_protocol=table["older_protocol"].where(~gone))
        assert (superseded(mixed)["older_protocol"].notna() == others).all()
        assert not (superseded(mixed)["stale"] & ~gone).any()


def test_every_older_protocol_says_what_it_lacks() -> None:
    for kind in KINDS.values():
        for number, words in kind.older_protocols.items():
            assert 0 < number < kind.protocol
            assert words


# ---- on pages


def test_the_report_says_which_records_are_of_an_older_protocol() -> None:
    main = repeats_of(MAIN, "main")
    older = (main["case"] == "slices").map({True: OLDER, False: None}).astype(float)
    page = build_page(Inputs(**inputs(main.assign(older_protocol=older), None)))
    found = check_of(page, "Older timing protocol")
    assert found.tone == "unknown"
    assert f"9 records of read cases are of protocol {OLDER}, today's is {READ.protocol}" in found.text
    assert READ.older_protocols[OLDER] in found.text
    assert len(found.details[0].rows) == 3
    assert check_of(page, "Stale records").tone == "good"
    # They count: the page has their times.
    assert page.overview.rows[0][0].text == "disk"
    assert check_of(inputs(main, None), "Older timing protocol").tone == "good"


def test_a_verdict_says_under_which_protocol_it_was_measured(tmp_path: Path) -> None:
    def truth(case: str, layout: str, values: Any) -> float:
        return 2.0 if layout == "contiguous" else 1.0

    faster: dict[str, Any] = {
        "a": {"layouts": "2x2x10", "case": "slices"},
        "b": {"layouts": "contiguous"},
        "below": 1,
    }
    size = {"a": {"layouts": "2x2x10", "case": "slices", "of": "file_bytes"}, "equals": 500}
    table = measured(truth)
    older = (table["case"] == "slices").map({True: OLDER, False: None}).astype(float)
    for claims, rows, marked in (
        (resolved(tmp_path, faster), table.assign(older_protocol=older), True),
        (resolved(tmp_path, faster), table, False),
        # Another case, and what does not depend on how it is read.
        (resolved(tmp_path, {**faster, "a": {**faster["a"], "case": "spectra"}}),
         table.assign(older_protocol=older), False),
        (resolved(tmp_path, size), table.assign(older_protocol=older), False),
    ):  # fmt: skip
        (verdict,) = judged(claims, rows)
        assert verdict["verdict"] == "holds"
        assert verdict.get("older_protocols", []) == ([OLDER] if marked else [])
        told = {**claims[0], "verdicts": [verdict]}
        (row,) = claims_page.rows([{"study": "mine", "claims": [told]}], lambda *_: None)
        assert (f"timing protocol {OLDER}" in row.entries[0].where) == marked
