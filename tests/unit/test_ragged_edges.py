"""Rows at their edges: what was begun and never written, what is no such number, what was half made."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest

from hyperslab import convert_rows, ragged
from hyperslab.convert_rows import OFFSET_VECTOR
from hyperslab.formats.donor_opening import DonorError
from hyperslab.formats.donor_rows import check
from hyperslab.ragged.convention import CONVENTION, MARK, TYPE, VECTOR


@pytest.fixture
def three(tmp_path: Path) -> Iterator[tuple[h5py.File, ragged.RaggedDataset]]:
    """Three rows in a file that is open for more."""
    with h5py.File(tmp_path / "a.h5", "w") as file, ragged.create(file, "rows", "int32") as rows:
        rows.append([[1, 2], [], [3]])
        rows.close()
        yield file, rows


def begun(rows: ragged.RaggedDataset) -> None:
    """Have room for two more rows, as a writer leaves it that is killed before it wrote them."""
    rows.primary.resize((5,))


def test_rows_that_were_finished_are_never_cut_off_for_those_that_were_begun(three: Any) -> None:
    file, _ = three
    rows = ragged.open(file["rows"])
    begun(rows)
    assert len(rows) == 3
    rows.append([[4], [5, 6]])
    rows.close()
    assert len(rows) == 5
    rows.append([[7]])
    rows.close()
    assert [row.tolist() for row in rows] == [[1, 2], [], [3], [4], [5, 6], [7]]


def test_rows_that_were_begun_are_no_rows_of_a_slice(three: Any) -> None:
    file, _ = three
    rows = ragged.open(file["rows"])
    begun(rows)
    for some in (slice(0, 5), slice(0, 9), slice(None), slice(1, 5)):
        assert [row.tolist() for row in rows[some]] == [[1, 2], [], [3]][some]
    with pytest.raises(IndexError, match="row 4 is not there"):
        rows[4]
    # Behind one that was written there may be none.
    rows.primary[1] = np.array(rows.primary.fillvalue, rows.primary.dtype)
    with pytest.raises(ragged.RaggedError, match="row 1 was begun and never written"):
        rows[:]


@pytest.mark.parametrize(
    ("dtype", "row"),
    [
        ("float64", np.array([2**53 + 1])),
        ("float64", np.array([2**64 - 1], np.uint64)),
        ("complex128", np.array([2**53 + 1])),
        ("float32", [2**53 + 1]),
        ("float32", [2**24 + 1]),
        ("float16", [70_000]),
    ],
)
def test_whole_numbers_that_floats_do_not_hold_are_refused(tmp_path: Path, dtype: str, row: Any) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file, ragged.create(file, "rows", dtype) as rows:
        with pytest.raises(ragged.RaggedError, match="does not fit"):
            rows.append([row])
        rows.append([[2**11, -(2**11)], np.array([7], np.int8)])
        assert [found.tolist() for found in rows] == [[2**11, -(2**11)], [7]]


@pytest.mark.parametrize("dtype", ["int64", "float64", "complex128"])
def test_whole_numbers_beside_floats_are_not_rounded(tmp_path: Path, dtype: str) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file, ragged.create(file, "rows", dtype) as rows:
        rounded: list[Any] = [[2**53 + 1, 1.0], (1.0, np.int64(2**53 + 1)), [-(2**63) + 1, 2**63]]
        for row in rounded:
            with pytest.raises(ragged.RaggedError, match="does not fit"):
                rows.append([row])
        rows.append([[2**53, 1.0], np.ma.array([7], dtype)])
        assert [found.tolist() for found in rows] == [[2**53, 1], [7]]


def test_what_is_no_number_of_a_row_is_a_type_error(three: Any) -> None:
    for index in (1.5, "a"):
        with pytest.raises(TypeError):
            three[1][index]


def test_what_cannot_be_made_leaves_its_names_free(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        with pytest.raises(ragged.RaggedError, match=r"a\.h5: hits cannot be made: .*nope"):
            ragged.create(file, "hits", "i4", row_filters={"compression": "nope"})
        assert not list(file)
        ragged.create(file, "hits", "i4").append([[1]])


def test_filters_that_keep_some_bits_alone_are_refused(tmp_path: Path) -> None:
    def listed(kind: int, number: int) -> dict[str, Any]:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_scaleoffset(kind, number)
        return {"dcpl": creation}

    whole, floats = h5py.h5z.SO_INT, h5py.h5z.SO_FLOAT_DSCALE
    values = np.frombuffer(np.random.default_rng(1).bytes(4000), np.int32)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for filters in ({"scaleoffset": 3}, listed(whole, 3), listed(floats, 0)):
            with pytest.raises(ragged.RaggedError, match=r"a\.h5: /rows\.vector holds bytes, of which"):
                ragged.create(file, "rows", "int32", filters=filters)
            assert not list(file)
        kept: list[dict[str, Any]] = [{"scaleoffset": True}, {"scaleoffset": 0}, listed(whole, 0)]
        for name, exact in zip("abc", kept, strict=True):
            with ragged.create(file, name, "int32", filters=exact) as rows:
                rows.append([values])
    with h5py.File(tmp_path / "a.h5") as file:
        for name in "abc":
            assert np.array_equal(ragged.open(file[name])[0], values)


def test_attributes_of_a_fixed_length_are_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file, ragged.create(file, "rows", "int32") as rows:
        rows.append([[1, 2], [3]])
    with h5py.File(tmp_path / "a.h5", "a") as file:
        for name in (MARK, TYPE, VECTOR):
            file["rows"].attrs[name] = np.bytes_(file["rows"].attrs[name])
        assert file["rows"].attrs[MARK] == CONVENTION.encode()
    with h5py.File(tmp_path / "a.h5") as file:
        assert [row.tolist() for row in ragged.open(file["rows"])] == [[1, 2], [3]]


def test_attributes_of_ones_own_are_not_lost_to_those_of_the_convention(tmp_path: Path) -> None:
    source = tmp_path / "a.h5"
    with h5py.File(source, "w") as file:
        rows = file.create_dataset("rows", 2, h5py.vlen_dtype(np.int32))
        rows[0], rows[1] = [1, 2], [3]
        rows.attrs["unit"] = "s"
        rows.attrs["vector"] = "of mine"
    with pytest.raises(ragged.RaggedError, match="rows have an attribute vector of their own; rename yours"):
        convert_rows.convert(source, "rows", tmp_path / "b.h5", OFFSET_VECTOR, None, "none")
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]


# ---- a writer that lives, and files that are cut short

HELD = """
import sys
from hyperslab import ragged
with ragged.writer(sys.argv[1], "rows", "int32") as rows:
    print("open", flush=True)
    sys.stdin.read()
    rows.append([[1], [2]])
