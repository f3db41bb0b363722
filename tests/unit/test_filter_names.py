"""Filters of a file's dataset in the words of a study: what is named stores the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
from h5py import h5p

from hyperslab.formats import Unavailable
from hyperslab.formats.hdf5 import filter_setters
from hyperslab.formats.hdf5.filter_names import named
from hyperslab.layouts.hdf5_filters import FILTERS


@pytest.fixture(scope="module")
def file() -> Iterator[h5py.File]:
    with h5py.File("names", "w", driver="core", backing_store=False) as opened:
        yield opened


def stored(file: h5py.File, dtype: str = "uint32", **how: Any) -> h5py.Dataset:
    values = np.arange(64 * 64).reshape(64, 64).astype(dtype)
    return file.create_dataset(None, data=values, chunks=(16, 32), **how)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({}, []),
        (
            {"shuffle": True, "compression": "gzip", "fletcher32": True},
            [{"name": "shuffle"}, {"name": "gzip", "level": 4}, {"name": "fletcher32"}],
        ),
        ({"compression": "gzip", "compression_opts": 9}, [{"name": "gzip", "level": 9}]),
        ({"compression": "lzf"}, [{"name": "lzf"}]),
        (
            {"compression": "szip", "compression_opts": ("ec", 8)},
            [{"name": "szip", "block": 8, "coding": "entropy"}],
        ),
        ({"scaleoffset": 0}, [{"name": "scaleoffset", "bits": 0}]),
        (hdf5plugin.Zstd(7), [{"name": "zstd", "level": 7}]),
        (hdf5plugin.Zstd(-3), [{"name": "zstd", "level": -3}]),
        (hdf5plugin.Blosc("zstd", 9, 2), [{"name": "blosc", "codec": "zstd", "level": 9, "shuffle": "bit"}]),
        (hdf5plugin.Blosc2("lz4", 1, 0), [{"name": "blosc2", "codec": "lz4", "level": 1, "shuffle": "none"}]),
        (hdf5plugin.LZ4(), [{"name": "lz4"}]),
        (
            hdf5plugin.Bitshuffle(cname="zstd", clevel=5),
            [{"name": "bitshuffle", "codec": "zstd", "level": 5}],
        ),
        (hdf5plugin.Bitshuffle(), [{"name": "bitshuffle", "codec": "lz4", "level": 3}]),
        (hdf5plugin.BZip2(4), [{"name": "bzip2", "block": 4}]),
    ],
)  # fmt: skip
def test_filters_are_named_as_they_were_put_on(file: h5py.File, how: Any, words: list[Any]) -> None:
    assert named(stored(file, **how).id) == words


@pytest.mark.parametrize(
    "how",
    [
        # Blocks of another size than the study's filter makes, no level where it has one, and lossy ones.
        hdf5plugin.LZ4(4096), hdf5plugin.Bitshuffle(nelems=64), {"compression": 32015}, {"scaleoffset": 5},
    ],
)  # fmt: skip
def test_what_a_study_would_store_otherwise_is_not_named(file: h5py.File, how: Any) -> None:
    assert named(stored(file, **how).id) is None


def test_elements_of_a_type_that_lies_in_the_file_are_no_hindrance(file: h5py.File) -> None:
    file["counted"] = np.dtype("uint32")
    like = stored(file, **hdf5plugin.Zstd(7))
    made = file.create_dataset(
        "typed", shape=(64, 64), dtype=file["counted"], chunks=(16, 32), **hdf5plugin.Zstd(7)
    )
    assert made.id.get_type().committed() and named(made.id) == named(like.id) == [
        {"name": "zstd", "level": 7}
    ]


def test_lossy_filters_are_not_named(file: h5py.File) -> None:
    for how in (hdf5plugin.Zfp(reversible=True), hdf5plugin.SZ3(absolute=0.1), {"scaleoffset": 3}):
        assert named(stored(file, "float32", **how).id) is None


def test_another_release_of_a_plug_in_is_no_other_filter(file: h5py.File) -> None:
    like = stored(file, **hdf5plugin.Bitshuffle())
    creation = like.id.get_create_plist()
    code, flags, parameters, _ = creation.get_filter(0)
    older = h5p.create(h5p.DATASET_CREATE)
    older.set_chunk((16, 32))
    older.set_filter(code, flags, (0, 2, *parameters[2:]))

    class Older:
        """A dataset of which the file says what an older release wrote."""

        get_create_plist = staticmethod(lambda: older)
        get_type = staticmethod(like.id.get_type)

    assert named(Older) == [{"name": "bitshuffle", "codec": "lz4", "level": 3}]


def test_a_filter_whose_plug_in_is_not_here_is_not_named(
    file: h5py.File, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = stored(file, **hdf5plugin.Zstd(7))

    # As without the package: none of its filters is known.
    def absent(name: str) -> int:
        raise Unavailable(name)

    monkeypatch.setattr(filter_setters, "code_of", absent)
    assert named(dataset.id) is None


def test_every_filter_of_a_study_that_loses_nothing_finds_its_name_again(file: h5py.File) -> None:
    for name, kind in FILTERS.items():
        if kind.modes or kind.lossy({"name": name}):
            continue
        creation = h5p.create(h5p.DATASET_CREATE)
        creation.set_chunk((16, 32))
        filter_setters.apply(creation, [{"name": name}])
        values = np.zeros((64, 64), "uint16")
        space, dtype = h5py.h5s.create_simple(values.shape), h5py.h5t.py_create(values.dtype)
        dataset = h5py.h5d.create(file.id, None, dtype, space, creation)
        assert [one["name"] for one in named(dataset) or []] == [name]
