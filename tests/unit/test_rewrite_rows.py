"""A user's file whose variable-length rows become rows with a vector, and back: all else stays as it was."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from h5py import h5d, h5o, h5p, h5s, h5t
from hypothesis import given, settings
from hypothesis import strategies as st
from rich_files import write_rich_file

from hyperslab import ragged, rewrite
from hyperslab.ragged.vlen import fill_vlen, vlen_blocks
from hyperslab.rewriting import RewriteError, calls
from hyperslab.rewriting.asking import read_layout
from hyperslab.rewriting.differences import differences
from hyperslab.rewriting.progress import Progress
from hyperslab.rewriting.survey import address_of, committed_address
from hyperslab.validation.errors import ConfigurationError

ROWS = "/events/hits"
VECTOR = "{format: hdf5-rows, storage: offset-vector, chunk_bytes: 4096, filters: [gzip]}"
VLEN = "{format: hdf5-rows, storage: vlen, row_chunk: 64}"
DTYPE = np.dtype(">i2")
VALUES = [np.arange(number % 7, dtype=DTYPE) * number for number in range(500)]


def add_rows(path: Path) -> None:
    """Add rows, with what a user may have said of them, to a file."""
    with h5py.File(path, "r+") as file:
        hits = file.create_dataset(
            ROWS, (len(VALUES),), h5py.vlen_dtype(DTYPE), chunks=(100,), maxshape=(None,)
        )
        fill_vlen(hits, [(np.array([len(row) for row in VALUES]), np.concatenate(VALUES))])
        hits.attrs["unit"] = "counts"
        hits.attrs["group"] = file["events"].ref
        file["events"].attrs["rows"] = hits.ref


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with nearly everything that HDF5 knows, and rows."""
    path = tmp_path_factory.mktemp("rows") / "mine.h5"
    write_rich_file(path)
    add_rows(path)
    return path


@pytest.fixture
def original(made: Path, tmp_path: Path) -> Path:
    """A copy of that file for a test alone."""
    return Path(shutil.copy(made, tmp_path))


