"""Rows with a vector of bytes of their own: what is appended comes back, and mistakes are one line."""

from __future__ import annotations

import array
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from hyperslab import ragged
from hyperslab.measuring.counters import Counters, between
from hyperslab.ragged.convention import MARK, NUMBER, REFERENCE, TYPE, VECTOR

RECORD = np.dtype([("time", "<f8"), ("charge", "<i2")])
TYPES = [np.dtype(name) for name in ("i1", "u2", "<i4", ">i4", "f4", "f8", "?", "c8")] + [RECORD]


def rows_of(rng: np.random.Generator, dtype: np.dtype[Any], count: int, longest: int) -> list[Any]:
    """Rows of random bytes; of booleans, random ones."""
    lengths = np.where(rng.random(count) < 0.2, 0, rng.integers(0, longest, count, endpoint=True))
    if dtype.kind == "b":
        return [rng.random(length) < 0.5 for length in lengths]
    return [np.frombuffer(rng.bytes(int(length) * dtype.itemsize), dtype) for length in lengths]


def same(found: Sequence[Any], wanted: Sequence[Any]) -> bool:
    return [(row.dtype, row.tobytes()) for row in found] == [(row.dtype, row.tobytes()) for row in wanted]


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_appended_comes_back(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = TYPES[seed % len(TYPES)]
    chunk_bytes, row_chunk = int(rng.integers(1, 5000)), int(rng.integers(1, 40))
    filters = [None, {"compression": "gzip"}, {"compression": "lzf", "shuffle": True}][seed % 3]
    wanted: list[Any] = []
    with h5py.File(tmp_path / "a.h5", "w", libver="latest" if seed % 2 else "earliest") as file:
        made = ragged.create(
            file.create_group("deep"), "rows", dtype, chunk_bytes=chunk_bytes, row_chunk=row_chunk,
            filters=filters,
        )  # fmt: skip
        with made:
            for _ in range(int(rng.integers(1, 12))):
                some = rows_of(rng, dtype, int(rng.integers(0, 30)), int(rng.integers(0, 400)))
                if rng.random() < 0.5:
                    made.append(some)
                else:
                    values = np.concatenate([np.empty(0, dtype), *some], dtype=dtype)
                    made.append_block([len(row) for row in some], values)
                wanted += some
                if rng.random() < 0.3:
                    assert same(list(made), wanted)
    with h5py.File(tmp_path / "a.h5") as file:
        found = ragged.open(file["deep/rows"])
        count = len(wanted)
        assert len(found) == count
        assert found.lengths.tolist() == [len(row) for row in wanted]
        assert same(found[:], wanted)
        assert same(list(found), wanted)
        blocks = list(found.blocks(1000))
        assert same([row for lengths, values in blocks for row in ragged.split(lengths, values)], wanted)
        for _ in range(10):
            first, stop = sorted(rng.integers(0, count, 2, endpoint=True).tolist())
            assert same(found[first:stop], wanted[first:stop])
            assert same(found[first:stop:3], wanted[first:stop:3])
            if count:
                numbers = rng.integers(-count, count, 20).tolist()
                assert same(found[numbers], [wanted[number] for number in numbers])
                assert same([found[numbers[0]]], [wanted[numbers[0]]])
        mask = rng.random(count) < 0.5
        if count:
            assert same(found[mask], [row for row, taken in zip(wanted, mask, strict=True) if taken])
        with pytest.raises(IndexError, match=f"row {count} is not there"):
            found[count]


PAGE = Path(__file__).parents[2] / "docs" / "ragged.md"


def example(number: int, folder: Path) -> str:
    """The lines of Python that docs/ragged.md gives, with files of a folder."""
    code = PAGE.read_text(encoding="utf-8").split("```python\n")[number].split("```")[0]
    return re.sub(r'"(\w+\.h5)"', lambda found: repr(str(folder / found[1])), code)


def test_the_convention_is_read_without_the_module(tmp_path: Path) -> None:
    """The lines that docs/ragged.md gives."""
    record = np.array([(0.5, 3)], RECORD)
    with h5py.File(tmp_path / "events.h5", "w") as file:
        with ragged.create(file, "hits", "int16") as hits:
            hits.append([[1, 2, 3], [], [-4]])
        with ragged.create(file.create_group("beside"), "hits", RECORD) as hits:
            hits.append([record, record[:0]])
    code = example(1, tmp_path)
    assert len(code.strip().splitlines()) <= 10
    names: dict[str, Any] = {}
    exec(code, names)
    assert [row.tolist() for row in names["rows"]] == [[1, 2, 3], [], [-4]]
    exec(code.replace('"hits"', '"beside/hits"'), names)
    assert [row.tolist() for row in names["rows"]] == [record.tolist(), []]


def test_variable_length_rows_of_an_open_file_are_copied_there_and_back(tmp_path: Path) -> None:
    """The lines that docs/ragged.md gives."""
    with h5py.File(tmp_path / "mine.h5", "w") as file:
        spectra = file.create_dataset("spectra", (3,), h5py.vlen_dtype(np.float32))
        spectra[0] = np.array([1, 2, 3], np.float32)
        spectra[2] = np.array([4], np.float32)
    exec(example(2, tmp_path), {"h5py": h5py, "ragged": ragged})
    with h5py.File(tmp_path / "new.h5") as new, h5py.File(tmp_path / "back.h5") as back:
        assert [row.tolist() for row in ragged.open(new["spectra"])] == [[1, 2, 3], [], [4]]
        assert [row.tolist() for row in back["spectra"][:]] == [[1, 2, 3], [], [4]]


def test_the_page_names_all_that_is_public() -> None:
    text = PAGE.read_text(encoding="utf-8")
    methods = {"resize", "read", "read_many", "blocks", "refresh", "lost_bytes"}
    names = {*ragged.__all__, *methods} - {"RaggedDataset"}
    assert {name for name in names if not re.search(rf"\.{name}\b", text)} == set()


def test_the_callers_array_may_be_used_again(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file, ragged.create(file, "rows", "int32") as rows:
        buffer = np.zeros(5, np.int32)
        for number in range(10):
            buffer[:] = number
            rows.append([buffer])
        lent = array.array("i", [10] * 5)
        rows.append([lent])
        lent[0] = 0
        assert [row.tolist() for row in rows] == [[number] * 5 for number in range(11)]


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A file of three rows."""
    with h5py.File(tmp_path / "a.h5", "w") as file, ragged.create(file, "rows", "int32") as rows:
        rows.append([[1, 2, 3], [], [4, 5]])
    return tmp_path / "a.h5"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (np.array([1.5]), "holds rows of int32, and one of float64 does not fit"),
        (np.array([1], np.int64), "holds rows of int32, and one of int64 does not fit"),
        ([1.5], "and one of float64 does not fit"),
        ([2**31], "and one of int64 does not fit"),
        (["a"], "and one of <U1 does not fit"),
        ([[1]], "a row has one axis, not 2"),
        (7, "a row has one axis, not 0"),
        (np.ma.array([1, 2], "i4", mask=[False, True]), "has masked elements"),
    ],
)
def test_a_row_of_another_type_is_refused_before_any_is_taken(three: Path, row: Any, words: str) -> None:
    with h5py.File(three, "r+") as file, ragged.open(file["rows"]) as rows:
        with pytest.raises(ragged.RaggedError, match=words):
            rows.append([[6], row])
        assert len(rows) == 3


@pytest.mark.parametrize(
    ("lengths", "words"),
    [
        ([-1, 3], "whole numbers from 0 on"),
        ([1.0, 1.0], "whole numbers from 0 on"),
        ([[1, 1]], "whole numbers from 0 on"),
        ([1, 2], "lengths add up to 3, and there are 2 values"),
        (np.array([2**63, 2**63, 2], np.uint64), "lengths add up to 9,223,372,036,854,775,808"),
    ],
)
def test_lengths_that_cannot_be_are_refused(three: Path, lengths: Any, words: str) -> None:
    with h5py.File(three, "r+") as file, ragged.open(file["rows"]) as rows:
        with pytest.raises(ragged.RaggedError, match=words):
            rows.append_block(lengths, [1, 2])
        assert len(rows) == 3


def _reference(number: int, offset: int, length: int) -> Any:
    def change(file: h5py.File) -> None:
        file["rows"][number] = np.array((offset, length), REFERENCE)

    return change


def _attribute(name: str, value: Any) -> Any:
    return lambda file: file["rows"].attrs.__setitem__(name, value)


def _signed(file: h5py.File) -> None:
    signed = np.dtype([("offset", "<i8"), ("length", "<i8")])
    content, attributes = file["rows"][:].astype(signed), dict(file["rows"].attrs)
    del file["rows"]
    file["rows"] = content
    file["rows"].attrs.update(attributes)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_reference(2, 12, 12), "row 2 lies beyond the vector, which has 20 bytes"),
        (_reference(1, 2**64 - 4, 8), "row 1 lies beyond the vector"),
        (_reference(1, 2**63, 2**63), "row 1 lies beyond the vector"),
        (_reference(0, 0, 6), "row 0 is no whole number of elements of 4 bytes"),
        (lambda file: file["rows.vector"].resize((15,)), "row 2 lies beyond the vector"),
        (_attribute(NUMBER, 2), "is of convention 2, and only 1 is known here"),
        (_attribute(TYPE, "nonsense"), "says that its elements are 'nonsense', which is no type"),
        (_attribute(TYPE, "O"), "which cannot lie in a file"),
        (_attribute(VECTOR, "elsewhere"), "has no vector of bytes: 'elsewhere' is not one"),
        (_attribute(MARK, "another"), "is no dataset of ragged rows"),
        (_attribute(MARK, ["another", "one"]), "is no dataset of ragged rows"),
        (_attribute(NUMBER, [1, 2]), r"is of convention \[1 2\], and only 1 is known here"),
        (_signed, "has offsets or lengths that can be negative"),
        (lambda file: file.__delitem__("rows.vector"), "has no vector of bytes"),
    ],
)
def test_a_damaged_file_is_one_line_and_stays_as_it_is(three: Path, damage: Any, words: str) -> None:
    with h5py.File(three, "r+") as file:
        damage(file)
    before = three.read_bytes()
    with h5py.File(three) as file, pytest.raises(ragged.RaggedError, match=words) as raised:
        ragged.open(file["rows"])[:]
    assert "\n" not in str(raised.value) and str(three) in str(raised.value)
    assert three.read_bytes() == before


def test_what_only_looks_like_rows_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["plain"] = np.arange(3)
        with pytest.raises(ragged.RaggedError, match="is no dataset of ragged rows"):
            ragged.open(file["plain"])
        with pytest.raises(ragged.RaggedError, match="is no dataset"):
            ragged.open(file)
        file["plain"].attrs[MARK], file["plain"].attrs[NUMBER] = "ragged-rows", 1
        with pytest.raises(ragged.RaggedError, match="holds no offsets and lengths: int64"):
            ragged.open(file["plain"])
        for wrong in (object, "S0", h5py.vlen_dtype("i4"), "(2,)i4"):
            with pytest.raises(ragged.RaggedError, match="cannot be stored"):
                ragged.create(file, "rows", wrong)
        assert "rows" not in file and "rows.vector" not in file
        with pytest.raises(ragged.RaggedError, match="there is something called plain already"):
            ragged.create(file, "plain", "i4")


def test_rows_are_replaced_and_what_is_lost_is_told(three: Path) -> None:
    with h5py.File(three, "r+") as file, ragged.open(file["rows"]) as rows:
        rows[0] = [9]
        rows[1] = [7, 7]
        rows[-1] = []
        assert [row.tolist() for row in rows] == [[9], [7, 7], []]
        assert rows.lost_bytes == 20


@pytest.mark.parametrize("seed", range(10))
def test_reused_space_never_holds_two_rows(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    wanted = rows_of(rng, np.dtype("i4"), 50, 40)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        with ragged.create(file, "rows", "int32", reuse=True) as rows:
            rows.append(wanted)
            for _ in range(300):
                number = int(rng.integers(0, 50))
                (wanted[number],) = rows_of(rng, np.dtype("i4"), 1, 40)
                rows[number] = wanted[number]
            assert same(rows[:], wanted)
            reused = len(rows.vector)
        with ragged.open(file["rows"]) as again:
            again[3] = wanted[3] = np.arange(20, dtype=np.int32)
            assert same(again[:], wanted)
    # Without it, the vector would have grown by every row.
    assert reused < 4 * 50 * 40 * 2


def test_rows_are_cut_off_and_added(three: Path) -> None:
    with h5py.File(three, "r+") as file, ragged.open(file["rows"]) as rows:
        rows.resize(1)
        assert len(rows.vector) == 12
        rows.resize(3)
        rows.append([[8]])
        assert [row.tolist() for row in rows] == [[1, 2, 3], [], [], [8]]
        with pytest.raises(ragged.RaggedError, match="there cannot be -1 rows"):
            rows.resize(-1)


def test_one_appender_at_a_time(three: Path) -> None:
    with h5py.File(three, "r+") as file:
        first, second = ragged.open(file["rows"]), ragged.open(file["rows"])
        first.append([[1]])
        with pytest.raises(ragged.RaggedError, match="has another appender"):
            second.append([[2]])
        first.close()
        second.append([[2]])
        second.close()
        assert len(ragged.open(file["rows"])) == 5
        third = ragged.open(file["rows"])
        third.append([[3]])
        file["rows"].resize((7,))
        with pytest.raises(ragged.RaggedError, match="was changed by somebody else"):
            third.flush()
        # What it held is lost, and others may append.
        third.close()
        second.append([[4]])
        second.close()
    with h5py.File(three) as file, pytest.raises(ragged.RaggedError, match="open for reading only"):
        ragged.open(file["rows"]).append([[1]])


GAPS = [
    np.dtype([("a", "u1"), ("b", "<i4")], align=True),
    np.dtype([("deep", np.dtype([("a", "u1"), ("b", "<f8")], align=True)), ("c", "u1")]),
    np.dtype({"names": ["a"], "formats": ["u1"], "itemsize": 4}),
    np.dtype({"names": ["a", "b"], "formats": ["<u4", "<u2"], "offsets": [0, 2]}),
]


@pytest.mark.parametrize("dtype", GAPS, ids=str)
def test_records_that_would_come_back_as_others_are_refused(tmp_path: Path, dtype: np.dtype[Any]) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        with pytest.raises(ragged.RaggedError, match="repack_fields") as raised:
            ragged.create(file, "rows", dtype)
        assert "\n" not in str(raised.value) and list(file) == []


NAMED = h5py.enum_dtype({"none": 0, "all": 2}, basetype="<i2")


@pytest.mark.parametrize(
    ("dtype", "plain"),
    [
        (NAMED, "<i2"),
        (np.dtype([("a", "<u2"), ("b", NAMED)]), [("a", "<u2"), ("b", "<i2")]),
        (np.dtype([("a", NAMED, (3,))]), [("a", "<i2", (3,))]),
    ],
)
def test_named_values_are_refused(tmp_path: Path, dtype: np.dtype[Any], plain: Any) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        with pytest.raises(ragged.RaggedError, match="its values have names") as raised:
            ragged.create(file, "rows", dtype)
        assert "\n" not in str(raised.value) and list(file) == []
        original = file.create_dataset("original", (1,), h5py.vlen_dtype(dtype))
        original[0] = np.zeros(2, dtype)
        with pytest.raises(ragged.RaggedError, match="has names for values of its rows"):
            ragged.from_vlen(original, lambda _: ragged.create(file, "copy", plain))


def test_truth_values_are_no_named_ones(tmp_path: Path) -> None:
    """HDF5 has an enumeration for them, and numpy a type."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        original = file.create_dataset("original", (1,), h5py.vlen_dtype(np.dtype(bool)))
        original[0] = np.array([True, False])
        copy = ragged.from_vlen(original, lambda dtype: ragged.create(file, "copy", dtype))
        assert [row.tolist() for row in copy[:]] == [[True, False]]


def test_bytes_that_rows_share_are_not_given_to_others(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        with ragged.create(file, "rows", "uint8", reuse=True) as rows:
            rows.append([list(b"abcd"), list(b"efgh"), list(b"ijkl")])
        # As another writer may: the second row is the end of the first.
        references = rows.primary[:]
        references["offset"][1], references["length"][1] = 2, 2
        rows.primary[:] = references
        with ragged.open(file["rows"]) as rows:
            rows[0], rows[2] = list(b"mnop"), list(b"qrst")
            assert [row.tobytes() for row in rows] == [b"mnop", b"cd", b"qrst"]


def test_bytes_of_a_copy_that_leads_to_the_same_vector_stay(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        with ragged.create(file, "rows", "uint8", reuse=True) as rows:
            rows.append([list(b"abcd"), list(b"efgh"), list(b"ij")])
        file.copy("rows", "more")
        file["away"] = h5py.ExternalLink("no.h5", "/rows")
        with ragged.open(file["rows"]) as rows:
            # The second would go where the first one's bytes were, which are still the copy's.
            rows[0], rows[1] = list(b"klmno"), list(b"pqr")
            assert [row.tobytes() for row in rows] == [b"klmno", b"pqr", b"ij"]
        assert [row.tobytes() for row in ragged.open(file["more"])] == [b"abcd", b"efgh", b"ij"]
        with ragged.open(file["more"]) as rows:
            rows.resize(0)
        assert [row.tobytes() for row in ragged.open(file["rows"])] == [b"klmno", b"pqr", b"ij"]
        # Alone again they end where their last row does.
        del file["more"]
        with ragged.open(file["rows"]) as rows:
            rows.resize(0)
            assert len(rows.vector) == 0


def test_bytes_of_a_copy_that_is_made_between_two_replacements_stay(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file, ragged.create(file, "rows", "uint8", reuse=True) as rows:
        rows.append([list(b"abcd"), list(b"efgh"), list(b"ij")])
        # Now the gaps are known.
        rows[2] = list(b"kl")
        file.copy("rows", "more")
        rows[0], rows[1] = list(b"mnopq"), list(b"rst")
        assert [row.tobytes() for row in rows] == [b"mnopq", b"rst", b"kl"]
        assert [row.tobytes() for row in ragged.open(file["more"])] == [b"abcd", b"efgh", b"kl"]


@pytest.mark.parametrize("chosen", [[True, False, True], [[True] * 5], [1.0, 2.0], ["1"], [[1, 2]]])
def test_rows_are_chosen_by_numbers_or_a_truth_value_each(tmp_path: Path, chosen: Any) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file, ragged.create(file, "rows", "uint8") as rows:
        rows.append([[number] for number in range(5)])
        with pytest.raises(IndexError, match="rows"):
            rows[chosen]
        assert [row.tolist() for row in rows[[True, False, True, False, False]]] == [[0], [2]]
        assert rows[[]] == [] and [row.tolist() for row in rows[np.array([4, -5], np.int8)]] == [[4], [0]]


def test_records_without_gaps_come_back(tmp_path: Path) -> None:
    deep = np.dtype([("at", [("x", "<f4"), ("y", ">i2")]), ("tag", "S3"), ("more", "<u2", (2, 3))])
    aligned = np.dtype([("a", "<i4"), ("b", "<f4")], align=True)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, dtype in (("deep", deep), ("aligned", aligned)):
            wanted = np.frombuffer(bytes(range(3 * dtype.itemsize)), dtype)
            with ragged.create(file, name, dtype) as rows:
                rows.append([wanted[:2], wanted[2:]])
            found = ragged.open(file[name])
            assert found.dtype == dtype and same(found[:], [wanted[:2], wanted[2:]])


def test_variable_length_data_go_there_and_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    wanted = rows_of(rng, np.dtype("<u2"), 5000, 30)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        original = file.create_dataset("original", (len(wanted),), h5py.vlen_dtype(np.dtype("<u2")))
        for number, row in enumerate(wanted):
            original[number] = row
        copy = ragged.from_vlen(original, lambda dtype: ragged.create(file, "copy", dtype))
        assert same(copy[:], wanted)
        back = ragged.to_vlen(copy, file, "back")
        assert same(list(back[:]), wanted)
        file["numbers"] = np.arange(3)
        with pytest.raises(ragged.RaggedError, match="not rows of numbers of variable length"):
            ragged.from_vlen(file["numbers"], lambda dtype: ragged.create(file, "more", dtype))
        copy.close()
        copy = ragged.open(file["copy"])
        copy[4] = np.arange(3, dtype=np.uint16)
        with pytest.raises(ragged.RaggedError, match="row 4 differs"):
            ragged.vlen.compare(original, copy)


@pytest.mark.parametrize(
    ("there", "here"), [("<i8", "<i4"), ("<i4", "<i8"), ("<f8", "<f4"), (">i4", "<i4"), ("<i4", ">i4")]
)
def test_variable_length_data_go_to_no_other_type(tmp_path: Path, there: str, here: str) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        original = file.create_dataset("original", (2,), h5py.vlen_dtype(np.dtype(there)))
        wanted = [np.array([1], there), np.array([3, 300], there)]
        original[0], original[1] = wanted
        words = f"rows of {np.dtype(there)}, and their copy would be of {np.dtype(here)}"
        for act in (
            lambda: ragged.from_vlen(original, lambda _: ragged.create(file, "copy", here)),
            lambda: ragged.vlen.compare(original, ragged.open(file["copy"])),
        ):
            with pytest.raises(ragged.RaggedError, match=words):
                act()
        assert len(ragged.open(file["copy"])) == 0
        assert same(ragged.from_vlen(original, lambda dtype: ragged.create(file, "rows", dtype))[:], wanted)


@pytest.mark.parametrize("filters", [None, {"compression": "lzf"}])
def test_a_short_row_is_read_without_the_chunk_around_it(
    tmp_path: Path, filters: dict[str, str] | None
) -> None:
    with (
        h5py.File(tmp_path / "a.h5", "w") as file,
        ragged.create(file, "rows", "int64", filters=filters) as rows,
    ):
        rows.append([np.arange(number, number + 100) for number in range(5000)])
    with h5py.File(tmp_path / "a.h5") as file:
        rows = ragged.open(file["rows"])
        counters = Counters()
        before = counters.read()
        assert rows[3000].tolist() == list(range(3000, 3100))
        read = between(before, counters.read())["requested_bytes"]
    # A row of 800 bytes, with the indexes of both and a chunk of 64 KiB that leads to it; or all of a chunk.
    assert (read < 100_000) == (filters is None), read
