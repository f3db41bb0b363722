"""Cases of several workers: how one becomes a case a count, what it says in a specification, and mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies import PARALLEL, REDUCE, Content, load, mistake, parallel_study, with_case

from hyperslab.studies import specification
from hyperslab.studies.case_kinds import families
from hyperslab.studies.case_kinds.workers import by_ranks


def test_a_count_of_workers_is_a_case_of_its_own(tmp_path: Path) -> None:
    study = load(tmp_path, with_case(**REDUCE, ranks=[2], title="variance"))
    assert [name for name in study.cases if "team" in name] == ["team-1p", "team-2p", "team-4p", "team-2r"]
    titles = [study.cases[name]["title"] for name in ("team-1p", "team-2p", "team-2r")]
    assert titles == ["variance, 1 process", "variance, 2 processes", "variance, 2 MPI ranks"]
    assert families(study.cases, "speedup") == {
        "team": {"processes": {1: "team-1p", 2: "team-2p", 4: "team-4p"}, "ranks": {2: "team-2r"}}
    }


def test_what_decides_a_reduction_is_in_its_specification(tmp_path: Path) -> None:
    study = load(tmp_path, with_case(**REDUCE, states=["warm"], repeats={"warm": 9}))
    spec = specification.cell_specification(study, "4x4x64", "team-4p", "r1")
    assert spec["case"] == {
        "name": "team-4p", "kind": "reduce", "extent": [20, 30, 25], "states": ["warm"], "planes": "z",
        "split": "x", "by": "processes", "workers": 4, "family": "team",
    }  # fmt: skip
    assert spec["repeats"] == {"warm": 9}
    other = specification.cell_specification(study, "4x4x64", "slices", "r1")
    assert not set(other["case"]) & {"planes", "split", "by", "workers", "family", "parallel"}


def test_a_reduction_can_be_split_along_another_axis(tmp_path: Path) -> None:
    study = load(tmp_path, with_case(**REDUCE, split="y"))
    assert study.cases["team-1p"]["split"] == "y"


def test_a_parallel_case_is_one_an_interface_and_count(tmp_path: Path) -> None:
    study = load(tmp_path, parallel_study())
    apis = ("hdf5", "mpiio", "posix", "file-per-process")
    assert set(study.cases) == {f"team-{api}-{ranks}r" for api in apis for ranks in (1, 2)}
    case = study.cases["team-posix-2r"]
    # 3 datasets of 64 bytes, which are 32 elements, for each of two ranks.
    assert case["shape"] == [3, 64]
    assert study.cases["team-posix-1r"]["shape"] == [3, 32]
    assert case["states"] == ["write", "cold", "warm"]
    assert case["parallel"] == {
        "api": "posix", "datasets": 3, "bytes": 64, "transfer": 32, "block": 32, "interleaved": False,
        "collective": False, "hints": {},
    }  # fmt: skip
    assert case["title"] == "team, POSIX, 2 MPI ranks"


def of_ranks(layout: Content) -> Content:
    """The base study with a reduction by ranks, of one layout more."""
    content = with_case(reduce={"z": 25}, ranks=[2], layouts=["mine"])
    content["layouts"]["mine"] = layout
    return content


MISTAKES: list[tuple[Content, str]] = [
    (
        with_case(reduce={"z": 25}),
        "cases.team: a `reduce` case needs `processes` or `ranks`, such as [1, 2, 4]",
    ),
    (with_case(reduce={"z": 25}, processes=[]), "cases.team.processes: "),
    (with_case(reduce={"z": 25}, processes=[2, 2]), "cases.team: processes: each number at most once"),
    (
        with_case(reduce={"z": 25}, processes=[21]),
        "cases.team.processes: 21 cannot share axis x, which has 20",
    ),
    (
        with_case(reduce={"z": "all"}, processes=[1]),
        "cases.team.reduce: needs one axis with a number of planes",
    ),
    (with_case(reduce={"z": 25, "y": 3}, processes=[1]), "cases.team.reduce: needs one axis with a number"),
    (
        with_case(reduce={"w": 25}, processes=[1]),
        "cases.team.reduce.w: no such axis; the dataset has x, y, z",
    ),
    (
        with_case(reduce={"z": 401}, processes=[1]),
        "cases.team.reduce.z: extent 401 does not fit: axis z has 400",
    ),
    (with_case(**REDUCE, split="z"), "cases.team.split: should be another axis than z: x or y"),
    (
        of_ranks({"settings": {"driver": "stdio"}}),
        "cases.team.layouts: ranks open the file by the driver of MPI-IO, not by another",
    ),
    (
        of_ranks({"release": "2.0"}),
        "cases.team.layouts: ranks have the HDF5 of their own environment, not another release",
    ),
    (
        of_ranks({"settings": {"paging": {"page_bytes": 4096, "buffer_bytes": 65536}}}),
        "cases.team.layouts: parallel HDF5 has no page buffer; leave paging.buffer_bytes out",
    ),
    (
        {**parallel_study(), "settings": {"alloc_time": "late"}},
        "cases.team.layouts: ranks make a dataset with all of its space: alloc_time is early",
    ),
    (
        with_case(read={"z": 25}, processes=[2]),
        "cases.team: processes: only a `reduce` or a `summaries` or a `clients` case has it",
    ),
    (
        with_case(**PARALLEL),
        "cases.team: parallel: needs a dataset of two axes, datasets and the elements of each",
    ),
    (with_case(**{**PARALLEL, "processes": [1]}), "cases.team: a `parallel` case needs `ranks`"),
    (with_case(**PARALLEL, states=["session"]), "cases.team: a `parallel` case is read cold and warm"),
    (parallel_study(bytes=65), "cases.team.parallel: bytes (65) should be a multiple of transfer (32)"),
    (parallel_study(transfer=1), "cases.team: parallel.transfer: should be a multiple of 2, one uint16"),
    (parallel_study(block=16), "cases.team.parallel: only `interleaved: true` has blocks"),
    (
        parallel_study(block=24, interleaved=True),
        "cases.team.parallel: transfer (32) should be a multiple of block",
    ),
    (
        parallel_study(collective=True),
        "cases.team.parallel: posix has no collective calls; only hdf5 and mpiio",
    ),
    (
        parallel_study(hints={"cb_nodes": "1"}),
        "cases.team.parallel: posix has no hints; only hdf5 and mpiio have",
    ),
    (parallel_study(apis=[]), "cases.team.parallel.apis: "),
    (parallel_study(apis=["hdf4"]), "cases.team.parallel.apis.0: "),
    (parallel_study(datasets=6), "cases.team: parallel: 1 ranks need 6 along dataset, which has 5"),
    (parallel_study(bytes=128), "cases.team: parallel: 2 ranks need 128 along element, which has 64"),
]


@pytest.mark.parametrize(("content", "said"), MISTAKES, ids=[said[:60] for _, said in MISTAKES])
def test_a_mistake_is_one_line(tmp_path: Path, content: Content, said: str) -> None:
    assert mistake(tmp_path, content).startswith(said)


def test_ranks_open_what_was_allocated_at_any_time(tmp_path: Path) -> None:
    for settings in ({"alloc_time": "late"}, {"paging": {"page_bytes": 4096}}):
        assert "team-2r" in load(tmp_path, of_ranks({"settings": settings})).cases


def test_cases_of_ranks_are_known_by_what_they_are(tmp_path: Path) -> None:
    content = with_case(reduce={"z": 25}, processes=[2], ranks=[2])
    content["cases"]["other-4r"] = {"read": {"z": 5}}
    cases = load(tmp_path, content).cases
    assert [name for name, case in cases.items() if by_ranks(case)] == ["team-2r"]


def test_two_cases_of_one_name_are_refused(tmp_path: Path) -> None:
    content = with_case(**REDUCE)
    content["cases"]["team-4p"] = {"read": {"z": 5}}
    assert mistake(tmp_path, content) == "cases.team: there is another case 'team-4p'"


def test_chunks_are_for_parallel_hdf5_alone(tmp_path: Path) -> None:
    content = parallel_study()
    content["layouts"]["chunked"] = {"chunks": [1, 16]}
    assert mistake(tmp_path, content) == (
        "cases.team.layouts: mpiio has no chunks; name contiguous layouts (layout chunked)"
    )
    content["cases"]["team"]["parallel"]["apis"] = ["hdf5"]
    assert set(load(tmp_path, content).cases["team-hdf5-2r"]["layouts"]) == {"contiguous", "chunked"}
