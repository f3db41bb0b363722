"""Donors of every kind: what is read, how it is cut, and what is refused with one line."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
from pyimzml.ImzMLWriter import ImzMLWriter

import hyperslab
from hyperslab.data.donor_paths import identity
from hyperslab.data.values import Donor, open_values
from hyperslab.formats import donor_files as donors
from hyperslab.formats import donor_opening
from hyperslab.formats.donor_files import check, converted, prepare, read_box
from hyperslab.formats.donor_opening import DonorError
from hyperslab.specifications import Specification
from hyperslab.studies import specification
from hyperslab.studies.study import LoadedStudy

SHAPE = (3, 4, 50)
VALUES = np.random.default_rng(7).integers(0, 2000, SHAPE).astype("u4")


def write_npy(directory: Path) -> dict[str, Any]:
    np.save(directory / "donor.npy", VALUES)
    return {"path": str(directory / "donor.npy")}


def write_hdf5(directory: Path) -> dict[str, Any]:
    with h5py.File(directory / "donor.h5", "w") as file:
        file.create_dataset("entry/counts", data=VALUES, chunks=(2, 2, 10), compression="gzip")
    return {"path": str(directory / "donor.h5"), "dataset": "/entry/counts"}


def write_imzml(directory: Path) -> dict[str, Any]:
    axis = np.linspace(100, 200, SHAPE[2])
    with ImzMLWriter(str(directory / "donor.imzML"), mode="continuous", intensity_dtype=np.float32) as writer:
        for x in range(SHAPE[0]):
            for y in range(SHAPE[1]):
                writer.addSpectrum(axis, VALUES[x, y].astype("f4"), (x + 1, y + 1))
    return {"path": str(directory / "donor.imzML")}


KINDS = {"npy": write_npy, "hdf5": write_hdf5, "imzML": write_imzml}


def dataset(donor: dict[str, Any], shape: tuple[int, ...] = SHAPE, dtype: str = "uint16") -> dict[str, Any]:
    return {"axes": ["x", "y", "z"], "shape": list(shape), "dtype": dtype, "donor": donor}


@pytest.mark.parametrize("kind", KINDS)
def test_a_donor_is_kept_in_the_datasets_type(tmp_path: Path, kind: str) -> None:
    spec = dataset(KINDS[kind](tmp_path))
    prepare(spec, tmp_path / "kept.npy")
    kept = np.load(tmp_path / "kept.npy")
    assert kept.dtype == np.uint16
    np.testing.assert_array_equal(kept, VALUES)


def test_a_donor_that_a_plug_in_compressed_is_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "donor.h5", "w") as file:
        file.create_dataset("counts", data=VALUES, chunks=(2, 2, 10), **hdf5plugin.Zstd())
    asked = dataset({"path": str(tmp_path / "donor.h5"), "dataset": "counts"})
    # In a process that has not imported what wrote it.
    command = [
        sys.executable,
        "-m",
        "hyperslab.donors",
        "--dataset",
        json.dumps(asked),
        "--output",
        "kept.npy",
    ]
    environment = {"PYTHONPATH": str(Path(hyperslab.__file__).parents[1])}
    subprocess.run(command, check=True, timeout=60, cwd=tmp_path, env=environment, capture_output=True)
    assert np.array_equal(np.load(tmp_path / "kept.npy"), VALUES)


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_is_used_is_kept(tmp_path: Path, kind: str) -> None:
    spec = dataset(KINDS[kind](tmp_path), (2, 9, 20))
    prepare(spec, tmp_path / "kept.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "kept.npy"), VALUES[:2, :, :20])


def test_no_room_for_a_donors_values_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of a mapped file that gets no block would end the process."""

    def refused(number: int) -> Any:
        def allocate(*_: Any) -> None:
            raise OSError(number, os.strerror(number))

        return allocate

    spec, kept = dataset(write_npy(tmp_path)), tmp_path / "kept.npy"
    monkeypatch.setattr(os, "posix_fallocate", refused(errno.ENOSPC))
    with pytest.raises(DonorError, match=r"kept\.npy: No space left on device: it needs .* MB; free some$"):
        prepare(spec, kept)
    # Where no blocks can be set aside, it goes on without.
    monkeypatch.setattr(os, "posix_fallocate", refused(errno.EOPNOTSUPP))
    prepare(spec, kept)
    np.testing.assert_array_equal(np.load(kept), VALUES)


