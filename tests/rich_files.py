"""A file with nearly everything that HDF5 knows, for tests of what a rewrite keeps."""

from __future__ import annotations

import ctypes
from pathlib import Path

import h5py
import numpy as np
from h5py import h5d, h5o, h5p, h5s, h5t

from hyperslab.rewriting import calls

TARGET = "/measured/counts"
SHAPE = (20, 30, 40)
USER_BLOCK = b"#!a program's own header\n".ljust(1024, b"\x07")


def write_rich_file(path: Path, libver: str = "earliest") -> None:
    """Write the file, and one beside it with values; TARGET is float32 of SHAPE, in chunks of (7, 8, 9)."""
    with h5py.File(path, "w", libver=libver, userblock_size=1024, track_order=True) as file:
        _target(file)
        _types(file)
        _plain_datasets(file)
        _stored_otherwise(file)
        _links(file)
        _references(file)
        _attributes(file)
        file["later"] = 1
    with path.open("r+b") as raw:
        raw.write(USER_BLOCK)


def values() -> np.ndarray:
    """The values of TARGET."""
    rng = np.random.default_rng(7)
    filled = rng.integers(0, 50, SHAPE).astype(np.float32)
    bits = filled.view(np.uint32)
    # Not-a-numbers that only a comparison of bytes tells apart.
    bits[0, 0, :3] = 0x7FC00000, 0x7FC00001, 0xFFC12345
    filled[1, 1, 1] = -0.0
    return filled


def long_float() -> h5t.TypeID:
    """A float of 256 bits (IEEE binary256), which NumPy has on no machine."""
    kind = h5t.IEEE_F64LE.copy()
    kind.set_size(32)
    kind.set_precision(256)
    kind.set_fields(255, 236, 19, 0, 236)
    kind.set_ebias(2**18 - 1)
    return kind


def _target(file: h5py.File) -> None:
    group = file.create_group("measured", track_order=True)
    target = group.create_dataset(
        "counts", data=values(), chunks=(7, 8, 9), maxshape=(None, 30, None), fillvalue=-1, track_order=True,
        compression="gzip",
    )  # fmt: skip
    for axis, name in enumerate("zyx"):
        group[name] = np.arange(SHAPE[axis]) * 0.5
        group[name].make_scale(f"axis {name}")
        target.dims[axis].attach_scale(group[name])
        target.dims[axis].label = name
    group["second x"] = np.arange(SHAPE[2])
    group["second x"].make_scale()
    target.dims[2].attach_scale(group["second x"])
    target.attrs["zulu first"] = 1
    target.attrs["alpha second"] = "ä"
    target.attrs["range"] = np.array([0, 50], ">i2")
    h5o.set_comment(target.id, b"counted by hand")


def _types(file: h5py.File) -> None:
    group = file.create_group("types")
    group["seconds"] = np.dtype(">f8")
    group["same seconds"] = np.dtype(">f8")
    group["pair"] = np.dtype([("a", "i4"), ("b", h5py.string_dtype())])
    group["seconds"].attrs["unit"] = "s"
    file["times"] = h5py.Empty("f4")
    for name, kind in (("t1", "seconds"), ("t2", "same seconds")):
        h5d.create(group.id, name.encode(), group[kind].id, h5s.create_simple((3,)))
        group[name][...] = [1, 2, 3]
    group["t1"].attrs.create("offset", 2.5, dtype=group["seconds"])
    # A dataset of the one type with an attribute of another one that is equal.
    group["t1"].attrs.create("twin", 2.5, dtype=group["same seconds"])
    h5d.create(group.id, b"pairs", group["pair"].id, h5s.create_simple((2,)))
    group["pairs"][...] = np.array([(1, "one"), (2, "two")], group["pair"].dtype)
    file["measured"].attrs.create("exposure", 0.1, dtype=group["same seconds"])
    file["measured/counts"].attrs.create("dwell", 0.25, dtype=group["seconds"])


