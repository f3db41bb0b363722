"""The command that adds rounds: from look to look, with what is there; why it ends, and what a page says."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from report_samples import check_of, confirmed, page_of
from studies import changed, load

from hyperslab import add_rounds
from hyperslab.add_rounds import Adding, Look
from hyperslab.advising import at_sites
from hyperslab.advising.course import TIME_ENDED
from hyperslab.advising.prices import Storage
from hyperslab.advising.probe import Probe
from hyperslab.claims.open_comparisons import Comparison
from hyperslab.planning import inner_run
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.planning.stages import listed
from hyperslab.report.added_rounds import added_rounds

CELLS = (("disk", "auto", "slices"), ("disk", "4x4x64", "slices"))
OTHER = (("memory", "auto", "slices"),)


def records(site: str, rounds: range, layouts: tuple[str, ...] = ("auto", "4x4x64")) -> set[str]:
    return {f"results/mine/cells/{site}/{layout}/slices.r{n}.json" for n in rounds for layout in layouts}


class Run:
    """A study of 3 to 12 rounds whose comparisons are open until so many rounds, and what was measured."""

    def __init__(self, directory: Path, open_until: Mapping[str, int]) -> None:
        (directory / "config/studies").mkdir(parents=True)
        self.study: PlannedStudy = load(directory, changed("rounds", {"first": 3, "most": 12}))
        self.open_until = open_until
        self.output = Path("results/mine/rounds.json")
        self.asked: list[dict[str, Any]] = []
        self.reachable: tuple[str, ...] = ("disk", "memory")
        self.status = 0
        for site in ("disk", "memory"):
            self.put(records(site, range(3)))

    def put(self, names: set[str]) -> None:
        for name in names:
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).touch()

    def look(self, study: PlannedStudy, rounds: int, claim: str = "") -> Look:
        """Find each site's comparison open, as long as it has not as many rounds as decide it."""
        sides = {"disk": CELLS, "memory": OTHER}
        there: dict[str, int] = {}
        for path in add_rounds.records(study, rounds):
            number = int(path.stem.rsplit(".r", 1)[1]) + 1
            there[path.parts[-3]] = max(number, there.get(path.parts[-3], 0))
        found = [
            Comparison(f"of {site}", sides[site], there[site] < until)
            for site, until in self.open_until.items()
        ]
        return Look(found, [there[site] for site in self.open_until])

    def measure(self, target: str, phase: str, run: Any, config: Mapping[str, Any], log: Path) -> int:
        assert target == "added_cells"
        self.asked.append(dict(config))
        stage = listed(self.output)[int(config["stage"]) - 1]
        assert phase == stage.phase
        for site in stage.cells:
            if site in self.reachable:
                self.put(set(stage.records_at("mine", site)))
        return self.status

    def add(self, **config: Any) -> Any:
        """What rounds.json says in the end."""
        Adding(self.study, {"config": config}, self.output, Path("log")).all()
        return json.loads(self.output.read_text(encoding="utf-8"))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    def make(**open_until: int) -> Run:
        monkeypatch.chdir(tmp_path)
        made = Run(tmp_path, open_until)
        monkeypatch.setattr(add_rounds, "look", made.look)
        monkeypatch.setattr(inner_run, "measure", made.measure)
        # What is there counts as measured by today's study.
        monkeypatch.setattr(PlannedStudy, "is_todays", lambda self, record, cell: record.exists())
        return made

    return make


def test_it_ends_when_nothing_is_open(run: Callable[..., Run], capsys: pytest.CaptureFixture[str]) -> None:
    made = run(disk=7, memory=0)
    found = made.add()
    assert made.asked == [{"study": "mine", "stage": 1}, {"study": "mine", "stage": 2}]
    cells = {"disk": [["4x4x64", "slices"], ["auto", "slices"]]}
    assert found["stages"] == [{"rounds": [3, 5], "cells": cells}, {"rounds": [5, 8], "cells": cells}]
    assert set(found["wanted"]) == set(found["records"]) == records("disk", range(3, 8))
    assert [entry["why"] for entry in found["comparisons"]] == ["decided", "decided"]
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "hyperslab: mine: after 3 rounds 1 of 2 comparisons is open: 2 more rounds of 2 cells",
        "hyperslab: mine: after 5 rounds 1 of 2 comparisons is open: 3 more rounds of 2 cells",
        "hyperslab: mine: of 2 comparisons none is still open; no more rounds",
    ]


