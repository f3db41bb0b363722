"""The error of lossy layouts: measured over all that was read, held against what a filter promises."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from samples import file_specification, read_cell, write_cell

from hyperslab import cases, formats
from hyperslab.cases import context
from hyperslab.cases.context import Context, VerificationError
from hyperslab.cases.timed_selections import Session
from hyperslab.cases.write import in_whole_chunks
from hyperslab.data.selections import Box
from hyperslab.data.values import Counts, Values
from hyperslab.formats import collection
from hyperslab.formats.hdf5.kept_values import KeptValues
from hyperslab.layouts import layout_of
from hyperslab.measuring.deviation import Deviation
from hyperslab.results import columns, tables
from hyperslab.specifications import Specification

SHAPE = (10, 12, 300)
Spec = Specification


def of(found: Any, truth: Any, dtype: str = "float64") -> Deviation:
    deviation = Deviation()
    deviation.add(np.asarray(found, dtype), np.asarray(truth, dtype))
    return deviation


def test_columns_by_hand() -> None:
    columns = of([1, 2, 3, 4], [1, 2, 6, 0]).columns()
    assert columns == {"error_max": 4.0, "error_rms": 2.5, "changed_share": 0.5}
    assert of([], []).columns() == {"error_max": 0.0, "error_rms": 0.0, "changed_share": 0.0}


@pytest.mark.parametrize(
    ("dtype", "found", "truth", "largest"),
    [
        ("int8", -128, 127, 255),
        ("uint8", 0, 255, 255),
        ("int64", -(2**63), 2**63 - 1, 2.0**64),
        ("uint64", 2**64 - 1, 2**64 - 2, 1),
        ("float64", math.nan, math.nan, 0),
        ("float64", math.inf, math.inf, 0),
        ("float64", -0.0, 0.0, 0),
        ("float64", math.nan, 1, math.inf),
        ("float64", math.inf, -math.inf, math.inf),
        ("float32", 1e30, 0, float(np.float32(1e30))),
    ],
)
def test_largest_error(dtype: str, found: float, truth: float, largest: float) -> None:
    assert of([found], [truth], dtype).largest == largest


@given(st.data())
def test_pieces_add_up_to_the_whole(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(["uint16", "int32", "float32"]))
    shape = data.draw(array_shapes(max_dims=2, max_side=8))
    elements = st.floats(-1e6, 1e6, width=32) if dtype == "float32" else st.integers(0, 60_000)
    found, truth = (data.draw(arrays(dtype, shape, elements=elements)) for _ in range(2))
    cut = data.draw(st.integers(0, shape[0]))
    whole, parts = of(found, truth, dtype), Deviation()
    parts.add(found[:cut], truth[:cut])
    parts.add(found[cut:], truth[cut:])
    assert parts.columns() == pytest.approx(whole.columns())
    difference = np.abs(found.astype(np.float64) - truth.astype(np.float64))
    assert whole.largest == difference.max()
    assert whole.columns()["error_rms"] == pytest.approx(math.sqrt(np.mean(difference**2)))


def test_bounds_allow_for_rounding_and_no_more() -> None:
    assert not of([3.5], [3]).exceeds(None)
    assert not of([3.5], [3]).exceeds(0.5)
    assert of([3.501], [3]).exceeds(0.5)
    # Near ten million, neighbouring single-precision numbers are 1 apart.
    assert not of([10_000_003], [10_000_000], "float32").exceeds(0.5)
    assert of([10_000_006], [10_000_000], "float32").exceeds(0.5)
    assert of([11], [10], "uint16").exceeds(0.5)
    # Read as double precision, it was rounded as what is stored all the same.
    wide = Deviation(stored=np.dtype("float32"))
    wide.add(np.array([10_000_003.0]), np.array([10_000_000.0]))
    assert not wide.exceeds(0.5)


def test_another_type_or_extent_is_no_deviation() -> None:
    for found in (np.zeros(3, np.float32), np.zeros(4)):
        with pytest.raises(ValueError, match="instead of"):
            Deviation().add(found, np.zeros(3))


# ---- in the cases


def spec_of(filters: list[dict[str, Any]], dtype: str, kind: str) -> Spec:
    spec = file_specification(SHAPE, (4, 4, 64), filters=filters, dtype=dtype)
    spec["dataset"]["fill"] = "counts"
    return (
        read_cell(spec, (5, 5, 100), {"warm": 3, "session": 2})
        if kind == "read"
        else write_cell(spec, "chunk", 1)
    )


def files_of(each: int) -> Any:
    """What a layout says of files of so many indices of the first axis each."""
    return {"files": {"axis": 0, "along": "x", "each": each}, "chunks": [min(4, each), 4, 64]}


def outcome_of(spec: Spec, directory: Path) -> context.Outcome:
    format_ = formats.format_of(spec["layout"])
    path = str(directory / "a.h5")
    values: Values = Counts(spec["dataset"]["shape"], spec["dataset"]["dtype"])
    if spec["case"]["kind"] == "read":
        format_.generate(path, spec, values)
    return cases.load(spec["case"]["kind"])(Context(spec, format_, path, values, True))


LOSSY: list[tuple[dict[str, Any], str, float]] = [
    ({"name": "scaleoffset", "digits": 0}, "float32", 0.5),
    ({"name": "zfp", "accuracy": 2.0}, "float64", 2.0),
    ({"name": "sz3", "absolute": 2.0}, "float32", 2.0),
    ({"name": "scaleoffset", "bits": 3}, "uint16", math.nan),
    ({"name": "zfp", "rate": 4}, "float32", math.nan),
]


@pytest.mark.parametrize("kind", ["read", "write"])
@pytest.mark.parametrize(("chosen", "dtype", "bound"), LOSSY, ids=str)
def test_a_lossy_layout_has_its_error_in_the_record(
    tmp_path: Path, chosen: dict[str, Any], dtype: str, bound: float, kind: str
) -> None:
    report = outcome_of(spec_of([chosen], dtype, kind), tmp_path).report
    if math.isnan(bound):
        assert report["error_max"] > 0
        assert 0 < report["changed_share"] <= 1
        assert 0 < report["error_rms"] <= report["error_max"]
    else:
        assert 0 <= report["error_max"] <= bound + 1e-4


@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_lossy_filter_that_lost_nothing_is_not_called_lossless(tmp_path: Path, kind: str) -> None:
    report = outcome_of(spec_of([{"name": "nbit", "bits": 12}], "uint16", kind), tmp_path).report
    assert (report["error_max"], report["changed_share"]) == (0.0, 0.0)
    exact = outcome_of(spec_of([{"name": "gzip"}], "uint16", kind), tmp_path).report
    assert "error_max" not in exact


@pytest.mark.parametrize("each", [None, 3])
@pytest.mark.parametrize("order", [list("xyz"), list("zxy")])
@pytest.mark.parametrize(
    ("chosen", "dtype"),
    [({"name": "scaleoffset", "bits": 3}, "uint16"), ({"name": "zfp", "rate": 4}, "float32")],
    ids=str,
)
def test_what_filters_leave_is_known_of_every_box(
    tmp_path: Path, chosen: dict[str, Any], dtype: str, order: list[str], each: int | None
) -> None:
    """Chunks at the edge of array and files, boxes across chunks and files, and axes in another order."""
    spec = spec_of([chosen], dtype, "read")
    spec["layout"]["order"] = order
    if each:
        spec["layout"] |= files_of(each)
    format_, path, values = formats.format_of(spec["layout"]), str(tmp_path / "a.h5"), Counts(SHAPE, dtype)
    format_.generate(path, spec, values)
    kept = format_.kept_values(values, spec)
    assert kept is not None
    opened = format_.open(path, spec)
    try:
        for origin, extent in (((0, 0, 0), SHAPE), ((3, 5, 60), (2, 7, 200)), ((9, 11, 299), (1, 1, 1))):
            found = opened.read(Box(origin, extent))
            assert np.array_equal(found, kept.block(origin, extent))
        assert not np.array_equal(kept.block((0, 0, 0), SHAPE), values.block((0, 0, 0), SHAPE))
    finally:
        opened.close()


@pytest.mark.parametrize(("kind", "each"), [("read", 5), ("write", 3)])
def test_each_file_of_a_collection_is_compared_with_what_filters_leave_of_its_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, each: int
) -> None:
    spec = spec_of([{"name": "zfp", "rate": 4}], "float32", kind)
    spec["layout"] |= files_of(each)
    report = outcome_of(spec, tmp_path).report
    assert report["error_max"] > 0
    monkeypatch.setattr(collection.Collections, "kept_values", lambda _, values, spec: values)
    (tmp_path / "again").mkdir()
    with pytest.raises(VerificationError, match="zfp rate 4 makes of what was written"):
        outcome_of(spec, tmp_path / "again")


@pytest.mark.parametrize(
    ("each", "extent", "whole"),
    [(None, (4, 4, 64), True), (None, (6, 4, 64), False), (3, (3, 4, 64), True), (3, (10, 12, 300), True)]
    # The second file begins within a block, so that its first chunk is written in two parts.
    + [(5, (4, 4, 64), False), (4, (8, 4, 64), False)],
)
def test_blocks_are_whole_chunks_where_files_begin_with_them(
    each: int | None, extent: tuple[int, ...], whole: bool
) -> None:
    spec = spec_of([{"name": "zfp", "rate": 4}], "float32", "write")
    if each:
        spec["layout"] |= files_of(each)
    assert in_whole_chunks(layout_of(spec["layout"]), SHAPE, extent) == whole


@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_broken_promise_fails_the_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    spec = spec_of([{"name": "zfp", "rate": 4}], "float32", kind)
    monkeypatch.setattr("hyperslab.layouts.hdf5.promised_error", lambda filters: 0.001)
    with pytest.raises(
        VerificationError, match=r"an error of [0-9.]+ is more than zfp rate 4 promises, 0\.001$"
    ):
        outcome_of(spec, tmp_path)


def test_what_was_timed_is_what_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed = Session.timed_selection

    def spoilt(self: Session, *given_: Any) -> Any:
        row = timed(self, *given_)
        self._read[-1] = (*self._read[-1][:3], b"another digest")
        return row

    monkeypatch.setattr(Session, "timed_selection", spoilt)
    with pytest.raises(VerificationError, match="gives other values when read again"):
        outcome_of(spec_of([{"name": "zfp", "rate": 4}], "float32", "read"), tmp_path)


# The last promise no bound: what is read has to be just what they make of the truth.
@pytest.mark.parametrize(
    ("chosen", "dtype", "said"),
    [
        ({"name": "gzip"}, "uint16", "differs from what was"),
        ({"name": "nbit", "bits": 12}, "uint16", "is not what nbit 12 makes of what was written"),
        ({"name": "scaleoffset", "bits": 3}, "uint16", "is not what scaleoffset bits 3 makes of"),
        ({"name": "zfp", "rate": 4}, "float32", "is not what zfp rate 4 makes of"),
    ],
    ids=str,
)
def test_wrong_values_still_fail(tmp_path: Path, chosen: dict[str, Any], dtype: str, said: str) -> None:
    spec = spec_of([chosen], dtype, "read")
    hdf5, path = formats.load("hdf5"), str(tmp_path / "a.h5")
    values = Counts(SHAPE, dtype)
    hdf5.generate(path, spec, values)
    other = Counts((10, 13, 300), dtype)
    with pytest.raises(VerificationError, match=said):
        cases.load("read")(Context(spec, hdf5, path, other, True))


@pytest.mark.parametrize(
    ("chosen", "dtype", "strategy", "compared"),
    [
        ({"name": "nbit", "bits": 12}, "uint16", "chunk", True),
        ({"name": "scaleoffset", "bits": 3}, "uint16", "whole", True),
        ({"name": "zfp", "rate": 4}, "float32", "spectra-block", True),
        # A chunk that is written in parts may pass its filters more than once.
        ({"name": "zfp", "rate": 4}, "float32", "spectrum", False),
        # Its error is bound instead.
        ({"name": "zfp", "accuracy": 2.0}, "float32", "chunk", False),
    ],
    ids=str,
)
def test_what_was_written_is_what_its_filters_make_of_the_truth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: dict[str, Any], dtype: str, strategy: str,
    compared: bool,
) -> None:  # fmt: skip
    spec = spec_of([chosen], dtype, "write")
    spec["case"]["strategy"] = strategy
    outcome_of(spec, tmp_path)
    monkeypatch.setattr(KeptValues, "block", lambda _, origin, extent: np.zeros(extent, dtype))
    if not compared:
        outcome_of(spec, tmp_path)
        return
    with pytest.raises(VerificationError, match=r"at \(0, 0, 0\) is not what \w+ [\w ]+ makes of what was"):
        outcome_of(spec, tmp_path)


# ---- in the table


def test_ratios_by_hand() -> None:
    spec = file_specification((5, 5, 100), (4, 4, 64), filters=[{"name": "gzip"}])
    spec["case"] = {"name": "a", "kind": "read", "states": []}
    found = tables.compression(spec, 1000)
    assert found == {"ratio_raw": 5.0, "ratio_padded": 8 * 8 * 128 * 2 / 1000}
    spec["layout"]["chunks"] = None
    assert tables.compression(spec, 5000) == {"ratio_raw": 1.0, "ratio_padded": 1.0}
    assert tables.compression(spec, None) == {}
    assert tables.compression({**spec, "case": {**spec["case"], "kind": "objects"}}, 5000) == {}


def test_the_error_and_the_ratios_reach_the_table(tmp_path: Path) -> None:
    spec = spec_of([{"name": "scaleoffset", "digits": 0}], "float32", "read")
    outcome = outcome_of(spec, tmp_path)
    row: dict[str, Any] = {**{name: outcome.report.get(name) for name in columns.OF_FILE},
           **tables.compression(spec, outcome.report["stored_bytes"])}  # fmt: skip
    table = tables.tidy([{"site": "s", "round": 0, "repeat": 0, **row}])
    shown = table.loc[0, ["error_max", "error_rms", "changed_share", "ratio_raw", "chunks_left_alone"]]
    assert pd.notna(shown).all()
    assert row["ratio_padded"] > row["ratio_raw"] > 2