def _plain_datasets(file: h5py.File) -> None:
    group = file.create_group("plain")
    padded = np.dtype({"names": ["a", "b"], "formats": ["i1", "f8"], "offsets": [1, 8], "itemsize": 24})
    group["compound"] = np.array([(1, 2.5), (3, np.nan)], padded)
    group["enum"] = np.array([0, 2], h5py.enum_dtype({"none": 0, "all": 2}, basetype=">i2"))
    group["flags"] = np.array([True, False])
    group["complex"] = np.array([1 + 2j, np.nan])
    group["half"] = np.arange(3, dtype="f2")
    group["quad"] = np.arange(3, dtype=np.longdouble)
    group["opaque"] = np.array([b"abc", b"def"], "V3")
    group["array"] = np.zeros(2, np.dtype(("i4", (2, 3))))
    group["fixed"] = np.array([b"abc", b"de"], h5py.string_dtype("ascii", 5))
    group["fixed utf-8"] = np.array(["ä".encode(), b""], h5py.string_dtype("utf-8", 4))
    group["strings"] = np.array(["one", "", "zwölf"], h5py.string_dtype())
    ragged = group.create_dataset("ragged", (3,), h5py.vlen_dtype(np.float32))
    ragged[0], ragged[2] = [1.0, np.nan], [2.0]
    group["scalar"] = 42
    group["null"] = h5py.Empty("i8")
    group["scalar text"] = "text"
    h5d.create(group.id, b"time", h5t.UNIX_D32LE, h5s.create_simple((2,)))
    odd = h5t.STD_I32LE.copy()
    odd.set_precision(20)
    odd.set_offset(4)
    h5d.create(group.id, b"20 bits", odd, h5s.create_simple((4,)))
    tagged = h5t.create(h5t.OPAQUE, 5)
    tagged.set_tag(b"five bytes of mine")
    h5d.create(group.id, b"tagged", tagged, h5s.create_simple((2,)))


def _stored_otherwise(file: h5py.File) -> None:
    group = file.create_group("stored")
    group.create_dataset("empty", (0,), "i4", maxshape=(None,), chunks=(10,))
    group.create_dataset("no rows", (0, 5), "i4")
    group.create_dataset("never written", (100, 100), "i4", chunks=(10, 10), fillvalue=7)
    sparse = group.create_dataset(
        "sparse", (100, 100), "i4", chunks=(10, 10), fillvalue=7, compression="gzip"
    )
    sparse[35, 35] = 1
    group.create_dataset("filtered", data=np.arange(1000), chunks=(100,), shuffle=True, fletcher32=True)
    group.create_dataset("lzf", data=np.arange(1000), chunks=(100,), compression="lzf")
    group.create_dataset("scaled", data=np.arange(1000), chunks=(100,), scaleoffset=0)
    growing = group.create_dataset("growing", (5, 10), "u2", maxshape=(None, 20), chunks=(4, 4))
    growing[...] = 3
    growing.resize((3, 7))
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_layout(h5d.COMPACT)
    h5d.create(group.id, b"compact", h5t.STD_I32BE, h5s.create_simple((8,)), creation)
    group["compact"][...] = np.arange(8)
    early = h5p.create(h5p.DATASET_CREATE)
    early.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    early.set_fill_time(h5d.FILL_TIME_NEVER)
    h5d.create(group.id, b"early", h5t.STD_I32BE, h5s.create_simple((8,)), early)
    group["early"][...] = 1
    outside = Path(file.filename).with_suffix(".raw")
    outside.write_bytes(np.arange(6, dtype="<i4").tobytes())
    group.create_dataset("external", (6,), "<i4", external=[(str(outside), 0, 24)])
    layout = h5py.VirtualLayout((2, 8), "i4")
    for row in range(2):
        layout[row] = h5py.VirtualSource(".", "/stored/compact", (8,))
    group.create_virtual_dataset("virtual", layout, fillvalue=-5)


def _links(file: h5py.File) -> None:
    group = file.create_group("links", track_order=True)
    group["zuerst"] = file[TARGET]
    group["soft"] = h5py.SoftLink(TARGET)
    group["dangling"] = h5py.SoftLink("/nowhere")
    group["other file"] = h5py.ExternalLink("not-there.h5", "/x")
    group["above"] = file["measured"]
    group["self"] = group
    group["a root"] = file["/"]
    group["type"] = file["types/seconds"]
    group["ünicode"] = 1
    file["measured/again"] = file["links"]
    deep = group
    for _ in range(12):
        deep = deep.create_group("deep")
    deep["bottom"] = file["plain/strings"]
    many = file.create_group("many")
    for number in range(12):
        many[f"d{number}"] = number
    h5o.set_comment(many.id, b"more than a compact group holds")


