"""The table of filters: what a study may say, what a filter treats, what it loses, and what it may add."""

from __future__ import annotations

import importlib
import math
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import h5py
import numpy as np
import pytest
from h5py import h5p
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import file_specification
from studies import changed, load, mistake

import hyperslab
from hyperslab.formats import Unavailable
from hyperslab.formats.hdf5 import filter_setters as hdf5_filters
from hyperslab.formats.hdf5.array import FORMAT
from hyperslab.layouts.hdf5_filters import (
    FILTERS,
    largest_chunk_bytes,
    lossy,
    options_in_force,
    promised_error,
    refusal,
    text,
)
from hyperslab.layouts.hdf5_schema import Filter
from hyperslab.layouts.parameters import FLOATS, NUMBERS
from hyperslab.studies.dataset_schema import DType

Options = dict[str, Any]


def parsed(given: Any) -> Options:
    """A filter of a study as a specification has it."""
    return Filter.model_validate(given).model_dump(exclude_none=True)


# ---- what a study may say

FORMS: list[tuple[Any, Options]] = [
    ("gzip", {"name": "gzip"}),
    ({"gzip": 9}, {"name": "gzip", "level": 9}),
    ({"szip": 8}, {"name": "szip", "block": 8}),
    ({"szip": {"coding": "entropy"}}, {"name": "szip", "coding": "entropy"}),
    ({"nbit": 12}, {"name": "nbit", "bits": 12}),
    ("scaleoffset", {"name": "scaleoffset"}),
    ({"scaleoffset": 7}, {"name": "scaleoffset", "bits": 7}),
    ({"scaleoffset": {"digits": 0}}, {"name": "scaleoffset", "digits": 0}),
    ({"blosc": "zstd"}, {"name": "blosc", "codec": "zstd"}),
    ({"blosc2": {"codec": "lz4", "level": 9, "shuffle": "delta"}},
     {"name": "blosc2", "codec": "lz4", "level": 9, "shuffle": "delta"}),
    ({"zstd": -5}, {"name": "zstd", "level": -5}),
    ({"name": "bzip2", "block": 1}, {"name": "bzip2", "block": 1}),
    ({"zfp": 0.5}, {"name": "zfp", "accuracy": 0.5}),
    ({"zfp": {"reversible": True}}, {"name": "zfp", "reversible": True}),
    ({"sperr": {"rate": 8}}, {"name": "sperr", "rate": 8}),
]  # fmt: skip


@pytest.mark.parametrize(("given_", "expected"), FORMS, ids=str)
def test_forms_of_a_filter(given_: Any, expected: Options) -> None:
    assert parsed(given_) == expected


MISTAKES: list[tuple[Any, str]] = [
    ({"gzip": "four"}, "filters.0: should be a valid integer, not 'four'"),
    ({"gzip": True}, "filters.0: should be a valid integer, not True"),
    ({"gzip": {"levle": 4}}, "filters.0: gzip has no levle; it has level"),
    ({"lz4": 1}, "filters.0: lz4 has no level; it has no parameter"),
    ({"blosc": "zst"}, "filters.0: blosc's codec should be 'lz4' or 'blosclz' or 'lz4hc'"),
    ({"blosc": {"codec": "zstd", "level": 0}}, "filters.0: blosc's level should be 1 to 9, not 0"),
    ({"blosc": {"shuffle": "delta"}}, "filters.0: blosc's shuffle should be 'none' or 'byte' or 'bit', not"),
    ({"zstd": 23}, "filters.0: zstd's level should be -131072 to 22, not 23"),
    ({"bitshuffle": {"block": 8}}, "filters.0: bitshuffle has no block; it has codec, level"),
    ("nbit", "filters: nbit needs bits"),
    ({"nbit": 17}, "filters: nbit of uint16 can have 8 to 16 bits, not 17"),
    ({"nbit": 7}, "filters: nbit of uint16 can have 8 to 16 bits, not 7"),
    ({"nbit": 0}, "filters.0: nbit's bits should be 1 to 64, not 0"),
    ({"scaleoffset": {"digits": 2}}, "filters: scaleoffset has no digits for uint16; that is for float32, "),
    ("zfp", "filters.0: zfp needs exactly one of accuracy, precision, rate, reversible"),
    ({"zfp": {"rate": 4, "precision": 3}}, "filters.0: zfp needs exactly one of accuracy, precision, rate"),
    ({"zfp": 0.1}, "filters: zfp cannot treat uint16; it treats float32, float64"),
    ({"zfp": 0}, "filters.0: zfp's accuracy should be finite and above 0, not 0"),
    ({"zfp": {"reversible": False}}, "filters.0"),
    ("sz3", "filters: sz3 cannot treat uint16"),
    ("sz", "filters.0: should be 'gzip', 'shuffle'"),
    ("htj2k", "filters: htj2k cannot treat chunks of [4, 4, 64]: 0 to 2 axes have to be longer than 1"),
]  # fmt: skip


