"""Summaries of planes: those of numpy's masked arrays, however they are cut, merged and shared."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from studies import load, mistake
from test_collections import LAYOUTS, memory_root, study  # noqa: F401

from hyperslab import cases, formats
from hyperslab.cases.context import Context, VerificationError
from hyperslab.cases.reduce import case as reduction
from hyperslab.cases.reduce import moments
from hyperslab.cases.reduce.summaries import Summaries
from hyperslab.data.models import missing_of, open_content
from hyperslab.data.selections import Box
from hyperslab.measuring import node_memory
from hyperslab.measuring.artifact import FETCHED, Artifact
from hyperslab.planning.planned_study import PlannedStudy

pytestmark = pytest.mark.usefixtures("own_locks")
MISSING = -999.0
SUMMARIES = {
    "summaries": {"day": "all"},
    "processes": [1, 2],
    "states": ["cold", "warm", "session"],
    "repeats": {"cold": 1, "warm": 1, "session": 1},
}


def summaries_of(block: Any, axis: int) -> Summaries:
    found = Summaries.nothing(block.shape[axis], MISSING)
    found.add(block, axis)
    return found


def assert_numpys(found: Summaries, block: Any, axis: int) -> None:
    """Compare with numpy.ma, plane by plane."""
    for number, plane in enumerate(np.moveaxis(block, axis, 0)):
        masked = np.ma.masked_equal(plane.astype(np.float64), MISSING)
        assert found.count[number] == masked.count()
        if masked.count():
            assert (found.least[number], found.greatest[number]) == (masked.min(), masked.max())
            assert found.mean[number] == pytest.approx(masked.mean(), rel=1e-12, abs=1e-12)
            assert found.deviation[number] == pytest.approx(masked.std(), rel=1e-9, abs=1e-9)
        else:
            assert (found.least[number], found.greatest[number]) == (np.inf, -np.inf)


BLOCKS = arrays(
    np.float32,
    st.tuples(*[st.integers(1, 5)] * 3),
    elements=st.sampled_from([MISSING, -1.8, 0.0, 0.1, 25.5, 1e6]),
)


@given(BLOCKS, st.integers(0, 2))
def test_summaries_are_those_of_masked_arrays(block: Any, axis: int) -> None:
    assert_numpys(summaries_of(block, axis), block, axis)
    truth = Summaries.nothing(block.shape[axis], MISSING)
    truth.exact(block, axis)
    assert_numpys(truth, block, axis)
    assert not len(summaries_of(block, axis).differing(truth))


@given(BLOCKS, st.integers(0, 2), st.data())
def test_merged_parts_are_the_whole(block: Any, axis: int, data: st.DataObject) -> None:
    across = data.draw(st.sampled_from([other for other in range(3) if other != axis]))
    cut = data.draw(st.integers(0, block.shape[across]))
    parts = [summaries_of(part, axis) for part in np.split(block, [cut], axis=across)]
    merged, _ = moments.merged(parts, block.shape[axis])
    assert isinstance(merged, Summaries)
    assert_numpys(merged, block, axis)


def test_a_long_plane_is_gone_through_piece_by_piece() -> None:
    block = np.random.default_rng(1).normal(15, 8, (3, 500, 700)).astype(np.float32)
    block[:, 100:300, 200:500] = MISSING
    assert block[0].size > moments.STEP_ELEMENTS
    assert_numpys(summaries_of(block, 0), block, 0)


@pytest.mark.parametrize("change", ["count", "mean", "m2", "least", "greatest"])
def test_a_summary_that_is_not_the_truth_is_found(change: str) -> None:
    block = np.linspace(0, 9, 60, dtype=np.float32).reshape(3, 4, 5)
    truth, found = summaries_of(block, 0), summaries_of(block, 0)
    getattr(found, change)[1] += 1e-6
    assert list(found.differing(truth)) == [1]


def test_nan_is_in_all_that_is_said_of_its_plane_as_in_numpys() -> None:
    block = np.linspace(0, 9, 60, dtype=np.float32).reshape(3, 4, 5)
    block[1, 2, 3] = np.nan
    truth = Summaries.nothing(3, None)
    truth.exact(block, 0)
    parts = [summaries_of(part, 0) for part in np.split(block, [2], axis=1)]
    merged, _ = moments.merged(parts, 3)
    assert np.isnan([merged.least[1], merged.greatest[1], truth.least[1]]).all()  # type: ignore[attr-defined]
    assert not len(merged.differing(truth))
    assert list(summaries_of(np.nan_to_num(block), 0).differing(truth)) == [1]


def test_infinite_values_are_no_difference() -> None:
    """In which pieces they were added decides whether a mean is infinite or no number."""
    block = np.random.default_rng(1).normal(0, 1, (2, 500, 700)).astype(np.float32)
    block[0, 0, 0] = -np.inf
    truth = Summaries.nothing(2, None)
    truth.exact(block, 0)
    parts = [summaries_of(part, 0) for part in np.split(block, 2, axis=1)]
    merged, _ = moments.merged(parts, 2)
    assert not len(summaries_of(block, 0).differing(truth)) and not len(merged.differing(truth))
    assert list(summaries_of(np.nan_to_num(block, neginf=0.0), 0).differing(truth)) == [0]


@pytest.mark.parametrize(
    ("dtype", "missing"), [("uint16", -999), ("int32", -999.5), ("uint8", 256), ("float32", 1e39)]
)
def test_what_no_element_can_be_is_no_mark_of_a_missing_value(
    tmp_path: Path, dtype: str, missing: float
) -> None:
    dataset = {"axes": ["x", "y"], "shape": [4, 4], "dtype": dtype, "missing": missing}
    said = mistake(tmp_path, {"title": "t", "dataset": dataset, "layouts": {"a": None}, "cases": {}})
    assert f"missing: {missing:g} is no {dtype}" in said


@pytest.mark.parametrize(("dtype", "missing"), [("int64", 2 - 2**63), ("uint64", 2**64 - 2), ("int64", -999)])
def test_what_netcdf_puts_where_an_integer_is_missing_is_left_out_though_no_float_holds_it(
    tmp_path: Path, dtype: str, missing: int
) -> None:
    dataset = {"axes": ["x", "y"], "shape": [4, 4], "dtype": dtype, "missing": missing}
    layouts = {"layouts": {"a": None}, "cases": {"rows": {"read": {"x": 1}}}}
    loaded = load(tmp_path, {"title": "t", "dataset": dataset, **layouts}).dataset
    kept = missing_of(json.loads(json.dumps(loaded.model_dump(exclude_none=True))))
    # A number that a float holds is one, as in the records that there are.
    assert kept == missing and isinstance(kept, float) == (float(missing) == missing)
    block = np.full((1, 4, 4), missing, dtype)
    # Its neighbours, which a float takes for it, are values.
    block[0, 0, :3] = np.array([missing - 1, missing + 1, 7], dtype)
    found = Summaries.nothing(1, kept)
    found.add(block, 0)
    assert (found.count[0], found.greatest[0]) == (3, block[0, 0, :3].max())


# ---- cells


def cell(directory: Path, layout: str, name: str = "days-2p", **changes: Any) -> Context:
    """A cell of summaries of all days, its files made."""
    content = study(cases={"days": {**SUMMARIES, **changes}})
    (directory / "mine.yaml").write_text(json.dumps(content, default=str), encoding="utf-8")
    spec = json.loads(PlannedStudy(directory / "mine.yaml").cell_text(layout, name, "r0"))
    format_ = formats.format_of(spec["layout"])
    values = open_content(spec["dataset"])
    path = directory / "data"
    format_.generate(str(path), spec, values)
    return Context(spec, format_, str(path), values, True)


@pytest.mark.parametrize(("layout", "name"), [("all", "days-1p"), ("month", "days-2p"), ("zarr", "days-2p")])
def test_workers_share_the_days_of_a_collection(
    memory_root: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    layout: str,
    name: str,
) -> None:
    found: list[reduction.Found] = []
    verify = reduction.Repeats.verify

    def kept(self: reduction.Repeats, values: Any) -> None:
        found.extend(self.found)
        verify(self, values)

    monkeypatch.setattr(reduction.Repeats, "verify", kept)
    context = cell(memory_root, layout, name)
    outcome = cases.load("summaries")(context)
    assert [row["state"] for row in outcome.repeats] == ["warm", "session", "library-cold"]
    assert {row["processes"] for row in outcome.repeats} == {int(name[-2])}
    whole = context.values.block((0, 0, 0), context.values.shape)
    for one in found:
        assert isinstance(one.planes, Summaries)
        assert_numpys(one.planes, whole, 0)


def test_workers_may_share_another_axis(memory_root: Path) -> None:  # noqa: F811
    context = cell(memory_root, "ten", split="lat", summaries={"day": 25}, states=["warm"])
    (row,) = cases.load("summaries")(context).repeats
    assert row["asked_bytes"] == 25 * 18 * 36 * 4


def test_one_value_less_fails_the_cell(memory_root: Path) -> None:  # noqa: F811
    context = cell(memory_root, "all", "days-1p", states=["warm"])

    class OneValueLess:
        """The values that were written, but for one that is missing."""

        shape, dtype = context.values.shape, context.values.dtype

        def block(self, origin: Any, extent: Any) -> Any:
            block = context.values.block(origin, extent)
            if origin[0] <= 20 < origin[0] + extent[0]:
                plane = block[20 - origin[0]]
                plane[tuple(np.argwhere(plane != MISSING)[0])] = MISSING
            return block

    spoilt = Context(context.specification, context.format, context.path, OneValueLess(), True)
    with pytest.raises(VerificationError, match="differs from what was written in plane 20"):
        cases.load("summaries")(spoilt)


def test_files_that_are_copied_first_are_read_from_the_copy(memory_root: Path) -> None:  # noqa: F811
    context = cell(memory_root, "month", "days-1p", fetch=True, states=["cold"], repeats={"cold": 2})
    rows = cases.load("summaries")(context).repeats
    assert len(rows) == 2 and all(row["fetch_s"] > 0 and row["open_s"] > 0 for row in rows)
    assert all(row["resident_before"] is None for row in rows)
    assert not context.artifact.fetched().data.exists()
    context.artifact.fetch()
    copied = [file.read_bytes() for file in context.artifact.fetched().files()]
    assert copied == [file.read_bytes() for file in context.artifact.files()]
    # What is read is the copy: where the files of the copy are others, so are the summaries.
    opened = context.format.open(str(context.artifact.fetched().data), context.specification)
    assert opened.read(Box((0, 0, 0), (1, 1, 1))).shape == (1, 1, 1)
    opened.close()
    context.artifact.clear()
    assert not context.artifact.fetched().data.exists()


def test_workers_copy_the_files_of_their_own_parts(
    memory_root: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[list[str]] = []
    drop = Artifact.drop_fetched

    def noted(self: Artifact) -> None:
        copies = [self.fetched(worker).data for worker in range(2)]
        kept.extend(
            sorted(str(file.relative_to(copy)) for file in copy.rglob("*") if file.is_file())
            for copy in copies
        )
        drop(self)

    monkeypatch.setattr(Artifact, "drop_fetched", noted)
    monkeypatch.setitem(LAYOUTS, "plain", {"format": "zarr", "chunks": [15, 18, 36]})
    changes = {"fetch": "each", "states": ["cold"], "repeats": {"cold": 1}, "layouts": ["plain"]}
    rows = cases.load("summaries")(cell(memory_root, "plain", "days-2p", **changes)).repeats
    assert rows[0]["fetch_s"] > 0
    # 40 days in chunks of 15, of which each worker has 20.
    first, second = ({f"c/{place}/0/0" for place in places} for places in ((0, 1), (1, 2)))
    assert kept == [sorted({*first, "zarr.json"}), sorted({*second, "zarr.json"})]
    assert not list(memory_root.glob(f"*{FETCHED}*"))


def test_workers_have_a_memory_of_their_own(
    memory_root: Path,  # noqa: F811
    require: Callable[[str | None], None],
) -> None:
    require(node_memory.mistake())
    limits = {"node_memory_bytes": 2**28, "states": ["session"], "repeats": {"session": 2}}
    rows = cases.load("summaries")(cell(memory_root, "month", "days-2p", **limits)).repeats
    assert [row["repeat"] for row in rows] == [0, 1]
    top = next(node_memory._hierarchies())[0]
    assert not list(top.glob(f"{node_memory.NAME}*"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"processes": None}, "a `summaries` case needs processes, ranks, dask"),
        ({"summaries": {"day": 3, "lat": 2}}, "needs one axis with a number of planes or all"),
        ({"summaries": {"day": {"step": 2}}}, "needs one axis"),
        ({"split": "time"}, "cases.days.split: should be one of day or lat or lon"),
        ({"processes": [41]}, "41 cannot share axis day, which has 40"),
        ({"fetch": True}, "fetch: files that are copied first are cold"),
        ({"fetch": "all"}, "cases.days.fetch: expected true, false or 'each', where every worker"),
        ({"fetch": "each", "states": ["cold"]}, "fetch: of HDF5 a worker cannot copy a part; say true"),
        ({"fetch": True, "ranks": [1], "states": ["cold"]}, "fetch: MPI ranks open the files themselves"),
        ({"node_memory_bytes": 2**30}, "node_memory_bytes: no one node holds all of a warm file"),
        ({"node_memory_bytes": 1}, "node_memory_bytes: should be greater than or equal to"),
        (
            {"ahead": True, "processes": None, "dask": [1]},
            "ahead: MPI ranks and workers of Dask are not told",
        ),
        ({"ahead": True, "ranks": [2]}, "ahead: MPI ranks and workers of Dask are not told"),
        ({"ranks": [2]}, "MPI ranks cannot open HDF5 in several files together"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    case = {key: value for key, value in {**SUMMARIES, **changes}.items() if value is not None}
    assert said in mistake(tmp_path, study(cases={"days": case}))