def _references(file: h5py.File) -> None:
    group = file.create_group("references")
    target = file[TARGET]
    region = target.regionref[2:5, ::3, 4]
    points = target.regionref[np.array([1, 5, 7]), 2, 3]
    group["objects"] = np.array(
        [target.ref, file["plain"].ref, group.ref, file["types/pair"].ref], h5py.ref_dtype
    )
    group["regions"] = np.array([region, points, file["plain/enum"].regionref[1:]], h5py.regionref_dtype)
    group.create_dataset("null", (3,), h5py.ref_dtype)
    group.create_dataset("null regions", (3,), h5py.regionref_dtype, chunks=(2,))
    chunked = group.create_dataset("chunked", (3, 3), h5py.ref_dtype, chunks=(2, 2), compression="gzip")
    chunked[0, 2] = chunked[2, 2] = target.ref
    gone = group.create_dataset("gone", data=1)
    group["dangling"] = np.array([gone.ref, target.ref], h5py.ref_dtype)
    del group["gone"]
    group.attrs["main"] = target.ref
    group.attrs["part"] = region
    group.attrs["none"] = h5py.Reference()
    group["objects"].attrs["main"] = target.ref
    group["objects"].attrs["note"] = "reference beside plain attributes"
    _nested_references(file, group)


def _nested_references(file: h5py.File, group: h5py.Group) -> None:
    """A sequence of records of a number, an object and a region, which h5py cannot write."""
    record = h5t.create(h5t.COMPOUND, 32)
    record.insert(b"number", 0, h5t.STD_I32LE)
    record.insert(b"object", 8, h5t.STD_REF_OBJ)
    record.insert(b"region", 16, h5t.STD_REF_DSETREG)
    sequence = h5t.vlen_create(record)
    memory, space = sequence.copy(), h5s.create_simple((2,))
    inner = memory.get_super()
    elements = np.zeros(3 * inner.get_size(), np.uint8)
    whole = h5s.create_simple(SHAPE)
    whole.select_hyperslab((1, 2, 3), (4, 5, 6))
    for number in range(3):
        place = elements.ctypes.data + number * inner.get_size()
        ctypes.c_int32.from_address(place).value = number
        address = h5o.get_info(file[TARGET].id).addr
        ctypes.c_uint64.from_address(place + inner.get_member_offset(1)).value = address
        calls.make_region(place + inner.get_member_offset(2), file.id, TARGET.encode(), whole)
    outer = np.array([2, elements.ctypes.data, 1, elements.ctypes.data + 2 * inner.get_size()], np.uint64)
    buffer = outer.view(np.uint8)
    dataset = h5d.create(group.id, b"nested", sequence, space)
    calls.write_dataset(dataset, memory, space, space, buffer)
    attribute = calls.create_attribute(group.id, b"nested", h5t.CSET_ASCII, sequence, space)
    calls.write_attribute(attribute, memory, buffer)
    array = h5t.array_create(h5t.STD_REF_OBJ, (2,))
    held = h5d.create(group.id, b"arrays", array, h5s.create_simple((1,)))
    pair = np.array([address, address], np.uint64).view(np.uint8)
    calls.write_dataset(held, array.copy(), h5s.create_simple((1,)), h5s.create_simple((1,)), pair)


def _attributes(file: h5py.File) -> None:
    for name, value in (
        ("zebra", 1),
        ("ähre", "grün"),
        ("apple", [1.5, np.nan]),
        ("empty", h5py.Empty("f4")),
    ):
        file.attrs[name] = value
    encoded = calls.create_attribute(
        file["/"].id, "größe".encode(), h5t.CSET_UTF8, h5t.STD_I8LE, h5s.create(h5s.SCALAR)
    )
    calls.write_attribute(encoded, h5t.STD_I8LE, np.array([5], np.uint8))
    group = file.create_group("attributes")
    group.attrs["ragged"] = np.array([np.arange(3.0), np.arange(5.0)], object).astype(h5py.vlen_dtype(float))
    group.attrs["names"] = np.array(["a", "", "ccc"], h5py.string_dtype())
    for number in range(12):
        group.attrs[f"a{number}"] = number
    text = h5t.py_create(h5py.string_dtype(), logical=True)
    record = h5t.create(h5t.COMPOUND, 32)
    record.insert(b"text", 0, text)
    record.insert(b"numbers", 16, h5t.vlen_create(h5t.STD_I16BE))
    exotic = h5t.vlen_create(h5t.vlen_create(record))
    # Sequences of sequences: h5py can neither read nor write them.
    calls.create_attribute(group.id, b"exotic", h5t.CSET_ASCII, exotic, h5s.create_simple((2,)))
    if file.libver[0] != "earliest":
        group.attrs["large"] = np.arange(20_000.0)
        file["measured/counts"].attrs["large"] = np.arange(20_000.0)