@pytest.mark.parametrize(("given_", "said"), MISTAKES, ids=str)
def test_a_mistake_is_one_line(tmp_path: Path, given_: Any, said: str) -> None:
    found = mistake(tmp_path, changed("layouts.4x4x64.filters", [given_]))
    assert found.startswith(f"layouts.4x4x64.{said}")


def test_what_treats_numbers_comes_first(tmp_path: Path) -> None:
    found = mistake(tmp_path, changed("layouts.4x4x64.filters", ["shuffle", "scaleoffset"]))
    assert found == "layouts.4x4x64.filters: scaleoffset treats numbers, so it must be the first filter"


FLOAT_MISTAKES: list[tuple[Any, str]] = [
    ("scaleoffset", "scaleoffset needs digits"),
    ({"scaleoffset": 3}, "scaleoffset has no bits for float32; that is for int16, int32"),
    ({"nbit": 3}, "nbit cannot treat float32; it treats int16"),
    ("fcidecomp", "fcidecomp cannot treat float32; it treats int16, int8, uint16, uint8"),
    ({"sperr": 0.1}, "sperr cannot treat chunks of [4, 4, 64]: what is longer than 1 has to have 9 or more"),
    ("sz3", "sz3 needs absolute"),
]


@pytest.mark.parametrize(("given_", "said"), FLOAT_MISTAKES, ids=str)
def test_a_filter_that_cannot_treat_the_numbers(tmp_path: Path, given_: Any, said: str) -> None:
    content = changed("dataset.dtype", "float32")
    content["layouts"]["4x4x64"]["filters"] = [given_]
    assert mistake(tmp_path, content).startswith(f"layouts.4x4x64.filters: {said}")


def test_filters_in_short() -> None:
    assert text({"name": "gzip", "level": 4}) == "gzip 4"
    assert text({"name": "szip", "block": 8}) == "szip 8"
    assert text({"name": "blosc", "codec": "zstd", "level": 5}) == "blosc zstd level 5"
    assert text({"name": "scaleoffset", "digits": 2}) == "scaleoffset digits 2"
    assert text({"name": "zfp", "accuracy": 0.5}) == "zfp accuracy 0.5"
    # A record of another version may name what this one has not.
    assert text({"name": "mafisc", "level": 4}) == "mafisc level 4"


def test_specifications_of_filters_that_were_there_before_stay_as_they_were(tmp_path: Path) -> None:
    given_ = ["shuffle", {"gzip": 9}, {"szip": 8}, "lzf", "fletcher32"]
    study = load(tmp_path, changed("layouts.4x4x64.filters", given_))
    assert study.layouts["4x4x64"]["filters"] == [
        {"name": "shuffle"}, {"name": "gzip", "level": 9}, {"name": "szip", "block": 8}, {"name": "lzf"},
        {"name": "fletcher32"},
    ]  # fmt: skip


def test_the_table_is_sound() -> None:
    fields = set(Filter.model_fields) - {"name"}
    assert {name for kind in FILTERS.values() for name in kind.parameters} == fields
    assert FILTERS.keys() == hdf5_filters.SETTERS.keys() | hdf5_filters.PLUGINS.keys()
    assert hdf5_filters.SETTERS.keys() == hdf5_filters.BUILT_IN.keys()
    assert set(get_args(DType)) == NUMBERS
    for kind in FILTERS.values():
        for parameter in kind.parameters.values():
            assert parameter.default is None or parameter.mistake(parameter.default) is None


# ---- what filters lose and promise