@pytest.fixture(scope="module")
def made_with_vector(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same file with a vector for its rows, rewritten once."""
    copied = Path(shutil.copy(made, tmp_path_factory.mktemp("vector")))
    return rewritten(copied, "there.h5", VECTOR)


def rewritten(path: Path, name: str, layout: str, dataset: str = ROWS) -> Path:
    new = path.with_name(name)
    rewrite.rewrite(path, new, dataset, read_layout(layout), 2**28, Progress())
    return new


def found(path: Path, dataset: str = ROWS) -> list[Any]:
    with h5py.File(path) as file:
        if "convention" in file[dataset].attrs:
            return [row.tolist() for row in ragged.open(file[dataset])]
        return [row.tolist() for lengths, values in vlen_blocks(file[dataset], DTYPE)
                for row in ragged.split(lengths, values)]  # fmt: skip


def test_there_and_back(original: Path) -> None:
    before = hashlib.sha256(original.read_bytes()).hexdigest()
    there = rewritten(original, "there.h5", VECTOR)
    back = rewritten(there, "back.h5", VLEN)
    assert found(there) == found(back) == found(original) == [row.tolist() for row in VALUES]
    with h5py.File(there) as file:
        rows = ragged.open(file[ROWS])
        assert rows.dtype == DTYPE and rows.vector.compression == "gzip" and rows.vector.chunks == (4096,)
        assert file[ROWS].attrs["unit"] == "counts" and file[file["events"].attrs["rows"]] == file[ROWS]
    with h5py.File(back) as file:
        assert h5py.check_vlen_dtype(file[ROWS].dtype) == DTYPE and file[ROWS].chunks == (64,)
        assert sorted(file[ROWS].attrs) == ["group", "unit"] and list(file["events"]) == ["hits"]
    # What is compared with which is no matter of how rows are kept.
    for other in (there, back):
        assert list(differences(original, other, rows=ROWS)) == []
    assert hashlib.sha256(original.read_bytes()).hexdigest() == before


def test_a_difference_is_found(original: Path) -> None:
    there = rewritten(original, "there.h5", VECTOR)
    with h5py.File(there, "r+") as file:
        with ragged.open(file[ROWS]) as rows:
            rows[76] = np.zeros(len(VALUES[76]), DTYPE)
        file[ROWS].attrs["unit"] = "none"
    lines = list(differences(original, there, rows=ROWS))
    assert lines == [f"{ROWS}: attribute 'unit': the value differs", f"{ROWS}: row 76 differs"]
    with h5py.File(there, "r+") as file, ragged.open(file[ROWS]) as rows:
        rows.append([np.zeros(1, DTYPE)])
    assert f"{ROWS}: has 500 rows, and its copy 501" in list(differences(original, there, rows=ROWS))


def test_rows_that_the_other_file_has_not_are_a_difference(original: Path) -> None:
    there = rewritten(original, "there.h5", VECTOR)
    with h5py.File(there, "r+") as file:
        del file[ROWS], file[f"{ROWS}.vector"]
    assert f"{ROWS}: is missing" in list(differences(original, there, rows=ROWS))
    with h5py.File(there, "r+") as file:
        file[ROWS] = np.arange(3)
    wrong = f"{ROWS}: is not to be had as rows: {there}: {ROWS} holds int64, not rows of numbers"
    assert any(line.startswith(wrong) for line in differences(original, there, rows=ROWS))


@given(lengths=st.lists(st.integers(0, 300), max_size=200), dtype=st.sampled_from(["u1", "<f4", ">f8", "c8"]))
@settings(max_examples=12, deadline=None)
def test_any_rows(tmp_path_factory: pytest.TempPathFactory, lengths: list[int], dtype: str) -> None:
    path = tmp_path_factory.mktemp("rows") / "mine.h5"
    values = np.arange(sum(lengths)).astype(dtype)
    with h5py.File(path, "w") as file:
        rows = file.create_dataset("rows", (len(lengths),), h5py.vlen_dtype(np.dtype(dtype)))
        fill_vlen(rows, [(np.array(lengths, np.int64), values)])
    with h5py.File(rewritten(path, "new.h5", VECTOR, "/rows")) as file:
        block = ragged.open(file["rows"]).read(slice(0, len(lengths)))
    assert block[0].tolist() == lengths and block[1].tobytes() == values.tobytes()


def refusal(original: Path, layout: str, dataset: str = ROWS, *, added: dict[str, Any] | None = None) -> str:
    """Return why a copy of the file, with some datasets or attributes added, is not rewritten."""
    path = original.with_name(f"copy{len(list(original.parent.iterdir()))}.h5")
    shutil.copy(original, path)
    with h5py.File(path, "r+") as file:
        for name, value in (added or {}).items():
            if name == "attribute":
                file[ROWS].attrs[value] = "mine"
            else:
                file[name] = file[ROWS] if value is ROWS else value
    with pytest.raises((RewriteError, ConfigurationError)) as raised:
        rewritten(path, f"of-{path.name}", layout, dataset)
    said = str(raised.value)
    assert "\n" not in said and not path.with_name(f"of-{path.name}").exists()
    return said


def test_what_cannot_be_had_is_one_line(original: Path) -> None:
    known = "flattened; rows of a user's file are rewritten to vlen and offset-vector"
    assert refusal(original, "{format: hdf5-rows, storage: flattened}").endswith(known)
    strange = "fletcher32 cannot treat references of variable-length rows; gzip, lzf, zstd, lz4, bzip2 can"
    assert refusal(original, VLEN.replace("}", ", filters: [fletcher32]}")) == strange
    assert refusal(original, "{chunks: [10]}").endswith("lie outside of its chunks")
    none = "not rows of numbers of variable length"
    assert refusal(original, VECTOR, "/flat", added={"flat": np.arange(5)}).endswith(f"holds int64, {none}")
    assert refusal(original, VECTOR, "/words", added={"words": np.array(["a", "b"], object)}).endswith(none)
    taken: dict[str, Any] = {"events/hits.vector": 5}
    assert refusal(original, VECTOR, added=taken).endswith("'hits.vector', which is something else already")
    said = "has an attribute 'vector', which the convention of rows has"
    assert refusal(original, VECTOR, added={"attribute": "vector"}).endswith(said)
    assert "has several names (hard links)" in refusal(original, VECTOR, added={"second": ROWS})


def put_away(file: h5py.File) -> None:
    """Have the vector lie in another file."""
    with h5py.File(Path(file.filename).with_name("other.h5"), "w") as other:
        file.copy(f"{ROWS}.vector", other, "bytes")
    del file[f"{ROWS}.vector"]
    file[f"{ROWS}.vector"] = h5py.ExternalLink("other.h5", "/bytes")


def put_together(file: h5py.File) -> None:
    """Have the vector be a virtual dataset, whose bytes lie in another."""
    file.move(f"{ROWS}.vector", "bytes")
    layout = h5py.VirtualLayout(file["bytes"].shape, "u1")
    layout[:] = h5py.VirtualSource(file["bytes"])
    file["events"].create_virtual_dataset("hits.vector", layout)


# What is said of a vector: what makes it so.
NEEDED: dict[str, Callable[[h5py.File], None]] = {
    "has the rows of /events/again, too, which would be lost": lambda file: file.copy(ROWS, "events/again"),
    "has several names (hard links)": lambda file: file.__setitem__("bytes", file[f"{ROWS}.vector"]),
    "has attributes or a comment": lambda file: file[f"{ROWS}.vector"].attrs.create("unit", "byte"),
    "has attributes or a comment, which": lambda file: h5o.set_comment(file[f"{ROWS}.vector"].id, b"mine"),
    "lies in another file": put_away,
    "has values in other datasets or files": put_together,
}


@pytest.mark.parametrize("said", NEEDED)
def test_a_vector_that_is_needed_beside_its_rows_is_refused(
    made_with_vector: Path, tmp_path: Path, said: str
) -> None:
    """It is left out of the new file, where others would find bytes of other rows, or nothing."""
    there = Path(shutil.copy(made_with_vector, tmp_path))
    with h5py.File(there, "r+") as file:
        NEEDED[said](file)
    for layout in (VECTOR, VLEN):
        assert f"{ROWS}: its vector {said}" in refusal(there, layout)


def test_names_of_values_are_not_lost(original: Path) -> None:
    named = h5py.enum_dtype({"none": 0, "all": 2}, basetype="<i2")
    with h5py.File(original, "r+") as file:
        for name, dtype in (("named", named), ("other", h5py.enum_dtype({"none": 0, "some": 2}, "<i2"))):
            file.create_dataset(name, (2,), h5py.vlen_dtype(dtype))[0] = np.array([0, 2], "<i2")
    assert "its values have names (an enumeration)" in refusal(original, VECTOR, "/named")
    with pytest.raises(RewriteError, match="its values have names"):
        rewritten(original, "new.h5", VECTOR, "/named")
    with h5py.File(rewritten(original, "new.h5", VLEN, "/named"), "r+") as file:
        assert h5py.check_enum_dtype(h5py.check_vlen_dtype(file["named"].dtype)) == {"none": 0, "all": 2}
        del file["named"]
        file.move("other", "named")
    found = list(differences(original, original.with_name("new.h5"), rows="/named"))
    assert "/named: the type of the elements of rows differs" in found


def test_rows_that_can_grow_are_not_kept_where_they_cannot(original: Path) -> None:
    assert "can grow, which rows without chunks cannot" in refusal(
        original, "{format: hdf5-rows, storage: vlen}"
    )


@pytest.mark.parametrize("layout", [VECTOR, VLEN])
def test_the_order_of_attributes_is_kept(original: Path, layout: str) -> None:
    with h5py.File(original, "r+") as file:
        rows = file.create_dataset("ordered", (3,), h5py.vlen_dtype(DTYPE), track_order=True)
        fill_vlen(rows, [(np.array([1, 0, 2]), np.arange(3, dtype=DTYPE))])
        rows.attrs["unit"], rows.attrs["group"] = "counts", 1
    with h5py.File(rewritten(original, "new.h5", layout, "/ordered")) as file:
        assert [name for name in file["ordered"].attrs if name in ("unit", "group")] == ["unit", "group"]


def test_the_named_type_of_rows_and_how_far_they_grow_stay(original: Path) -> None:
    """NetCDF has no rows but those of a named type."""
    block = np.array([1, 0, 2]), np.arange(3, dtype=DTYPE)
    with h5py.File(original, "r+") as file:
        file["kind of rows"] = h5py.vlen_dtype(DTYPE)
        limited = file.create_dataset("typed", (3,), file["kind of rows"], chunks=(2,), maxshape=(9,))
        fill_vlen(limited, [block])
    new = rewritten(original, "new.h5", VLEN, "/typed")
    assert found(new, "/typed") == found(original, "/typed") == [[0], [], [1, 2]]
    with h5py.File(new, "r+") as file:
        assert committed_address(file["typed"].id.get_type()) == address_of(file["kind of rows"].id)
        assert file["typed"].maxshape == (9,)
        del file["typed"]
        fill_vlen(file.create_dataset("typed", (3,), h5py.vlen_dtype(DTYPE)), [block])
    wrong = ["/typed: the datatype differs", "/typed: the extent differs"]
    assert list(differences(original, new, rows="/typed")) == wrong


@pytest.mark.parametrize("layout", [VECTOR, VLEN])
def test_a_name_stays_in_its_character_set(original: Path, layout: str) -> None:
    """HDF5.jl says of every name that it is UTF-8."""
    linking = h5p.create(h5p.LINK_CREATE)
    linking.set_char_encoding(h5t.CSET_UTF8)
    with h5py.File(original, "r+") as file:
        rows = h5t.py_create(h5py.vlen_dtype(DTYPE), logical=True)
        h5d.create(file.id, b"julia", rows, h5s.create_simple((3,)), lcpl=linking).close()
        fill_vlen(file["julia"], [(np.array([1, 0, 2]), np.arange(3, dtype=DTYPE))])
    new = rewritten(original, "new.h5", layout, "/julia")
    assert found(new, "/julia") == [[0], [], [1, 2]]
    with h5py.File(new) as file:
        assert file.id.links.get_info(b"julia").cset == h5t.CSET_UTF8


def test_the_fill_value_of_rows_stays(original: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows that are added and not written have it; with a vector there is no place for it, which is said."""
    kind, fill = h5t.py_create(h5py.vlen_dtype(np.int16), logical=True), np.array([7, 8], np.int16)
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_chunk((2,))
    # A length and a pointer, as HDF5 has rows in memory.
    calls.set_fill_value(creation, kind, np.array([len(fill), fill.ctypes.data], np.uintp).view(np.uint8))
    block = np.array([1, 0, 2]), np.arange(3, dtype=np.int16)
    with h5py.File(original, "r+") as file:
        h5d.create(file.id, b"filled", kind, h5s.create_simple((3,), (h5s.UNLIMITED,)), creation).close()
        fill_vlen(file["filled"], [block])
    new = rewritten(original, "new.h5", VLEN, "/filled")
    with h5py.File(new, "r+") as file:
        file["filled"].resize((9,))
        assert [row.tolist() for row in file["filled"][:]] == [[0], [], [1, 2], *[[7, 8]] * 6]
        del file["filled"]
        made = file.create_dataset("filled", (3,), h5py.vlen_dtype(np.int16), maxshape=(None,))
        fill_vlen(made, [block])
    assert list(differences(original, new, rows="/filled")) == ["/filled: the fill value differs"]
    assert "fill value" not in capsys.readouterr().err
    rewritten(original, "vector.h5", VECTOR, "/filled")
    assert "/filled: rows with a vector have no fill value" in capsys.readouterr().err


def test_an_attribute_of_ones_own_is_not_taken_for_that_of_the_convention(original: Path) -> None:
    own = ["CF-1.8", "ACDD-1.3"]
    with h5py.File(original, "r+") as file:
        file[ROWS].attrs["convention"] = own
    with h5py.File(rewritten(original, "new.h5", VLEN)) as file:
        assert file[ROWS].attrs["convention"].tolist() == own
    said = "has an attribute 'convention', which the convention of rows has"
    assert refusal(original, VECTOR).endswith(said)