@pytest.mark.parametrize("chunks", [None, (2, 2, 10), (3, 4, 1), (1, 1, 50), (3, 9, 64)])
def test_a_donor_is_read_in_pieces_of_whole_chunks_that_memory_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunks: tuple[int, ...] | None
) -> None:
    class Recorded:
        shape, dtype = (3, 9, 64), np.dtype("u4")

        def __init__(self) -> None:
            self.chunks, self.pieces = chunks, list[tuple[slice, ...]]()

        def __getitem__(self, index: tuple[slice, ...]) -> np.ndarray:
            self.pieces.append(index)
            return np.arange(3 * 9 * 64, dtype="u4").reshape(self.shape)[index]

    array = Recorded()
    monkeypatch.setattr(donors, "TILE_BYTES", limit := 400)
    monkeypatch.setitem(donor_opening.OPENERS, ".npy", lambda *_: contextlib.nullcontext(array))
    prepare(dataset(write_npy(tmp_path)), tmp_path / "kept.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "kept.npy"), array[:3, :4, :50])
    pieces = array.pieces[:-1]
    unit = [min(c, h) for c, h in zip(chunks or (1, 1, 1), SHAPE, strict=True)]
    starts = [[part.start for part in piece] for piece in pieces]
    assert all(start % size == 0 for piece in starts for start, size in zip(piece, unit, strict=True))
    sizes = [4 * math.prod(part.stop - part.start for part in piece) for piece in pieces]
    assert max(sizes) <= max(limit, 4 * math.prod(unit))
    assert sum(sizes) == 4 * VALUES.size


def test_a_larger_array_repeats_the_donor_and_ends_with_its_last_window(tmp_path: Path) -> None:
    spec = dataset(write_npy(tmp_path), (3, 10, 50))
    prepare(spec, tmp_path / "kept.npy")
    values = open_values(spec, str(tmp_path / "kept.npy"))
    assert isinstance(values, Donor)
    # Four, four, and the last window of two.
    rows = [0, 1, 2, 3, 0, 1, 2, 3, 2, 3]
    np.testing.assert_array_equal(values.block((0, 0, 0), (3, 10, 50)), VALUES[:, rows])


def test_a_window_takes_the_donors_last_of_equal_length(tmp_path: Path) -> None:
    spec = dataset({**write_npy(tmp_path), "window": [3, 3, 50]}, (3, 8, 50))
    prepare(spec, tmp_path / "kept.npy")
    values = open_values(spec, str(tmp_path / "kept.npy"))
    # Windows of three: 0-2 fits, 3-5 runs past the end at 4, and two are left.
    np.testing.assert_array_equal(values.block((0, 0, 0), (3, 8, 50)), VALUES[:, [0, 1, 2, 1, 2, 3, 2, 3]])


REFUSED = {
    "no such file": ({"path": "nowhere.npy"}, SHAPE, "there is no such file"),
    "unknown kind": ({"path": __file__}, SHAPE, "unknown kind of donor"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_that_cannot_be_a_donor(case: str) -> None:
    donor, shape, said = REFUSED[case]
    with pytest.raises(DonorError, match=said):
        check(dataset(donor, shape))


def refused(path: Path, dataset_name: str | None = None) -> str:
    """What is said of a donor that cannot serve, without the directory of its file."""
    donor = {"path": str(path), **({"dataset": dataset_name} if dataset_name else {})}
    with pytest.raises(DonorError) as error:
        check(dataset(donor))
    text = str(error.value)
    assert text.splitlines() == [text]
    return text.removeprefix(f"{path.parent}/")


def test_a_file_of_netcdf_3_is_told_from_one_of_unknown_kind(tmp_path: Path) -> None:
    (tmp_path / "old.nc").write_bytes(b"CDF\x01" + bytes(28))
    assert refused(tmp_path / "old.nc").startswith("old.nc: is NetCDF-3, and not HDF5")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "donor.npy: cannot be read: No data left in file"),
        (b"\x93NUMPY\x01\x00v\x00{'descr'", "donor.npy: cannot be read: EOF: reading array header"),
        (b"x" * 500, "donor.npy: cannot be read: "),
    ],
)
def test_a_damaged_npy_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "donor.npy").write_bytes(content)
    assert refused(tmp_path / "donor.npy").startswith(said)