def test_what_is_lossy_and_what_is_promised() -> None:
    exact: list[Options] = [
        {"name": "gzip"}, {"name": "scaleoffset"}, {"name": "scaleoffset", "bits": 0},
        {"name": "zfp", "reversible": True}, {"name": "blosc"},
    ]  # fmt: skip
    assert not lossy(exact)
    assert promised_error(exact) is None
    for changing in (
        {"name": "nbit", "bits": 3},
        {"name": "scaleoffset", "bits": 3},
        {"name": "zfp", "rate": 3},
    ):
        assert lossy([*exact, changing])
        assert promised_error([changing]) is None
    assert promised_error([{"name": "scaleoffset", "digits": 0}, {"name": "gzip"}]) == 0.5
    assert promised_error([{"name": "scaleoffset", "digits": 3}]) == pytest.approx(0.0005)
    assert promised_error([{"name": "zfp", "accuracy": 0.25}]) == 0.25
    assert promised_error([{"name": "zfp", "accuracy": 0.25}, {"name": "nbit", "bits": 3}]) is None


def choices(dtype: str) -> list[Options]:
    """Every filter that treats `dtype`, in each mode, with strong and weak options."""
    half = 4 * np.dtype(dtype).itemsize
    tried: list[Any] = [
        {"gzip": 0}, {"gzip": 9}, "shuffle", "fletcher32", "lzf", "szip", {"nbit": half}, "scaleoffset",
        {"szip": {"block": 8, "coding": "entropy"}}, {"scaleoffset": 3}, {"scaleoffset": {"digits": 2}},
        "blosc", {"blosc": "zlib"}, {"blosc": "snappy"}, "blosc2",
        {"blosc2": {"codec": "zstd", "shuffle": "bit"}}, {"blosc2": {"codec": "lz4", "shuffle": "delta"}},
        {"zstd": -50}, {"zstd": 19}, "lz4", "bitshuffle", {"bitshuffle": "none"}, {"bitshuffle": "zstd"},
        "bzip2", "fcidecomp", "htj2k", {"zfp": 0.01}, {"zfp": {"precision": 64}}, {"zfp": {"rate": 32}},
        {"zfp": {"reversible": True}}, {"sz3": 0.01}, {"sperr": 0.01}, {"sperr": {"rate": 32}},
        {"sperr": {"psnr": 200}},
    ]  # fmt: skip
    found = [parsed(one) for one in tried]
    assert {one["name"] for one in found} == set(FILTERS)
    return [one for one in found if dtype in FILTERS[one["name"]].treats]


def written(path: Path, filters: list[Options], block: np.ndarray, chunk: tuple[int, ...]) -> np.ndarray:
    """`block` written with filters and read back."""
    spec = file_specification(block.shape, chunk, filters=filters, dtype=str(block.dtype))
    FORMAT.prepare(spec)
    opened = FORMAT.create(str(path), spec)
    vars(opened)["_dataset"][...] = block
    opened.close()
    with h5py.File(path) as file:
        return np.asarray(file["data"][...])


