"""Commands that judge end with one line where there is nothing to judge by, or something was mistyped."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
import yaml
from studies import changed, load
from test_environments import ROOT

import check_comparisons
import check_harness
import compare_with_h5repack
import judge_advice
import judged_plan
import replay_advice
import simulate_comparisons
from beyond_grid import judged
from hyperslab.validation.errors import ConfigurationError
from judge_advice import Case, pick_of

PAIR = {"chunks": [4, 4, 64], "second": {"chunks": [8, 8, 1], "cases": ["slices"]}}
INSIDE = {"contiguous", "4x4x64"}
# A command, what it is given, and what it says.
MISTAKES: list[tuple[ModuleType, list[str], str]] = [
    (check_comparisons, ["--against", "gone.parquet"], "--against: gone.parquet: there is no such file"),
    (check_comparisons, ["--results", "gone"], "is missing; run: .venv/bin/snakemake --profile "),
    (simulate_comparisons, ["packs/same-twise.tar.xz"], "do you mean packs/same-twice.tar.xz?"),
    (check_harness, ["quik"], "config/studies/quik.yaml: there is no such study; there are "),
    (check_harness, ["quick", "--layouts", "4x4"], "--layouts: no '4x4' in study quick; there are "),
    (check_harness, ["quick", "--layouts", "contiguous", "--cases", "spectrum"], "no 'spectrum' in study "),
    (judge_advice, ["gone.yaml"], "gone.yaml: there is no such file"),
    (replay_advice, ["--donor", "same-twice"], "--donor: same-twice: should be NAME=FILE"),
    (replay_advice, ["--donor", "same-twise=mine.h5"], "--donor: no pack 'same-twise' is replayed"),
    (compare_with_h5repack, ["mine.h5", "/counts", "{}"], "needs h5repack and h5diff"),
]


def grid_rows(rounds: int, state: str = "cold", file_bytes: float = 1.0) -> pd.DataFrame:
    """A summary of the layouts of a grid, one outside of it, and two copies."""
    return pd.DataFrame(
        {"site": "disk", "layout": layout, "case": "slices", "kind": "read", "phase": "main", "state": state,
         "round": number, "median_s": seconds * (1 + 0.01 * number), "file_bytes": file_bytes}
        for layout, seconds in {"contiguous": 0.4, "4x4x64": 0.2, "auto": 0.1, "pair": 0.05}.items()
        for number in range(rounds)
    )  # fmt: skip


@pytest.fixture
def study(tmp_path: Path) -> Any:
    """The study of these layouts."""
    content = changed("layouts.pair", PAIR)
    content["cases"]["write"]["layouts"] = ["auto"]
    return load(tmp_path, content)


def test_layouts_beyond_a_grid_are_held_against_it(study: Any) -> None:
    outside, *two = judged(study, INSIDE, grid_rows(6))
    assert "auto is 2.00 times as fast as 4x4x64" in outside
    assert [line.partition(" is ")[0] for line in two] == ["two copies, to be 1.5: pair"] * 2


@pytest.mark.parametrize(
    ("rows", "inside", "said"),
    [
        (grid_rows(6, "library-cold"), INSIDE, "disk: needs layouts that were read cold in every case"),
        (grid_rows(1), INSIDE, "in two rounds or more"),
        (grid_rows(6, file_bytes=1e12), INSIDE, "no layout of the grid in a file as small as the raw array"),
        (grid_rows(6), {"other"}, "measured no layout of the grid"),
    ],
    ids=["memory", "one round", "large files", "no grid"],
)
def test_a_grid_that_cannot_be_judged_is_one_line(
    study: Any, rows: pd.DataFrame, inside: set[str], said: str
) -> None:
    with pytest.raises(ConfigurationError) as error:
        judged(study, inside, rows)
    assert said in str(error.value) and len(str(error.value).splitlines()) == 1


def test_advice_without_a_pick_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    case = Case("waves", "equal", "disk")
    folder = tmp_path / "results" / case.study
    folder.mkdir(parents=True)
    sites = [{"site": "disk", "pick": None, "reason": "no layout has a small file"}]
    (folder / "recommendation.json").write_text(json.dumps({"sites": sites}), encoding="utf-8")
    said = f"error: results/{case.study}/recommendation.json: no layout is advised for disk: no layout has a"
    with pytest.raises(SystemExit, match=said):
        pick_of(case)


WAVES: dict[str, Any] = {
    "dataset": {"axes": ["t", "y"], "shape": [300, 400]},
    "reads": {"row": {"t": 1}, "column": ["all", 1]},
    "mixes": {"equal": {}, "rows": {"row": 10, "column": 1}},
}
PLAN: dict[str, Any] = {"sites": ["disk", "portal"], "arrays": {"waves": WAVES}}
# What a plan says otherwise, None for nothing at all, and what is said of that.
MISTAKEN_PLANS: list[tuple[dict[str, Any] | None, str]] = [
    (None, "expected a mapping of keys to values"),
    ({"second": 60}, "second: unknown key; allowed are sites, seconds, arrays; did you mean seconds?"),
    ({"seconds": {"dsk": 120}}, "seconds: no site 'dsk'; there are disk, portal"),
    ({"seconds": 5}, "seconds: expected seconds from 20 on, or a mapping of sites to such"),
    ({"sites": ["disk", "disk"]}, "sites: each at most once"),
    ({"arrays": {"waves": {**WAVES, "mixs": {}}}}, "arrays.waves.mixs: unknown key"),
    ({"arrays": {"waves": {**WAVES, "reads": {"a": {"z": 1}}}}}, "arrays.waves: reads: a: no axis 'z'"),
    (
        {"arrays": {"waves": {**WAVES, "mixes": {"rows": {"row": 1}}}}},
        "arrays.waves: mixes.rows: mix: says nothing of read 'column'",
    ),
]


@pytest.mark.parametrize(("changes", "said"), MISTAKEN_PLANS)
def test_a_plan_that_cannot_be_meant_is_one_line(
    changes: dict[str, Any] | None,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text("" if changes is None else yaml.safe_dump({**PLAN, **changes}), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["judge_advice.py", str(file), "--dry-run"])
    with pytest.raises(SystemExit):
        judge_advice.main()
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"judge_advice.py: error: {file}: {said}")


def test_the_plan_that_ships_is_one() -> None:
    first, *_ = judge_advice.foretold(judged_plan.plan_of(ROOT / "config" / "advice-judge.yaml"))
    assert first.startswith("18 advices, 27 min: advice-judge-waveforms-equal-local-loop-disk, ")


def test_the_plan_that_the_help_shows_is_one(tmp_path: Path) -> None:
    shown = [line for line in (judge_advice.__doc__ or "").splitlines() if line.startswith("    ")]
    (file := tmp_path / "plan.yaml").write_text("\n".join(shown), encoding="utf-8")
    assert judged_plan.plan_of(file)["sites"] == ["disk", "portal"]


def test_a_step_that_needs_another_first_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = "recommendation.json: there is no such file; run it with --only advise first"
    with pytest.raises(SystemExit, match=said):
        pick_of(Case("waves", "equal", "disk"))
    # Advised anew when the grid had been measured.
    for folder in ("config/studies", "results/judge-waves"):
        Path(folder).mkdir(parents=True)
    judge_advice.write("judge-waves", {"layouts": {"contiguous": None}})
    Path("results/judge-waves/summary.csv").touch()
    monkeypatch.setattr(judge_advice, "read_summary", lambda _: grid_rows(3))
    monkeypatch.setattr(judge_advice, "pick_of", lambda _: ("4x4", {"chunks": [4, 4]}, 40.0))
    said = "summary.csv: lacks 4x4, which advice-judge-waves-equal-disk advises, or .* --only grid again"
    with pytest.raises(SystemExit, match=said):
        list(judge_advice.table(PLAN))


@pytest.mark.parametrize(("command", "arguments", "said"), MISTAKES)
def test_what_is_mistyped_or_missing_is_one_line(
    command: ModuleType,
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(ROOT)
    # No tool is there.
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [f"{command.__name__}.py", *arguments])
    with pytest.raises(SystemExit):
        command.main()
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"{command.__name__}.py: error: ") and said in last