def test_an_array_without_elements_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "donor.npy", np.zeros((3, 0, 50), "u2"))
    assert refused(tmp_path / "donor.npy") == "donor.npy: holds no element: its shape is (3, 0, 50)"
    with h5py.File(tmp_path / "donor.h5", "w") as file:
        file.create_dataset("null", data=h5py.Empty("f4"))
        file.create_dataset("zero", shape=(3, 0, 50), dtype="u2")
    assert refused(tmp_path / "donor.h5", "null") == "donor.h5: null is a null dataset, which holds nothing"
    assert refused(tmp_path / "donor.h5", "zero") == "donor.h5: holds no element: its shape is (3, 0, 50)"


def test_a_file_of_one_array_has_no_datasets_to_name(tmp_path: Path) -> None:
    write_npy(tmp_path)
    assert refused(tmp_path / "donor.npy", "x") == (
        "donor.npy: holds one array without a name; leave `dataset` out, not 'x'"
    )


def test_imzml_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    write_imzml(tmp_path)
    written, values = tmp_path / "donor.imzML", tmp_path / "donor.ibd"
    whole, text = values.read_bytes(), written.read_bytes()
    values.write_bytes(whole[:-40])
    assert refused(written).startswith("donor.ibd: is shorter than donor.imzML says")
    values.unlink()
    assert refused(written) == "donor.ibd: there is no such file; it holds the values of donor.imzML"
    values.write_bytes(whole)
    for damaged in (b"", b"x", text[:2500], b"<mzML></mzML>"):
        written.write_bytes(damaged)
        assert refused(written).startswith("donor.imzML: cannot be read: ")


