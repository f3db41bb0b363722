"""Every kind of difference between two files is found and named; equal files have none."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from h5py import h5d, h5s, h5t
from rich_files import TARGET, write_rich_file

from hyperslab.rewriting import RewriteError, calls, comparing, target
from hyperslab.rewriting.differences import differences

Change = Callable[[h5py.File], Any]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rich") / "rich.h5"
    write_rich_file(path)
    return path


def remade(name: str, **changed: Any) -> Change:
    """Make a dataset anew with other properties; its attributes stay behind."""

    def change(file: h5py.File) -> None:
        old = file[name]
        kept = {"data": old[...], "chunks": old.chunks, "maxshape": old.maxshape}
        kept |= {"shuffle": old.shuffle, "fletcher32": old.fletcher32, "compression": old.compression}
        if old.id.get_create_plist().fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED:
            kept["fillvalue"] = old.fillvalue
        del file[name]
        file.create_dataset(name, **(kept | changed))

    return change


def elsewhere(file: h5py.File) -> None:
    """The same values in another external file."""
    del file["stored/external"]
    file.create_dataset("stored/external", (6,), "<i4", external=[("other.raw", 0, 24)])


def put(name: str, index: Any, value: Any) -> Change:
    """Another element in a dataset; `value` may be made of the file."""

    def change(file: h5py.File) -> None:
        file[name][index] = value(file) if callable(value) else value

    return change


def linked(name: str, value: Any) -> Change:
    """Another link; `value` may be made of the file, None removes it."""

    def change(file: h5py.File) -> None:
        made = value(file) if callable(value) else value
        if file.get(name, getlink=True) is not None:
            del file[name]
        if made is not None:
            file[name] = made

    return change


def set_bits(file: h5py.File) -> None:
    """Another not-a-number."""
    block = file[TARGET][...]
    block.view(np.uint32)[0, 0, 0] = 0x7FC00002
    file[TARGET][...] = block


def pad(file: h5py.File) -> None:
    """Change a byte between the members of a record."""
    dataset = file["plain/compound"].id
    block = np.zeros(dataset.shape, f"V{dataset.get_type().get_size()}")
    dataset.read(h5s.ALL, h5s.ALL, block, dataset.get_type())
    block.view(np.uint8)[5] ^= 1
    dataset.write(h5s.ALL, h5s.ALL, block, dataset.get_type())


def attribute(name: str, value: Any, dtype: str | None = None) -> Change:
    """Another attribute of the dataset that matters."""

    def change(file: h5py.File) -> None:
        if dtype is None:
            file[TARGET].attrs[name] = value
        else:
            file[TARGET].attrs.create(name, value, dtype=dtype)

    return change


def other(file: h5py.File) -> h5py.Reference:
    return file["stored"].ref


def other_region(file: h5py.File) -> h5py.RegionReference:
    return file[TARGET].regionref[2:5, ::3, 5]


def other_points(file: h5py.File) -> h5py.RegionReference:
    return file[TARGET].regionref[np.array([1, 5, 8]), 2, 3]


def other_dataset(file: h5py.File) -> h5py.RegionReference:
    return file["plain/flags"].regionref[1:]


def detach(file: h5py.File) -> None:
    file[TARGET].dims[0].detach_scale(file["measured/z"])


def relabel(file: h5py.File) -> None:
    file[TARGET].dims[1].label = "why"


def reorder_attributes(file: h5py.File) -> None:
    del file.attrs["zebra"]
    file.attrs["zebra"] = 1


def unshare(file: h5py.File) -> None:
    """A copy in place of a second link to the same dataset."""
    del file["links/deep"]
    group = file["links"]
    for _ in range(12):
        group = group.create_group("deep")
    file.copy("plain/strings", group, "bottom")


def change_number(file: h5py.File) -> None:
    """The number inside a record inside a sequence."""
    dataset = file["references/nested"].id
    memory, space = dataset.get_type().copy(), dataset.get_space()
    buffer = calls.read_dataset(dataset, memory, space, space)
    ctypes.c_int32.from_address(int(buffer.view(np.uint64)[1])).value = 77
    calls.write_dataset(dataset, memory, space, space, buffer)


def rename(file: h5py.File) -> None:
    del file.attrs["zebra"]
    kind, space = h5t.STD_I64LE, h5s.create(h5s.SCALAR)
    made = calls.create_attribute(file["/"].id, b"zebra", h5t.CSET_UTF8, kind, space)
    calls.write_attribute(made, kind, np.array([1], np.int64).view(np.uint8))


def retarget_type(file: h5py.File) -> None:
    """An equal committed datatype, but another one."""
    file[TARGET].attrs.create("dwell", 0.25, dtype=file["types/same seconds"])


CHANGES: dict[str, tuple[Change, str]] = {
    "bits of a value": (set_bits, f"{TARGET}: values differ"),
    "padding of a record": (pad, "/plain/compound: values differ"),
    "a string": (put("plain/strings", 1, "x"), "/plain/strings: values differ"),
    "a ragged row": (put("plain/ragged", 2, np.array([2.5], "f4")), "/plain/ragged: values differ"),
    "length of a row": (put("plain/ragged", 2, np.array([2, 2], "f4")), "/plain/ragged: values differ"),
    "compressed values": (put("stored/sparse", (36, 36), 2), "/stored/sparse: values differ"),
    "a chunk of its own": (put("stored/sparse", (90, 90), 2), "/stored/sparse: values differ"),
    "value of an attribute": (attribute("zulu first", 2), "attribute 'zulu first': the value differs"),
    "text of an attribute": (attribute("alpha second", "a"), "attribute 'alpha second': the value differs"),
    "an attribute more": (attribute("more", 1), f"{TARGET}: attribute 'more' is new"),
    "an attribute less": (lambda file: file.attrs.pop("apple"), "/: attribute 'apple' is missing"),
    "type of an attribute": (attribute("zulu first", 1, "i2"), "'zulu first': the datatype differs"),
    "extent of an attribute": (attribute("range", [0, 1, 2], ">i2"), "'range': the extent differs"),
    "character set of a name": (rename, "attribute 'zebra': the character set of the name differs"),
    "no committed datatype": (attribute("dwell", 0.25, ">f8"), "attribute 'dwell': the datatype differs"),
    "which committed datatype": (retarget_type, "attribute 'dwell': the datatype differs"),
    "order of attributes": (reorder_attributes, "/: the order of its attributes differs"),
    "an object reference": (put("references/objects", 1, other), "/references/objects: values differ"),
    "a reference more": (put("references/null", 1, other), "/references/null: values differ"),
    "a region": (put("references/regions", 0, other_region), "/references/regions: values differ"),
    "points": (put("references/regions", 1, other_points), "/references/regions: values differ"),
    "whose region": (put("references/regions", 2, other_dataset), "/references/regions: values differ"),
    "beside references": (change_number, "/references/nested: values differ"),
    "a scale": (detach, f"{TARGET}: attribute 'DIMENSION_LIST': the value differs"),
    "a label of an axis": (relabel, f"{TARGET}: attribute 'DIMENSION_LABELS': the value differs"),
    "a link less": (linked("links/dangling", None), "/links/dangling: is missing"),
    "a link more": (linked("links/more", h5py.SoftLink("/")), "/links/more: is new"),
    "a soft link": (linked("links/soft", h5py.SoftLink("/x")), "/links/soft: the soft link leads elsewhere"),
    "an external link": (
        linked("links/other file", h5py.ExternalLink("a", "b")),
        "/links/other file: the external link leads elsewhere",
    ),
    "kind of a link": (
        linked("links/soft", lambda file: file[TARGET]),
        "/links/soft: a soft link became a hard link",
    ),
    "a shared object": (unshare, "is not shared by the same hard links"),
    "order of links": (
        linked("links/soft", lambda file: file["links"].get("soft", getlink=True)),
        "/links: the order of its links differs",
    ),
    "kind of an object": (
        linked("plain/half", lambda file: file.create_group(None)),
        "/plain/half: a dataset became a group",
    ),
    "type of a dataset": (
        remade("plain/complex", data=np.array([1, 2], "c8")),
        "/plain/complex: the datatype differs",
    ),
    "order of bytes": (remade("stored/early", dtype="<i4"), "/stored/early: the datatype differs"),
    "extent": (lambda file: file["stored/growing"].resize((4, 7)), "/stored/growing: the extent differs"),
    "largest extent": (
        remade("stored/growing", maxshape=(None, 21)),
        "/stored/growing: the extent differs",
    ),
    "fill value": (
        remade("stored/never written", data=None, shape=(100, 100), dtype="i4", fillvalue=8),
        "/stored/never written: the fill value differs",
    ),
    "chunks": (remade("stored/filtered", chunks=(50,)), "/stored/filtered: differs in chunks"),
    "filters": (remade("stored/filtered", shuffle=False), "/stored/filtered: differs in filters"),
    "names of other files": (elsewhere, "/stored/external: differs in external files"),
    "a comment": (
        lambda file: calls.set_comment(file["many"].id, b"other"),
        "/many: the comment differs",
    ),
    "a committed datatype": (linked("types/pair", np.dtype("i4")), "/types/pair: the datatype differs"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_difference_is_found(original: Path, tmp_path: Path, what: str) -> None:
    changed = tmp_path / "changed.h5"
    shutil.copy(original, changed)
    change, said = CHANGES[what]
    with h5py.File(changed, "r+") as file:
        change(file)
    found = list(differences(original, changed))
    assert any(said in line for line in found), found
    # Seen from the other side there is a difference, too.
    assert next(iter(differences(changed, original)), None)


def test_equal_files_have_none(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(original, tmp_path / "copy.h5")
    # Of datasets as small as these nobody asks how many processors might share them: that takes longer.
    for module in (comparing, target):
        monkeypatch.setattr(module, "processors", lambda: pytest.fail("asked"))
    assert not list(differences(original, tmp_path / "copy.h5"))


def test_the_user_block_counts(original: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed.h5"
    shutil.copy(original, changed)
    with changed.open("r+b") as raw:
        raw.write(b"?")
    assert list(differences(original, changed)) == ["the user block differs (1024 and 1024 bytes)"]


def test_storage_of_a_named_dataset_may_differ_but_not_its_values(original: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed.h5"
    shutil.copy(original, changed)
    with h5py.File(changed, "r+") as file:
        remade("stored/filtered", chunks=(50,))(file)
    assert not list(differences(original, changed, ["stored/filtered"]))
    with h5py.File(changed, "r+") as file:
        file["stored/filtered"][999] = 0
    assert list(differences(original, changed, ["stored/filtered"])) == ["/stored/filtered: values differ"]


def test_equal_values_in_other_bytes_are_equal(original: Path, tmp_path: Path) -> None:
    """Stored chunks that differ (here by the level of compression) decide nothing."""
    changed = tmp_path / "changed.h5"
    shutil.copy(original, changed)
    with h5py.File(changed, "r+") as file:
        block = file[TARGET][...]
        file[TARGET].id.write_direct_chunk((0, 0, 0), b"x" * 10, 1)
        file[TARGET][:7, :8, :9] = block[:7, :8, :9]
        chunk = np.ascontiguousarray(block[7:14, :8, :9])
        file[TARGET].id.write_direct_chunk((7, 0, 0), chunk.tobytes(), 1)
        assert file[TARGET][...].tobytes() == block.tobytes()
    assert not list(differences(original, changed))


def test_references_of_the_newest_kind_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "new-references.h5"
    newest = calls._hid.in_dll(calls._library(), "H5T_STD_REF_g").value
    with h5py.File(path, "w", libver="latest") as file:
        file["a"] = np.arange(10)
        space = h5s.create(h5s.SCALAR)
        calls._call("H5Aclose", calls._call("H5Acreate2", file.id.id, b"r", newest, space.id, 0, 0))
    assert "cannot be compared" in " ".join(differences(path, path))
    from hyperslab import rewrite
    from hyperslab.rewriting.progress import Progress

    wanted = {"chunks": [5], "filters": [], "compact": False, "settings": {}}
    with pytest.raises(RewriteError, match="attribute r: has references of the type H5T_STD_REF"):
        rewrite.rewrite(path, tmp_path / "new.h5", "a", wanted, 2**20, Progress())
    with h5py.File(path, "w", libver="latest") as file:
        create = calls._library().H5Dcreate2
        create.restype, create.argtypes = calls._hid, [calls._hid, calls._text, *[calls._hid] * 5]
        assert create(file.id.id, b"d", newest, space.id, 0, 0, 0) >= 0
    with pytest.raises(RewriteError, match="d: has elements of variable length or references"):
        rewrite.rewrite(path, tmp_path / "new.h5", "d", wanted, 2**20, Progress())