def test_it_ends_after_the_most_rounds(run: Callable[..., Run]) -> None:
    found = run(disk=99).add()
    assert [stage["rounds"] for stage in found["stages"]] == [[3, 5], [5, 8], [8, 12]]
    assert [(entry["rounds"], entry["why"]) for entry in found["comparisons"]] == [
        (12, "still open after the most rounds")
    ]


def test_nothing_open_adds_nothing(run: Callable[..., Run]) -> None:
    made = run(disk=0)
    assert made.add()["stages"] == []
    assert made.asked == []


def test_rounds_that_are_there_are_gone_through_again(run: Callable[..., Run]) -> None:
    made = run(disk=12)
    made.put(records("disk", range(3, 8)))
    found = made.add()
    assert [stage["rounds"] for stage in found["stages"]] == [[3, 5], [5, 8], [8, 12]]
    assert made.asked == [{"study": "mine", "stage": 3}]
    made.asked.clear()
    made.add(remeasure="*/*/slices.r4")
    assert [one["stage"] for one in made.asked] == [1, 2, 3], "each run inside measures what it is asked for"


def test_rounds_measured_for_another_reason_decide_where_the_first_leave_nothing_open(
    run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Open again with five rounds that are there, though decided after three: two of three looks err."""
    made = run(disk=0)
    made.put(records("disk", range(3, 5)))
    honest = made.look

    def look(study: PlannedStudy, rounds: int, claim: str = "") -> Look:
        found = honest(study, rounds)
        open_ = found.rounds[0] == 5
        return Look([Comparison("of disk", CELLS, open_)], found.rounds)

    monkeypatch.setattr(add_rounds, "look", look)
    found = made.add()
    assert [stage["rounds"] for stage in found["stages"]] == [[3, 5], [5, 8]]
    assert made.asked == [{"study": "mine", "stage": 2}]


def test_without_measuring_it_says_that_no_rounds_were_added(run: Callable[..., Run]) -> None:
    made = run(disk=7)
    found = made.add(measure=False)
    assert made.asked == []
    assert [stage["rounds"] for stage in found["stages"]] == [[3, 5]]
    assert found["records"] == []
    (entry,) = found["comparisons"]
    assert (entry["open"], entry["why"]) == (
        True,
        "no rounds were added at disk, which this run did not measure",
    )


def test_records_of_a_site_that_the_study_no_longer_has_decide_nothing(
    run: Callable[..., Run], tmp_path: Path
) -> None:
    made = run()
    assert {path.parts[-3] for path in add_rounds.records(made.study, 3)} == {"disk", "memory"}
    one = load(tmp_path, changed("sites", ["disk"]))
    assert {path.parts[-3] for path in add_rounds.records(one, 3)} == {"disk"}


def test_a_site_that_is_not_reached_holds_up_no_other(run: Callable[..., Run]) -> None:
    made = run(disk=7, memory=7)
    made.reachable = ("disk",)
    found = made.add()
    first, second = found["stages"]
    assert set(first["cells"]) == {"disk", "memory"}
    assert set(second["cells"]) == {"disk"}
    assert [(entry["rounds"], entry["why"]) for entry in found["comparisons"]] == [
        (8, "decided"),
        (3, "no rounds were added at memory, which this run did not measure"),
    ]


def test_a_cell_that_fails_ends_it(run: Callable[..., Run]) -> None:
    made = run(disk=7)
    made.status = 1
    with pytest.raises(SystemExit, match="not every added cell could be measured; see log"):
        made.add()
    # What was to be measured stays listed for the next run.
    assert [stage.end for stage in listed(made.output)] == [5]


def advised_until(made: Run, seconds: float, took: float, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have the study be one of an advice that ends so many seconds from now, whose records took `took` each.

    Returns the names of the sites that are probed, as they are.
    """
    for number, record in enumerate(sorted(Path("results").rglob("*.json"))):
        os.utime(record, (1000.0 + took * number, 1000.0 + took * number))
    site = {"described": {"name": "disk", "executor": "local"}}
    told = {"deadline_wall_s": time.time() + seconds, "sites": {"disk": site}}
    Path("results/mine/prediction.json").write_text(json.dumps(told), encoding="utf-8")
    probed: list[str] = []

    def probe(site: Mapping[str, Any], zarr: bool) -> Probe:
        probed.append(site["name"])
        return Probe(Storage(1e-4, 1e-9, 5e-10, 1e-10, 5e-6, 1e-3, 2**17), None, {}, 5.0, 10**9)

    monkeypatch.setattr(at_sites, "probed", probe)
    return probed


@pytest.mark.parametrize(
    ("seconds", "stages"),
    [
        (1000.0, [[3, 5], [5, 8], [8, 12]]),
        # Two cells a round of ten seconds each, and a look: one round more, though two were to come.
        (30.0, [[3, 4]]),
        (20.0, []),
        (-5.0, []),
    ],
)
def test_an_advice_adds_rounds_until_its_time_ends_and_probes_between_them(
    run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, seconds: float, stages: list[list[int]]
) -> None:
    made = run(disk=99)
    probed = advised_until(made, seconds, 10.0, monkeypatch)
    found = made.add()
    assert [stage["rounds"] for stage in found["stages"]] == stages
    (entry,) = found["comparisons"]
    assert entry["why"] == ("still open after the most rounds" if len(stages) == 3 else TIME_ENDED)
    assert probed == ["disk"] * (max(1, len(stages)) if seconds > 0 else 0)
    assert len(found.get("probes", {}).get("disk", [])) == len(probed)


def test_rounds_of_an_advice_that_are_there_need_no_time(
    run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = run(disk=5)
    made.put(records("disk", range(3, 5)))
    assert advised_until(made, -1000.0, 10.0, monkeypatch) == []
    found = made.add(measure=False)
    assert [stage["rounds"] for stage in found["stages"]] == [[3, 5]] and made.asked == []


ROUNDS: dict[str, Any] = {
    "first": 3, "most": 12, "looks": [3, 5, 8, 12], "stages": [],
    "comparisons": [
        {"says": "1.1: fast", "sites": ["disk"], "rounds": 5, "open": False, "why": "decided"},
        {"says": "a against b", "sites": ["disk"], "rounds": 12, "open": True, "why": "still open"},
        {"says": "1.2: small", "sites": ["disk", "memory"], "rounds": 3, "open": False, "why": "decided"},
    ],
}  # fmt: skip


def test_a_page_says_how_many_rounds_each_comparison_had() -> None:
    check = check_of(confirmed(rounds=ROUNDS), "Added rounds")
    assert check.tone == "bad"
    assert "1 of 3 comparisons is still open" in check.text
    assert "after 3, 5, 8 and 12 rounds, at a level of 1.25 % each" in check.text
    (listed_,) = check.details
    rows = [[cell.text for cell in row] for row in listed_.rows]
    assert rows[0] == ["disk", "a against b", "12", "still open"]
    assert rows[2][0] == "disk and memory"
    done = {**ROUNDS, "comparisons": [ROUNDS["comparisons"][0], ROUNDS["comparisons"][2]]}
    check = check_of(confirmed(rounds=done), "Added rounds")
    assert check.tone == "good"
    assert "All of 2 comparisons are decided, 1 of them in more than the first rounds" in check.text
    assert not [check for check in page_of().checks if check.name == "Added rounds"]


@pytest.mark.parametrize(
    ("rounds", "said"),
    [
        ([], "There are no comparisons to decide."),
        ([3], "The only comparison is decided, in the first rounds."),
        ([5], "The only comparison is decided, in more than the first rounds."),
    ],
)
def test_one_comparison_and_none_are_not_several(rounds: list[int], said: str) -> None:
    told = [{**ROUNDS["comparisons"][0], "rounds": number} for number in rounds]
    data: Any = SimpleNamespace(rounds={**ROUNDS, "comparisons": told})
    (check,) = added_rounds(data)
    assert check.text.startswith(f"{said} Looked at after")