@pytest.mark.parametrize("name", ["donor.npy", "donor.h5", "donor.imzML"])
def test_a_pipe_or_a_directory_as_donor_does_not_hang(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    assert refused(tmp_path / name, "x").startswith(f"{name}: is not a file")
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    assert refused(tmp_path / name, "x").startswith(f"{name}: is not a file")


def test_a_dataset_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    donor = {**write_hdf5(tmp_path), "dataset": "/entry/count"}
    with pytest.raises(DonorError, match="/entry/counts"):
        check(dataset(donor))


@pytest.mark.parametrize("name", ["scan.nxs", "scan.he5", "scan", "scan.npy"])
@pytest.mark.parametrize("user_block", [0, 512, 8192])
def test_a_file_is_hdf5_by_its_content(tmp_path: Path, name: str, user_block: int) -> None:
    with h5py.File(tmp_path / name, "w", userblock_size=user_block) as file:
        file["counts"] = VALUES
    prepare(dataset({"path": str(tmp_path / name), "dataset": "counts"}), tmp_path / "kept.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "kept.npy"), VALUES)


def test_links_lead_to_the_donor(tmp_path: Path) -> None:
    write_hdf5(tmp_path)
    with h5py.File(tmp_path / "master.h5", "w") as file:
        file["group/values"] = VALUES + 1
        file["soft"] = h5py.SoftLink("/group/values")
        file["outside"] = h5py.ExternalLink("donor.h5", "/entry/counts")
        file["both"] = h5py.SoftLink("/outside")
        file["broken"] = h5py.ExternalLink("gone.h5", "/entry/counts")
    for name, values in {"soft": VALUES + 1, "outside": VALUES, "both": VALUES}.items():
        spec = dataset({"path": str(tmp_path / "master.h5"), "dataset": name})
        check(spec)
        prepare(spec, tmp_path / "kept.npy")
        np.testing.assert_array_equal(np.load(tmp_path / "kept.npy"), values)
    with pytest.raises(DonorError, match="broken leads to gone.h5::/entry/counts, which is not there"):
        check(dataset({"path": str(tmp_path / "master.h5"), "dataset": "broken"}))


def write_parts(directory: Path) -> dict[str, Any]:
    """A virtual dataset of virtual ones, one of each row of VALUES, and a link to it in another folder."""
    for row, values in enumerate(VALUES):
        with h5py.File(directory / f"row{row}.h5", "w") as file:
            file["values"] = values
        with h5py.File(directory / f"virtual{row}.h5", "w") as file:
            part = h5py.VirtualLayout(values.shape, "u4")
            part[:] = h5py.VirtualSource(f"row{row}.h5", "values", values.shape)
            file.create_virtual_dataset("values", part)
    with h5py.File(directory / "whole.h5", "w") as file:
        whole = h5py.VirtualLayout(SHAPE, "u4")
        for row in range(SHAPE[0]):
            whole[row] = h5py.VirtualSource(f"virtual{row}.h5", "values", SHAPE[1:])
        file.create_virtual_dataset("values", whole)
    other = directory / "other"
    other.mkdir()
    with h5py.File(other / "link.h5", "w") as file:
        file["values"] = h5py.ExternalLink("../whole.h5", "/values")
    return {"path": str(other / "link.h5"), "dataset": "values"}


def test_a_virtual_donor_is_read_where_all_its_sources_are(tmp_path: Path) -> None:
    spec = dataset(write_parts(tmp_path))
    check(spec)
    prepare(spec, tmp_path / "kept.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "kept.npy"), VALUES)


def test_a_virtual_donor_is_read_by_whole_chunks_of_its_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with h5py.File(tmp_path / "donor.h5", "w") as file:
        whole = h5py.VirtualLayout(SHAPE, "u4")
        for row, values in enumerate(VALUES):
            file.create_dataset(f"row{row}", data=values, chunks=(2, 50), compression="gzip")
            whole[row] = h5py.VirtualSource(file[f"row{row}"])
        file.create_virtual_dataset("values", whole)
        file["plain"] = VALUES
    with h5py.File(tmp_path / "donor.h5") as file:
        assert donors.pieces(file["values"]) == (1, 2, 50) and donors.pieces(file["plain"]) is None
    boxes: list[tuple[slice, ...]] = []

    def read(array: Any, box: tuple[slice, ...], *more: Any) -> Any:
        boxes.append(box)
        return read_box(array, box, *more)

    # A row and a half of elements, which would end within a chunk.
    monkeypatch.setattr(donors, "TILE_BYTES", 4 * 75)
    monkeypatch.setattr(donors, "read_box", read)
    prepare(dataset({"path": str(tmp_path / "donor.h5"), "dataset": "values"}), tmp_path / "kept.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "kept.npy"), VALUES)
    assert [tuple(part.start for part in box) for box in boxes] == [
        (row, column, 0) for row in range(3) for column in (0, 2)
    ]


def test_spectra_of_imzml_are_read_whole(tmp_path: Path) -> None:
    donor = write_imzml(tmp_path)
    with donor_opening.open_donor(Path(donor["path"])) as array:
        assert donors.pieces(array) == (1, 1, SHAPE[2])


def test_a_damaged_chunk_is_one_line_that_names_file_and_dataset(tmp_path: Path) -> None:
    donor = write_hdf5(tmp_path)
    with h5py.File(donor["path"]) as file:
        chunk = file["entry/counts"].id.get_chunk_info(3)
    with open(donor["path"], "r+b") as opened:
        opened.seek(chunk.byte_offset)
        opened.write(b"\xff" * chunk.size)
    with pytest.raises(DonorError, match=r"^.*donor\.h5::/entry/counts: cannot be read: .+$"):
        prepare(dataset(donor), tmp_path / "kept.npy")


@pytest.mark.parametrize("lost", ["virtual1.h5", "row2.h5"])
def test_a_virtual_donor_with_missing_sources_is_refused(tmp_path: Path, lost: str) -> None:
    spec = dataset(write_parts(tmp_path))
    (tmp_path / lost).unlink()
    for refuse in (check, lambda spec: prepare(spec, tmp_path / "kept.npy")):
        with pytest.raises(DonorError, match=f"has values in files that are not there: .*{lost}"):
            refuse(spec)


def test_a_virtual_donor_is_looked_up_with_each_source_opened_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    donor = write_parts(tmp_path)
    opened: list[str] = []
    really = h5py.h5f.open

    def noted(name: bytes, *given: Any, **named: Any) -> Any:
        opened.append(Path(os.fsdecode(name)).name)
        return really(name, *given, **named)

    monkeypatch.setattr(h5py.h5f, "open", noted)
    with donor_opening.open_donor(Path(donor["path"]), donor["dataset"]):
        assert sorted(opened) == [
            "link.h5", "row0.h5", "row1.h5", "row2.h5", "virtual0.h5", "virtual1.h5", "virtual2.h5",
        ]  # fmt: skip


def test_a_virtual_donor_whose_source_lacks_the_dataset_is_refused(tmp_path: Path) -> None:
    spec = dataset(write_parts(tmp_path))
    with h5py.File(tmp_path / "row0.h5", "r+") as file:
        file.move("values", "renamed")
    with pytest.raises(DonorError, match="row0.h5::values"):
        check(spec)


def test_a_virtual_donor_may_have_more_sources_than_the_soft_limit_lets_be_open(tmp_path: Path) -> None:
    """HDF5 keeps all of them open, and has fill values for those that it cannot open."""
    count = 300
    whole = h5py.VirtualLayout((count, 1, 1), "u4")
    for number in range(count):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file["values"] = [[number + 1]]
        whole[number] = h5py.VirtualSource(f"{number}.h5", "values", (1, 1))
    with h5py.File(tmp_path / "donor.h5", "w") as file:
        file.create_virtual_dataset("values", whole)
    donor = {"path": str(tmp_path / "donor.h5"), "dataset": "values"}
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 100, hard))
    try:
        prepare(dataset(donor, (count, 1, 1)), tmp_path / "kept.npy")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert np.load(tmp_path / "kept.npy").ravel().tolist() == list(range(1, count + 1))


def test_a_virtual_donor_with_more_sources_than_may_be_open_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Three sources, each of which has one of its own.
    spec = dataset(write_parts(tmp_path))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 65))
    with pytest.raises(DonorError, match=r"reading 6 files at once takes a limit of 70 open files, which is"):
        check(spec)


