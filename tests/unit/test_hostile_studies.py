"""What in a study once ended late, in a traceback or not at all: one line, before anything runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from studies import BASE, changed, load, mistake, with_case

from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.validation.errors import ConfigurationError

LONG = "a" * 250
CRITERION = {"case": "slices", "below": 0.1}
WRONG: list[tuple[str, Any, str]] = [
    # criteria and weights
    (
        "score.criteria",
        [CRITERION, {**CRITERION, "statistic": "median_s"}],
        "score.criteria.1: the same as criterion 0, 'slices session median_s < 0.1'; give one of them a",
    ),
    (
        "score.criteria",
        [{**CRITERION, "title": "fast"}, {"case": "slices", "below": 0.2, "title": "fast"}],
        "score.criteria.1: the same as criterion 0, 'fast'",
    ),
    (
        "score.criteria.0.title",
        "missing",
        "score.criteria.0.title: 'missing' is what a table of scores calls a column of its own",
    ),
    ("score.criteria.0.below", float("inf"), "score.criteria.0.below: should be a finite number, not inf"),
    ("score.criteria.0.below", float("nan"), "score.criteria.0.below: should be a finite number, not nan"),
    (
        "score.criteria",
        [{"statistic": "file_bytes", "case": "slice", "below": 1e6}],
        "score.criteria.0.case: no case 'slice'; the study has slices, write",
    ),
    (
        "score.published",
        ["4x4x6"],
        "score.published: no layout '4x4x6'; the study has 4x4x64, auto, cont",
    ),
    ("score.target", 8, "score.target: 8 layouts are asked for; the study has 7"),
    (
        "recommendation.mix",
        {"slices": float("inf")},
        "recommendation.mix.slices: should be a finite number, not inf",
    ),
    (
        "recommendation.mix",
        {"slices": 1e300},
        "recommendation.mix.slices: should be less than or equ",
    ),
    ("recommendation.size_bound", float("inf"), "recommendation.size_bound: should be a finite number"),
    ("recommendation.states", [], "recommendation.states: List should have at least 1 item"),
    (
        "published",
        {"slices": {"4x4x64": {"write_s": float("inf")}}},
        "published.slices.4x4x64.write_s: should",
    ),
    ("tradeoff", ["slices", "slices"], "tradeoff: names 'slices' twice"),
    # what a donor says already
    (
        "dataset",
        {"donor": {"path": "mine.h5", "dataset": "counts"}},
        "dataset: has a donor, but neither axes nor shape; `python -m hyperslab.draft FILE::",
    ),
    # no axis, no case, no site
    ("dataset.axes", [], "dataset.axes: List should have at least 1 item"),
    ("cases.slices.layouts", [], "cases.slices.layouts: List should have at least 1 item"),
    ("cases.slices.sites", [], "cases.slices.sites: List should have at least 1 item"),
    ("sites", [], "sites: expected a list of names of sites, or 'all'"),
    (
        "layouts.auto.format",
        {"hdf5": 1},
        "layouts.auto.format: should be 'hdf5' or 'zarr' or 'idx' or 'hdf5-s3' or ",
    ),
    (
        "layouts.auto",
        {"chunks": ["all", "all", "all"], "settings": {"libver": "latest", "fill_time": "never"}},
        "layouts.auto.settings.fill_time: never loses the values of a dataset of one chunk from libver",
    ),
    ("layouts.recommended", None, "layouts.recommended: recommended is what a rewritten file's target calls"),
    # names and texts
    ("layouts", {LONG: None}, f"layouts.{LONG}: should have at most 100 characters, not 'aaa"),
    ("cases", {LONG: {"write": "whole"}}, f"cases.{LONG}: should have at most 100 characters"),
    ("dataset.axes", [LONG, "y", "z"], "dataset.axes.0: should have at most 100 characters"),
    ("grids.0.name", "{m}" + LONG + "{n}", "grids.0.name: should have at most 100 characters, not '1aaa"),
    ("title", "a\x07b", "title: should hold no control characters (U+0007)"),
    ("title", "a\ud800b", "title: should be a valid string, unable to parse"),
    ("title", "", "title: should have at least 1 character"),
    ("title", "a" * 10**5, "title: should have at most 10000 characters"),
    ("layouts.auto.label", "a\0b", "layouts.auto.label: should hold no control characters (U+0000)"),
    ("dataset.donor", {"path": "a\0.npy"}, "dataset.donor.path: should hold no control characters"),
    ("dataset.donor", {"path": ""}, "dataset.donor.path: should have at least 1 character"),
    # numbers that no library takes, or no run ends with
    ("settings.chunk_cache_bytes", 2**64, "settings.chunk_cache_bytes: should be less than or equal to"),
    ("settings.chunk_cache_slots", 2**62, "settings.chunk_cache_slots: should be less than or equal to"),
    ("settings.sieve_bytes", 2**63, "settings.sieve_bytes: should be less than or equal to"),
    ("settings.meta_block_bytes", 2**64, "settings.meta_block_bytes: should be less than or equal to"),
    ("settings.conversion_buffer_bytes", 2**64, "settings.conversion_buffer_bytes: should be less than or"),
    ("settings.alignment", {"bytes": 2**64}, "settings.alignment.bytes: should be less than or equal to"),
    (
        "settings.alignment",
        {"bytes": 1, "threshold_bytes": 2**64},
        "settings.alignment.threshold_bytes: should be less than or equal to",
    ),
    (
        "settings.paging",
        {"page_bytes": 4096, "buffer_bytes": 2**64},
        "settings.paging.buffer_bytes: should be less than or equal to",
    ),
    (
        "settings.driver",
        {"name": "core", "increment_bytes": 2**64},
        "settings.driver.increment_bytes: should be less than or equal to",
    ),
    ("settings.garbage_collect_every", 2**64, "settings.garbage_collect_every: should be less than or equal"),
    ("seed", 2**64, "seed: should be less than or equal to"),
    ("rounds", 1000000, "rounds: should be less than or equal to 1000"),
    ("recommendation.confirm_rounds", 1000000, "recommendation.confirm_rounds: should be less than or equal"),
    ("repeats.cold", 10**9, "repeats.cold: should be less than or equal to 100000"),
    ("cases.slices.repeats", {"cold": 10**9}, "cases.slices.repeats.cold: should be less than or equal to"),
    ("layouts.auto.filters", ["shuffle"] * 40, "layouts.auto.filters: List should have at most 32 items"),
    ("grids.0.filters", ["shuffle"] * 40, "grids.0 (1by10).filters: List should have at most 32 items"),
    (
        "grids.0.over",
        {"m": list(range(1, 201)), "n": list(range(1, 201))},
        "grids.0.over: 40,000 layouts; a grid has at most 10,000",
    ),
    ("grids.0.over.m", [1, 1], "grids.0.over.m: 1 is given twice"),
]


@pytest.mark.parametrize(("path", "value", "expected"), WRONG, ids=lambda part: str(part)[:40])
def test_what_once_failed_late_is_one_line(tmp_path: Path, path: str, value: Any, expected: str) -> None:
    assert mistake(tmp_path, changed(path, value))[: len(expected)] == expected


def test_a_study_of_more_cells_than_can_be_planned(tmp_path: Path) -> None:
    content = changed("rounds", 1000)
    content["grids"] = [
        {"name": "{m}by{n}", "over": {"m": [*range(1, 21)], "n": [*range(1, 31)]}, "chunks": ["m", "n", 1]}
    ]
    assert mistake(tmp_path, content) == (
        "rounds: 1,206,000 cells at each site (layouts x cases x rounds); at most 200,000 can be planned"
    )


def test_more_workers_than_any_node_has(tmp_path: Path) -> None:
    content = with_case(reduce={"z": 25}, processes=[10**6])
    assert mistake(tmp_path, content).startswith("cases.team.processes.0: should be less than or equal to")


# ---- numbers that YAML 1.1 reads otherwise than they are written

MISREAD = {
    "rounds: 0200": "rounds: 0200 is 128 in YAML (octal); write 200, or '0200' in quotes",
    "rounds: -017": "rounds: -017 is -15 in YAML (octal); write -17, or '-017' in quotes",
    "seed: 1:30": "seed: 1:30 is 90 in YAML (base 60); write 90, or '1:30' in quotes",
    "zz: {a: [1, 2:30:00]}": "zz.a.1: 2:30:00 is 9000 in YAML (base 60); write 9000, or '2:30:00' in quotes",
    "zz: 1:30.5": "zz: 1:30.5 is 90.5 in YAML (base 60); write 90.5, or '1:30.5' in quotes",
    "layouts: {0200: }": "layouts.0200: 0200 is 128 in YAML (octal); write 200, or '0200' in quotes",
}


@pytest.mark.parametrize("line", MISREAD)
def test_numbers_that_yaml_reads_otherwise(tmp_path: Path, line: str) -> None:
    key = line.split(":")[0]
    text = yaml.safe_dump({name: value for name, value in yaml.safe_load(BASE).items() if name != key})
    assert mistake(tmp_path, f"{text}{line}\n") == MISREAD[line]


def test_numbers_that_yaml_reads_as_they_are_written(tmp_path: Path) -> None:
    text = BASE.replace("rounds: 3", "rounds: 0x3").replace("title: a study", "title: '0200'")
    assert load(tmp_path, text.replace("{cold: 7}", "{cold: 1_0}")).study.repeats["cold"] == 10


# ---- files that are no files, and studies that extend each other


def test_a_pipe_as_study_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "mine.yaml")
    with pytest.raises(ConfigurationError, match=r"mine\.yaml: is not a file that can be read twice"):
        PlannedStudy(tmp_path / "mine.yaml")


def test_a_file_without_end(tmp_path: Path) -> None:
    with (tmp_path / "mine.yaml").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(ConfigurationError, match=r"mine\.yaml: is larger than any configuration"):
        PlannedStudy(tmp_path / "mine.yaml")


@pytest.mark.parametrize("name", ["my study", "a{b}", "ü", LONG[:240], ".hidden"])
def test_a_study_whose_name_cannot_be_a_directorys(tmp_path: Path, name: str) -> None:
    file = tmp_path / f"{name}.yaml"
    file.write_text(BASE, encoding="utf-8")
    with pytest.raises(ConfigurationError, match="the name of a study, which is that of its file, should"):
        PlannedStudy(file)


def extending(directory: Path, **studies: str) -> str:
    """What is said of the study `a` among studies that each extend another."""
    for name, other in studies.items():
        (directory / f"{name}.yaml").write_text(f"extends: {other}\n", encoding="utf-8")
    with pytest.raises(ConfigurationError) as error:
        PlannedStudy(directory / "a.yaml")
    return str(error.value).removeprefix(f"{directory}/")


def test_studies_that_extend_each_other(tmp_path: Path) -> None:
    assert extending(tmp_path, a="b", b="c", c="a") == (
        "a.yaml: extends: goes in a circle: a extends b, b extends c, c extends a"
    )
    assert extending(tmp_path, a="a") == "a.yaml: extends: goes in a circle: a extends a"
    # The circle that a study leads to is not of its making.
    assert extending(tmp_path, a="b", b="c", c="b") == (
        "b.yaml: extends: goes in a circle: b extends c, c extends b"
    )


def test_a_study_that_extends_none_is_told_the_nearest(tmp_path: Path) -> None:
    names = [f"study-{number}" for number in range(30)]
    for name in ("openmsi-write", "openmsi-chunking", *names):
        (tmp_path / f"{name}.yaml").write_text(BASE, encoding="utf-8")
    assert extending(tmp_path, a="openmsi-chunkin") == (
        "a.yaml: extends: 'openmsi-chunkin' is not another study; there are 32: the nearest is "
        "openmsi-chunking"
    )


def test_the_nearest_layouts_are_named_and_not_all(tmp_path: Path) -> None:
    content = changed("grids.0.over.n", [*range(1, 41)])
    content["published"] = {"slices": {"4x4x65": {"write_s": 1}}}
    said = mistake(tmp_path, content)
    assert said.startswith("published.slices.4x4x65: no such layout in this case; it has 83: the nearest ")
    assert "4x4x64" in said and len(said) < 200


# ---- content that is deep or endless


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("settings: &a {b: *a}", "settings.b: unknown key"),
        ("dataset: &a {axes: [x], shape: [*a]}", "dataset.shape.0: should be a valid integer"),
        (
            "claims: {c: {sentence: s, source: s, section: s, testability: V, comparisons: "
            "[{says: s, above: 1, a: &a {per: *a}}]}}",
            "claims.c.comparisons.0.a.per: ",
        ),
    ],
)
def test_what_contains_itself(tmp_path: Path, line: str, expected: str) -> None:
    key = line.split(":")[0]
    text = yaml.safe_dump({name: value for name, value in yaml.safe_load(BASE).items() if name != key})
    assert mistake(tmp_path, f"{text}{line}\n").startswith(expected)


def test_a_few_lines_that_stand_for_a_billion(tmp_path: Path) -> None:
    lines = ["zz0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"zz{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert mistake(tmp_path, BASE + "\n".join(lines) + "\n").startswith("zz0: unknown key")
    text = BASE.replace("{chunk_cache_bytes: 1048576}", "{libver: *a11}")
    assert mistake(tmp_path, "\n".join(lines) + text).startswith("zz0: unknown key")


# ---- states of a case that it is never measured in


@pytest.mark.parametrize(
    ("case", "said"),
    [
        # Nothing would be measured at all, and its figure has no state to show.
        (
            {"open_all": True, "states": ["session"]},
            "states: a `open_all` case is never measured in state 'session'; leave it out",
        ),
        (
            {"write": "whole", "states": ["cold"]},
            "states: a `write` case is never measured in state 'cold'; leave it out",
        ),
    ],
)
def test_states_that_would_be_ignored(tmp_path: Path, case: dict[str, Any], said: str) -> None:
    assert mistake(tmp_path, with_case(**case)) == f"cases.team.{said}"


def test_repeats_are_for_states_in_which_a_case_is_measured(tmp_path: Path) -> None:
    """Those of a study, and what several cases share by an anchor."""
    content = with_case(write="whole", repeats={"write": 2, "warm": 4}) | {"repeats": {"session": 9}}
    assert load(tmp_path, content).cases["team"]["repeats"] == {"write": 2}


def test_what_a_mix_weighs_is_measured_in_the_states_that_count(tmp_path: Path) -> None:
    content = with_case(read={"x": 1, "y": 1}, states=["warm"])
    content["recommendation"] = {"mix": {"slices": 2, "team": 1, "write": 1}}
    said = "is not measured in state 'cold', which counts; measure it, or say in recommendation.states which"
    assert mistake(tmp_path, content) == f"recommendation.mix.team: case 'team' {said} count"
    # Where none has the default state, another one is measured on purpose; what is asked for has to be there.
    content["recommendation"] = {"mix": {"team": 1, "slices": 0}}
    assert load(tmp_path, content).study.recommendation.states == ["cold"]
    content["recommendation"]["states"] = ["warm", "cold"]
    assert mistake(tmp_path, content).startswith(f"recommendation.mix.team: case 'team' {said}")
    content["recommendation"]["states"] = ["warm"]
    load(tmp_path, content)


def test_days_that_no_calendar_has(tmp_path: Path) -> None:
    # 35 days of seconds, which were taken for days.
    content = changed("dataset.shape", [3_000_000, 2, 400])
    content["dataset"]["collection"] = {"along": "x", "first": "2013-01-01"}
    content |= {"layouts": {"months": {"files": "month"}}, "grids": []}
    assert mistake(tmp_path, content) == (
        "dataset: collection.first: 3,000,000 days from 2013-01-01 on end after the year 9999; leave it out "
        "where x is no axis of days"
    )