"""


def test_a_file_whose_writer_lives_is_not_recovered(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with subprocess.Popen(
        [sys.executable, "-c", HELD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={"PYTHONPATH": str(Path(ragged.__file__).parents[2])},
    ) as program:  # fmt: skip
        assert program.stdin is not None and program.stdout is not None
        assert program.stdout.readline() == "open\n"
        before = path.read_bytes()
        with pytest.raises(ragged.RaggedError, match="a process that lives appends to this file"):
            ragged.recover(path)
        assert path.read_bytes() == before
        program.stdin.close()
    with h5py.File(path) as file:
        assert [row.tolist() for row in ragged.open(file["rows"])] == [[1], [2]]


def test_a_file_that_was_cut_short_at_its_beginning_is_one_line(three: Any, tmp_path: Path) -> None:
    three[0].flush()
    content = (tmp_path / "a.h5").read_bytes()
    for size in (9, 30, 47):
        (tmp_path / "cut.h5").write_bytes(content[:size])
        with pytest.raises(ragged.RaggedError, match="was cut short within its first 48 bytes"):
            ragged.recover(tmp_path / "cut.h5")


def test_filters_that_are_not_here_hinder_no_recovery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hyperslab.ragged import recovery

    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("packed", data=np.arange(1000), chunks=(100,), **hdf5plugin.Zstd())
    assert recovery._torn(tmp_path / "a.h5", every_chunk=True) == ""
    monkeypatch.setattr(h5py.h5z, "filter_avail", lambda code: False)
    monkeypatch.setattr(h5py.Dataset, "__getitem__", lambda self, index: 1 / 0)
    assert recovery._torn(tmp_path / "a.h5", every_chunk=True) == ""


def test_a_donor_of_texts_is_one_line(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["names"] = ["one", "two"]
    donor = {"path": str(tmp_path / "a.h5"), "dataset": "/names"}
    with pytest.raises(DonorError, match="not rows of numbers of variable length"):
        check({"donor": donor, "rows": {}, "dtype": "int32"})