def test_a_donor_whose_external_storage_is_gone_is_refused(tmp_path: Path) -> None:
    VALUES.tofile(tmp_path / "values.raw")
    storage = [(str(tmp_path / "values.raw"), 0, VALUES.nbytes)]
    with h5py.File(tmp_path / "donor.h5", "w") as file:
        file.create_dataset("counts", SHAPE, VALUES.dtype, external=storage)
    spec = dataset({"path": str(tmp_path / "donor.h5"), "dataset": "counts"})
    check(spec)
    (tmp_path / "values.raw").unlink()
    with pytest.raises(DonorError, match="not there: .*values.raw"):
        check(spec)


def test_another_number_of_axes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DonorError, match="has 3 axes"):
        check({**dataset(write_npy(tmp_path)), "shape": [3, 4]})


def test_a_window_longer_than_the_donor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DonorError, match="longer than what the donor holds"):
        check(dataset({**write_npy(tmp_path), "window": [4, 4, 50]}, (9, 9, 50)))


def test_values_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DonorError, match="do not all fit uint8"):
        prepare(dataset(write_npy(tmp_path), dtype="uint8"), tmp_path / "kept.npy")


@pytest.mark.parametrize(
    ("values", "dtype", "fits"),
    [
        (np.array([-1.797e308, 1.0]), "float32", False),
        (np.array([np.inf, np.nan, 0.1]), "float32", True),
        (np.array([2**53 + 1]), "float64", False),
        (np.array([2**63 - 1]), "float64", False),
        (np.array([2**53]), "float64", True),
        (np.array([2.5]), "int16", False),
        (np.array([-3.0]), "int16", True),
    ],
)
def test_no_value_of_a_donor_becomes_another(values: Any, dtype: str, fits: bool) -> None:
    if fits:
        assert converted(values, np.dtype(dtype), Path("mine.npy")).dtype == dtype
        return
    with pytest.raises(DonorError, match=f"do not all fit {dtype}"):
        converted(values, np.dtype(dtype), Path("mine.npy"))


def test_spectra_of_unequal_length_are_refused(tmp_path: Path) -> None:
    with ImzMLWriter(str(tmp_path / "ragged.imzML"), mode="processed") as writer:
        writer.addSpectrum(np.arange(5.0), np.arange(5.0), (1, 1))
        writer.addSpectrum(np.arange(7.0), np.arange(7.0), (1, 2))
    with pytest.raises(DonorError, match="5 to 7 values"):
        check(dataset({"path": str(tmp_path / "ragged.imzML")}))


def test_intensities_of_a_type_that_is_not_read_are_refused(tmp_path: Path) -> None:
    write_imzml(tmp_path)
    written = tmp_path / "donor.imzML"
    text = written.read_text()
    assert "MS:1000521" in text
    written.write_text(text.replace("MS:1000521", "IMS:1100001").replace("32-bit float", "16-bit integer"))
    assert refused(written) == (
        "donor.imzML: its intensity values have a type that is not read; write 32 or 64 bits"
    )


