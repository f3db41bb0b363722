"""What a Zarr layout may say, and the arithmetic of its store."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from zarr.core.chunk_grids import _guess_chunks
from zarr_cells import cell, dataset_of

from hyperslab import layouts
from hyperslab.layouts import layout_of, zarr_store
from hyperslab.layouts.zarr_codecs import CODECS, options_in_force, text
from hyperslab.layouts.zarr_schema import Codec, ZarrModel, ZarrSettings
from hyperslab.studies.case_kinds.kind import CaseMistake
from hyperslab.studies.schema import Case
from hyperslab.validation.errors import ConfigurationError


def resolved(shape: tuple[int, ...], **layout: Any) -> dict[str, Any]:
    """A layout of an array of 16-bit integers as it goes into a specification."""
    found: dict[str, Any] = dict(cell(shape, **layout)["layout"])
    return found


def test_a_layout_carries_its_own_keys_alone() -> None:
    assert resolved((10, 20), chunks=[5, "all"]) == {
        "format": "zarr", "chunks": [5, 20], "order": ["x", "y"], "codecs": [],
        "settings": {"pipeline": "default", "write_empty_chunks": False}, "label": None,
    }  # fmt: skip
    sharded = resolved((10, 20), chunks=[2, 5], shards=[4, 20], codecs=["zstd"], settings={"threads": 3})
    assert sharded["shards"] == [4, 20]
    assert sharded["codecs"] == [{"name": "zstd"}]
    assert sharded["settings"]["threads"] == 3


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=3), st.sampled_from(["u1", "u2", "f4", "f8"]))
def test_automatic_chunks_are_those_of_zarr_python(shape: list[int], dtype: str) -> None:
    names = {"u1": "uint8", "u2": "uint16", "f4": "float32", "f8": "float64"}
    itemsize = int(dtype[1])
    assert cell(shape, names[dtype])["layout"]["chunks"] == list(_guess_chunks(tuple(shape), itemsize))


def test_automatic_chunks_in_shards_are_smaller() -> None:
    shape = (4096, 4096, 64)
    layout = resolved(shape, shards=[4096, 4096, 64])
    assert layout["chunks"] == list(_guess_chunks(shape, 2, max_bytes=2**20)) != resolved(shape)["chunks"]


def test_automatic_chunks_are_chosen_for_the_order_on_disk() -> None:
    turned = resolved((4000, 1000, 30), order=["z", "x", "y"])["chunks"]
    z, x, y = _guess_chunks((30, 4000, 1000), 2)
    assert turned == [x, y, z] != list(_guess_chunks((4000, 1000, 30), 2))


@pytest.mark.parametrize(
    ("layout", "path", "says"),
    [
        ({"chunks": [3, 4], "shards": [6, 6]}, "shards", "multiple of the chunks"),
        ({"chunks": [3, 4], "shards": [6]}, "shards", "needs 2 extents"),
        ({"chunks": [3, 4], "shards": [15, 4]}, "shards", "15 along x is more than the 4 chunks of 3"),
        ({"chunks": [3]}, "chunks", "needs 2 extents"),
        ({"chunks": [11, 4]}, "chunks", "larger than the array"),
        ({"chunks": [3, 4], "order": ["x", "z"]}, "order", "must name each of"),
    ],
)
def test_a_layout_that_does_not_fit_is_refused(layout: dict[str, Any], path: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=f"study.yaml: layouts.this.{path}: .*{says}"):
        resolved((10, 20), **layout)


def test_a_chunk_of_two_gibibytes_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="2 GiB"):
        resolved((2**15, 2**15), chunks=["all", "all"])


def test_a_shard_of_one_chunk_is_none() -> None:
    assert "shards" not in resolved((10, 20), chunks=[5, 20], shards=[5, 20])


def test_the_last_shard_may_reach_over_the_edge() -> None:
    assert resolved((10, 20), chunks=[3, 4], shards=[12, 20])["shards"] == [12, 20]


@pytest.mark.parametrize(
    ("codec", "says"),
    [
        ("lzf", "should be 'gzip', 'zstd', 'blosc' or 'crc32c'"),
        ({"gzip": 10}, "should be 0 to 9"),
        ({"zstd": 23}, "should be -131072 to 22"),
        ({"blosc": {"shuffle": "delta"}}, "should be 'byte' or 'bit' or 'none'"),
        ({"crc32c": 1}, "has no level"),
        ({"zstd": {"shuffle": "bit"}}, "zstd has no shuffle"),
    ],
)
def test_a_codec_has_bounds(codec: Any, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Codec.model_validate(codec)


@pytest.mark.parametrize("key", ["filters", "storage", "release", "compressor"])
def test_what_other_formats_have_is_no_key_of_a_zarr_layout(key: str) -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        ZarrModel.model_validate({"chunks": "auto", key: "compact"})


@pytest.mark.parametrize("key", ["chunk_cache_bytes", "sieve_bytes", "libver", "driver"])
def test_settings_of_hdf5_are_no_settings_of_zarr(key: str) -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        ZarrSettings.model_validate({key: 1})


def test_a_codec_comes_once() -> None:
    with pytest.raises(ValidationError, match="at most once"):
        ZarrModel.model_validate({"codecs": ["zstd", {"zstd": 3}]})


def test_zarrs_stores_no_empty_chunks() -> None:
    with pytest.raises(ValidationError, match="zarrs never stores"):
        ZarrSettings.model_validate({"pipeline": "zarrs", "write_empty_chunks": True})


def test_codecs_in_short_and_in_force() -> None:
    assert text({"name": "zstd", "level": 3}) == "zstd 3"
    assert text({"name": "blosc", "codec": "lz4", "shuffle": "bit"}) == "blosc lz4 shuffle bit"
    assert options_in_force({"name": "gzip"}) == {"name": "gzip", "level": 5}
    assert all(None not in options_in_force({"name": name}).values() for name in CODECS)


def checked(case: dict[str, Any]) -> None:
    """Check a case of a Zarr layout as a study is checked."""
    dataset, given = dataset_of((20, 20)), Case.model_validate(case)
    resolved_case = {**given.kind.resolve(given, {"x": 20, "y": 20}), "shape": [20, 20]}
    given.kind.check(given, resolved_case, dataset, layout_of(resolved((20, 20))))


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ({"objects": "x"}, "Zarr does not hold many arrays in a file"),
        ({"reduce": {"x": 5}, "ranks": [2]}, "MPI ranks cannot open Zarr together"),
        ({"read": {"x": 5}, "memory_dtype": "float32"}, "Zarr is read in the type that is stored"),
        ({"read": {"x": {"extent": 10, "step": 5}}}, "Zarr cannot be asked for every so many elements"),
    ],
)
def test_cases_that_only_hdf5_has_are_refused(case: dict[str, Any], says: str) -> None:
    with pytest.raises(CaseMistake, match=says):
        checked(case)


@pytest.mark.parametrize(
    "case", [{"read": {"x": 5}}, {"write": "spectrum"}, {"reduce": {"x": 5}, "processes": [2]}], ids=str
)
def test_other_cases_are_not(case: dict[str, Any]) -> None:
    checked(case)


def test_a_layout_in_words() -> None:
    shape, chunks = (100, 100, 10000), [4, 4, 256]
    plain = layout_of(resolved(shape, chunks=chunks))
    assert plain.words("xyz", 2) == "chunks of 4x4x256 (x, y, z; 8 KiB), a file each, no filters, Zarr"
    sharded = layout_of(
        resolved(
            shape, chunks=chunks, shards=[64, 64, 1024], codecs=[{"zstd": 3}, "crc32c"],
            order=["z", "x", "y"], settings={"pipeline": "zarrs"},
        )
    )  # fmt: skip
    assert sharded.words("xyz", 2) == (
        "chunks of 4x4x256 (x, y, z; 8 KiB) in shards of 64x64x1024 (8 MiB), stored in the order z, x, y, "
        "filters zstd 3, crc32c, Zarr through zarrs"
    )


@given(st.integers(1, 30), st.integers(1, 12), st.integers(1, 6), st.integers(1, 14))
def test_boxes_that_cross_files_are_cut_there(length: int, each: int, chunk: int, width: int) -> None:
    files = {"axis": 0, "along": "day", "each": each}
    described = {"format": "zarr", "chunks": [chunk, 2], "order": ["day", "x"], "files": files}
    chunks = {(day // each, day % each // chunk) for day in range(length)}
    pairs = {(day // width, day // each, day % each // chunk) for day in range(length)}
    rewritten = 2 * (len(pairs) - len(chunks)) * chunk * 2 * 4
    assert layout_of(described).rewritten_bytes([length, 2], [width, 2], 4) == rewritten


@given(st.data())
def test_what_writing_in_boxes_rewrites(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=3))
    held = [data.draw(st.integers(1, size)) for size in shape]
    extent = [data.draw(st.integers(1, size)) for size in shape]
    pairs = 0
    for first in itertools.product(
        *(range(0, size, width) for size, width in zip(shape, extent, strict=True))
    ):
        axes = zip(first, extent, shape, held, strict=True)
        touched = 1
        for start, width, size, one in axes:
            touched *= len({place // one for place in range(start, min(start + width, size))})
        pairs += touched
    files = 1
    for size, one in zip(shape, held, strict=True):
        files *= -(-size // one)
    size = 2
    for one in held:
        size *= one
    assert zarr_store.rewritten_bytes({"chunks": held}, shape, extent, 2) == 2 * (pairs - files) * size


def test_writing_whole_files_rewrites_nothing() -> None:
    layout = resolved((10, 20), chunks=[3, 4], shards=[6, 8])
    assert zarr_store.rewritten_bytes(layout, (10, 20), (6, 8), 2) == 0
    assert zarr_store.rewritten_bytes(layout, (10, 20), (10, 20), 2) == 0
    assert zarr_store.rewritten_bytes(layout, (10, 20), (3, 8), 2) == 2 * 6 * 48 * 2


def test_a_layout_is_known_without_its_library() -> None:
    code = (
        "import sys; import hyperslab.layouts.zarr; assert not {'zarr', 'numpy', 'h5py'} & sys.modules.keys()"
    )
    scripts = Path(layouts.__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], cwd=scripts, check=True, timeout=120)