def numbers(kind: str, dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Random bits, which nothing can shrink, or few small counts; floats are finite."""
    rng = np.random.default_rng(seed)
    if kind == "counts":
        return rng.poisson(0.3, shape).astype(dtype)
    if dtype in FLOATS:
        return (rng.standard_normal(shape) * 1000).astype(dtype)
    return rng.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8).view(dtype).reshape(shape)


@settings(max_examples=80)
@given(data=st.data())
def test_any_filter_loses_what_it_says_and_grows_as_foreseen(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    dtype = data.draw(st.sampled_from(sorted(NUMBERS)))
    chosen = data.draw(st.sampled_from(choices(dtype)))
    longest = {1: 3000, 2: 70, 3: 20, 4: 9}
    rank = data.draw(st.integers(1, 4))
    chunk = tuple(data.draw(st.lists(st.integers(1, longest[rank]), min_size=rank, max_size=rank)))
    if refusal([chosen], dtype, chunk):
        return
    shape = tuple(extent + data.draw(st.integers(0, extent)) for extent in chunk)
    block = numbers(
        data.draw(st.sampled_from(["random", "counts"])), dtype, shape, data.draw(st.integers(0, 99))
    )
    path = tmp_path_factory.mktemp("any") / "a.h5"
    found = written(path, [chosen], block, chunk)
    if not lossy([chosen]):
        assert found.tobytes() == block.tobytes()
    if (bound := promised_error([chosen])) is not None:
        assert np.abs(found.astype(np.float64) - block).max() <= bound + 4 * np.spacing(np.abs(block).max())
    sizes: list[int] = []
    with h5py.File(path) as file:
        file["data"].id.chunk_iter(lambda stored: sizes.append(stored.size))
    assert max(sizes) <= largest_chunk_bytes([chosen], chunk, block.dtype.itemsize)


def test_growth_adds_up_and_is_the_raw_size_without_filters() -> None:
    assert largest_chunk_bytes([], (4, 5, 6), 2) == 240
    one = largest_chunk_bytes([{"name": "gzip"}], (4, 5, 6), 2)
    assert largest_chunk_bytes([{"name": "gzip"}, {"name": "gzip"}], (4, 5, 6), 2) > one > 240
    # ZFP fills each axis up to a multiple of four.
    assert largest_chunk_bytes([{"name": "zfp", "rate": 32}], (5, 5, 5), 4) > 4 * 8**3


@pytest.mark.parametrize("bits", [8, 9, 12, 16])
def test_nbit_keeps_what_fits_and_clips_the_rest(tmp_path: Path, bits: int) -> None:
    block = np.arange(2**16, dtype=np.uint16).reshape(64, 1024)
    found = written(tmp_path / "a.h5", [{"name": "nbit", "bits": bits}], block, (8, 512))
    assert found.dtype == block.dtype
    assert np.array_equal(found, np.minimum(block, 2**bits - 1))
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["data"].id.get_storage_size() == pytest.approx(2 * 2**16 * bits / 16, rel=0.01)


def test_chunks_that_a_filter_left_alone_are_counted(tmp_path: Path) -> None:
    block = np.zeros((8, 512), np.uint16)
    block[:4] = numbers("random", "uint16", (4, 512), 1)
    spec = file_specification(block.shape, (1, 512), filters=[{"name": "lzf"}])
    written(tmp_path / "a.h5", [{"name": "lzf"}], block, (1, 512))
    report = FORMAT.report(str(tmp_path / "a.h5"), spec)
    assert (report["chunks"], report["chunks_left_alone"]) == (8, 4)
    assert report["settings"]["filters"][0].startswith("lzf")


PARAMETERS: list[tuple[Any, str, tuple[int, ...]]] = [
    ({"blosc": {"codec": "zstd", "level": 7, "shuffle": "bit"}}, "Blosc", (7, 2, 5)),
    ({"blosc2": {"codec": "lz4", "level": 3, "shuffle": "none"}}, "Blosc2", (3, 0, 1)),
    ({"zstd": 11}, "Zstd", (11,)),
    ({"bzip2": 3}, "BZip2", (3,)),
    ({"bitshuffle": {"codec": "zstd", "level": 6}}, "Bitshuffle", (3, 6)),
]


@pytest.mark.parametrize(("given_", "kind", "expected"), PARAMETERS, ids=str)
def test_parameters_reach_the_file(given_: Any, kind: str, expected: tuple[int, ...]) -> None:
    creation = h5p.create(h5p.DATASET_CREATE)
    hdf5_filters.apply(creation, [parsed(given_)])
    code, _, found, _ = creation.get_filter(0)
    assert code == getattr(importlib.import_module("hdf5plugin"), kind).filter_id
    assert found[-len(expected) :] == expected


def test_a_filter_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    hdf5_filters._prepare.cache_clear()
    monkeypatch.setattr("hyperslab.formats.hdf5.filter_setters.h5z.filter_avail", lambda code: False)
    with pytest.raises(Unavailable, match=r"^this build of HDF5 and its plugins has no filter szip$"):
        hdf5_filters.prepare([{"name": "szip"}])
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "hdf5plugin", None)
    with pytest.raises(Unavailable, match=r"^filter blosc needs hdf5plugin, which is not installed here$"):
        hdf5_filters.prepare([{"name": "blosc"}])


def test_plugins_are_loaded_only_where_a_layout_has_one() -> None:
    code = (
        "import sys; from hyperslab.formats.hdf5.array import FORMAT\n"
        "FORMAT.prepare({'layout': {'filters': [{'name': 'gzip'}]}})\n"
        "assert 'hdf5plugin' not in sys.modules\n"
        "FORMAT.prepare({'layout': {'filters': [{'name': 'lz4'}]}})\n"
        "assert 'hdf5plugin' in sys.modules"
    )
    scripts = Path(hyperslab.__file__).parents[1]
    subprocess.run([sys.executable, "-c", code], cwd=scripts, check=True, timeout=120)


def test_defaults_are_in_force() -> None:
    assert options_in_force({"name": "gzip"}) == {"name": "gzip", "level": 4}
    assert options_in_force({"name": "blosc", "level": 9}) == {
        "name": "blosc", "codec": "lz4", "level": 9, "shuffle": "byte",
    }  # fmt: skip
    assert math.isfinite(largest_chunk_bytes([{"name": "sz3", "absolute": 1.0}], (2, 2), 4))