def test_a_spectrum_with_fewer_intensities_than_its_axis_is_refused(tmp_path: Path) -> None:
    write_imzml(tmp_path)
    written = tmp_path / "donor.imzML"
    before, said, after = written.read_text().rpartition('name="external array length" value="')
    written.write_text(f"{before}{said}1{after.removeprefix(str(SHAPE[2]))}")
    assert refused(written).startswith(f"donor.imzML: its spectra have 1 to {SHAPE[2]} values; bin them")


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ([(1, 1, 1), (1, 2, 1), (1, 1, 2)], "has several spectra at one (x, y), such as at several z"),
        ([(0, 1), (1, 1)], "its coordinates begin at 0, and those of imzML at 1"),
        ([(1, 0), (1, 1)], "its coordinates begin at 0, and those of imzML at 1"),
    ],
)
def test_spectra_that_have_no_place_in_an_image_are_refused(
    tmp_path: Path, places: list[tuple[int, ...]], said: str
) -> None:
    with ImzMLWriter(str(tmp_path / "deep.imzML"), mode="continuous") as writer:
        for place in places:
            writer.addSpectrum(np.arange(5.0), np.arange(5.0), place)
    assert refused(tmp_path / "deep.imzML").startswith(f"deep.imzML: {said}")


# ---- paths with variables


def test_a_path_may_hold_variables_and_name_the_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = write_hdf5(tmp_path)
    monkeypatch.setenv("HYPERSLAB_TEST_DONOR", f"{given['path']}::/entry/counts")
    monkeypatch.setenv("HYPERSLAB_TEST_PLACE", str(tmp_path))
    forms: list[dict[str, Any]] = [
        {"path": "$HYPERSLAB_TEST_DONOR"},
        {"path": "${HYPERSLAB_TEST_PLACE}/donor.h5::/entry/counts"},
        {"path": "$HYPERSLAB_TEST_PLACE/donor.h5::entry/counts"},
        {"path": "$HYPERSLAB_TEST_PLACE/donor.h5", "dataset": "/entry/counts"},
    ]
    for number, donor in enumerate(forms):
        check(dataset(donor))
        prepare(dataset(donor), tmp_path / f"{number}.npy")
        assert np.array_equal(np.load(tmp_path / f"{number}.npy"), VALUES)
        assert identity(donor) == "donor.h5::/entry/counts"


def test_a_variable_that_is_not_set_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HYPERSLAB_TEST_DONOR", raising=False)
    donor = {"path": "$HYPERSLAB_TEST_DONOR"}
    said = (
        r"^\$HYPERSLAB_TEST_DONOR: the environment variable HYPERSLAB_TEST_DONOR is not set; it should name"
    )
    with pytest.raises(DonorError, match=said):
        check(dataset(donor))
    with pytest.raises(DonorError, match=said):
        prepare(dataset(donor), tmp_path / "kept.npy")
    assert identity(donor) is None


def test_a_path_without_variables_is_its_own_identity(tmp_path: Path) -> None:
    # Specifications of results that are already there hold nothing more.
    assert identity(write_npy(tmp_path)) is None


STUDY = """
title: t
dataset: {axes: [x, y, z], shape: [3, 4, 50], donor: {path: %s}}
layouts: {c: }
cases: {w: {write: whole}}
"""


def specified(directory: Path, path: str) -> Specification:
    """The specification of a cell of a study with the donor `path`."""
    (directory / "mine.yaml").write_text(STUDY % path, encoding="utf-8")
    return specification.cell_specification(LoadedStudy(directory / "mine.yaml"), "c", "w", "r0")


def test_a_specification_says_which_file_a_variable_stood_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = "$HYPERSLAB_TEST_DONOR"
    monkeypatch.setenv(variable[1:], str(tmp_path / "one.npy"))
    one = specified(tmp_path, variable)
    assert one["dataset"]["donor"] == {"path": variable, "file": "one.npy"}
    monkeypatch.setenv(variable[1:], str(tmp_path / "two.npy"))
    two = specified(tmp_path, variable)
    monkeypatch.delenv(variable[1:])
    unknown = specified(tmp_path, variable)
    assert unknown["dataset"]["donor"] == {"path": variable}
    # Another donor is another array; where none is known, results of any can be shown.
    digest = specification.digest
    assert [specification.agrees(digest(today), one) for today in (one, two, unknown)] == [True, False, True]
    assert not specification.agrees(digest(one), unknown)
    assert not specification.agrees(None, one)
    plain = specified(tmp_path, str(tmp_path / "one.npy"))
    assert plain["dataset"]["donor"] == {"path": str(tmp_path / "one.npy")}
    assert not specification.agrees(digest(unknown), plain)
