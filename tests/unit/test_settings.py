"""Settings of HDF5: what is put in force is read back, and what is out of bounds is one line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st
from samples import SETTINGS, file_specification, read_cell, values_of, write_cell
from studies import BASE, changed, load, mistake

from hyperslab import cases
from hyperslab.cases.context import Context
from hyperslab.data.selections import Box
from hyperslab.data.values import open_values
from hyperslab.formats import Unavailable
from hyperslab.formats.hdf5 import library, settings
from hyperslab.formats.hdf5.array import FORMAT
from hyperslab.layouts import layout_of
from hyperslab.layouts.hdf5_settings_schema import Settings
from hyperslab.layouts.pyramids import array_of
from hyperslab.measuring import other_file_systems
from hyperslab.measuring.counters import Counters, between
from hyperslab.specifications import Specification
from hyperslab.studies import specification

Spec = Specification
PAGING = {"page_bytes": 8192, "buffer_bytes": 65536, "min_metadata_percent": 10, "min_raw_percent": 20}
# setting -> a value that is not the library's own, and how a file says it
CHOSEN: dict[str, tuple[Any, Any]] = {
    "chunk_cache_bytes": (12345, 12345),
    "chunk_cache_slots": (67, 67),
    "chunk_cache_w0": (0.25, 0.25),
    "sieve_bytes": (4321, 4321),
    "libver": ("v110", ["v110", "latest"]),
    "meta_block_bytes": (54321, 54321),
    "metadata_cache": ({"initial_bytes": 5000, "min_bytes": 4000, "max_bytes": 6000},) * 2,
    "conversion_buffer_bytes": (777, 777),
    "alloc_time": ("late", "late"),
    "fill_time": ("alloc", "alloc"),
    "alignment": ({"threshold_bytes": 1024, "bytes": 4096},) * 2,
    "driver": ({"name": "stdio"}, "stdio"),
    "paging": (PAGING, {"strategy": "pages", **PAGING}),
}


def written(path: Path, **chosen: Any) -> tuple[Spec, dict[str, Any]]:
    """A generated file with these settings, and what its report says of them."""
    spec = file_specification((40, 50), (8, 10), dtype="int32", **chosen)
    FORMAT.generate(str(path), spec, values_of(spec))
    return spec, FORMAT.report(str(path), spec)


@pytest.fixture
def memory_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that a layout can name as a file system: `metadata_on: other`."""
    root = tmp_path / "other"
    root.mkdir()
    monkeypatch.setenv(other_file_systems.VARIABLE, json.dumps({"other": str(root)}))
    return root


# ---- set, then read back


def test_every_setting_of_a_study_has_a_way_in_and_a_way_back() -> None:
    assert settings.KNOBS.keys() == Settings.model_fields.keys()
    assert CHOSEN.keys() == settings.KNOBS.keys() - {"garbage_collect_every"}


@pytest.mark.parametrize("name", CHOSEN)
def test_a_setting_is_read_back_from_the_file(tmp_path: Path, name: str) -> None:
    value, said = CHOSEN[name]
    _, before = written(tmp_path / "a.h5")
    assert before["settings"][name] != said
    spec, report = written(tmp_path / "b.h5", **{name: value})
    assert report["settings"][name] == said
    assert np.array_equal(h5py.File(tmp_path / "b.h5")["data"], values_of(spec).block((0, 0), (40, 50)))


def test_what_cannot_be_read_back_says_so(tmp_path: Path) -> None:
    _, report = written(tmp_path / "a.h5", garbage_collect_every=7)
    assert report["settings"]["garbage_collect_every"].startswith("cannot be read back: ")


@pytest.mark.parametrize("driver", [{"name": "sec2"}, {"name": "core", "increment_bytes": 4096}])
def test_drivers_are_those_of_the_open_file(tmp_path: Path, driver: dict[str, Any]) -> None:
    _, report = written(tmp_path / "a.h5", driver=driver)
    said = {"sec2": "sec2", "core": "core, 4096 bytes at a time"}
    assert report["settings"]["driver"] == said[driver["name"]]


def test_default_leaves_what_the_library_brings(tmp_path: Path) -> None:
    own = dict.fromkeys(SETTINGS, "default")
    _, report = written(tmp_path / "a.h5", **own)
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    _, slots, size, w0 = access.get_cache()
    found = report["settings"]
    cache = [found[f"chunk_cache_{part}"] for part in ("slots", "bytes", "w0")]
    assert cache == [slots, size, w0]
    assert found["sieve_bytes"] == access.get_sieve_buf_size()
    resolved = settings.resolved(own)
    assert found["libver"][0] == resolved["libver"]
    assert "default" not in resolved.values()


# ---- what a setting does to the file


def test_alignment_moves_chunks_to_its_multiples(tmp_path: Path) -> None:
    written(tmp_path / "a.h5", alignment={"threshold_bytes": 100, "bytes": 4096})
    data = h5py.File(tmp_path / "a.h5")["data"].id
    offsets = [data.get_chunk_info(number).byte_offset for number in range(data.get_num_chunks())]
    assert len(offsets) == 25
    assert [offset % 4096 for offset in offsets] == [0] * 25


def test_pages_make_the_file_a_multiple_of_them(tmp_path: Path) -> None:
    _, report = written(tmp_path / "a.h5", paging={"page_bytes": 8192})
    assert report["file_bytes"] % 8192 == 0
    assert report["settings"]["paging"]["buffer_bytes"] == 0


# Chunks of more than half a page, of more than a page, and so small that their index is larger.
@pytest.mark.parametrize(
    ("shape", "chunks", "page"),
    [((50, 10000), (1, 10000), 65536), ((20, 20000), (1, 20000), 65536), ((8000, 8), (1, 8), 4096)],
    ids=str,
)
@pytest.mark.parametrize("filters", [(), ({"name": "gzip", "level": 1},)], ids=["plain", "gzip"])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_pages_that_stay_partly_empty_are_foreseen(
    tmp_path: Path, shape: tuple[int, ...], chunks: tuple[int, ...], page: int, filters: Any, libver: str
) -> None:
    paging = {"page_bytes": page}
    spec = file_specification(shape, chunks, dtype="int32", filters=filters, paging=paging, libver=libver)
    FORMAT.generate(str(tmp_path / "a.h5"), spec, values_of(spec))
    size, bound = (tmp_path / "a.h5").stat().st_size, layout_of(spec["layout"]).largest_bytes(array_of(spec))
    assert size <= bound


@pytest.mark.parametrize(("fill_time", "factor"), [("alloc", 2), ("never", 1)])
def test_fill_values_are_written_unless_never(tmp_path: Path, fill_time: str, factor: int) -> None:
    spec = write_cell(
        file_specification((64, 1024), dtype="int32", alloc_time="early", fill_time=fill_time), "whole", 1
    )
    context = Context(spec, FORMAT, str(tmp_path / "a.h5"), open_values(spec["dataset"]), True)
    (row,) = cases.load("write")(context).repeats
    raw = 64 * 1024 * 4
    assert factor * raw <= row["written_bytes"] < factor * raw + 8192


def test_a_larger_conversion_buffer_takes_fewer_requests(tmp_path: Path) -> None:
    found = {}
    for size in (2**14, 2**20):
        base = file_specification((256, 1024), dtype="int32", conversion_buffer_bytes=size, sieve_bytes=64)
        spec = read_cell(base, (256, 1024), {"cold": 1})
        spec["dataset"]["fill"] = "random-below-256"
        spec["case"]["memory_dtype"] = "uint8"
        values = open_values(spec["dataset"])
        FORMAT.generate(str(tmp_path / "a.h5"), spec, values)
        counters = Counters()
        opened = FORMAT.open(str(tmp_path / "a.h5"), spec)
        before = counters.read()
        block = opened.read(Box((0, 0), (256, 1024)))
        found[size] = between(before, counters.read())["requested_reads"]
        opened.close()
        assert block.dtype == np.uint8
        assert np.array_equal(block, values.block((0, 0), (256, 1024)))
    # So many elements of the wider type fit. (To a wider type, HDF5 1.14 and later convert in place.)
    assert found == {2**14: 256 * 1024 * 4 // 2**14, 2**20: 1}


def test_split_metadata_lie_on_the_other_file_system_and_go_with_the_file(
    tmp_path: Path, memory_named: Path
) -> None:
    driver = {"name": "split", "metadata_on": "other"}
    path = tmp_path / "deep" / "a.h5"
    path.parent.mkdir()
    spec, report = written(path, driver=driver)
    (found,) = other_file_systems.files_of(path)
    assert found.is_relative_to(memory_named)
    assert report["settings"]["driver"] == "split"
    assert report["file_bytes"] == path.stat().st_size + found.stat().st_size
    # Raw data alone, without a gap.
    assert path.stat().st_size == 40 * 50 * 4
    opened = FORMAT.open(str(path), spec)
    assert np.array_equal(opened.read(Box((3, 4), (5, 6))), values_of(spec).block((3, 4), (5, 6)))
    opened.close()
    other_file_systems.remove(path)
    assert list(memory_named.iterdir()) == []
    assert path.exists()


def test_split_to_an_unknown_file_system_is_unavailable(tmp_path: Path, memory_named: Path) -> None:
    with pytest.raises(Unavailable, match="no file system 'third' is known here"):
        written(tmp_path / "a.h5", driver={"name": "split", "metadata_on": "third"})


def test_a_build_without_the_direct_driver_says_so(tmp_path: Path) -> None:
    if hasattr(h5py.h5p.PropFAID, "set_fapl_direct"):
        pytest.skip("this HDF5 has the direct driver")
    spec = file_specification((40, 50), driver={"name": "direct"})
    # The file itself is made without it, since its driver shows nowhere in it.
    FORMAT.generate(str(tmp_path / "a.h5"), spec, values_of(spec))
    with pytest.raises(Unavailable, match="^this HDF5 was built without the direct driver$"):
        FORMAT.open(str(tmp_path / "a.h5"), spec)


def test_garbage_collection_empties_the_free_lists() -> None:
    held = library.free_list_bytes()
    assert held is not None
    library.garbage_collect()
    after = library.free_list_bytes()
    assert after is not None and after <= held


# ---- what a study may say


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("meta_block_bytes", -1, "meta_block_bytes: should be greater than or equal to 0, not -1"),
        ("chunk_cache_w0", 1.5, "chunk_cache_w0: should be less than or equal to 1, not 1.5"),
        ("conversion_buffer_bytes", 63,
         "conversion_buffer_bytes: should be greater than or equal to 64, not 63"),
        ("alloc_time", "soon", "alloc_time: should be 'early', 'late' or 'incremental', not 'soon'"),
        ("fill_time", "always", "fill_time: should be 'ifset', 'alloc' or 'never', not 'always'"),
        ("alignment", {"bytes": 0}, "alignment.bytes: should be greater than 0, not 0"),
        ("alignment", {}, "alignment.bytes: this key is required"),
        ("alignment", 4096, "alignment: should be a mapping of keys to values, not 4096"),
        ("metadata_cache", {"initial_bytes": 2048, "min_bytes": 4096, "max_bytes": 8192},
         "metadata_cache: needs min_bytes <= initial_bytes <= max_bytes"),
        ("metadata_cache", {"initial_bytes": 2048, "min_bytes": 1000, "max_bytes": 8192},
         "metadata_cache.min_bytes: should be greater than or equal to 1024, not 1000"),
        ("driver", "mpio", "driver: should be 'sec2', 'stdio', 'core', 'direct' or 'split', not 'mpio'"),
        ("driver", "split", "driver: split needs metadata_on, the name of a file system, not 'split'"),
        ("driver", {"name": "sec2", "metadata_on": "disk"},
         "driver: sec2 has no metadata_on; only split has one"),
        ("driver", {"name": "core", "backing_store": False},
         "driver: without a backing store there would be no file to measure"),
        ("paging", {"page_bytes": 511}, "paging.page_bytes: should be greater than or equal to 512, not 511"),
        ("paging", {"page_bytes": 4096, "buffer_bytes": 1024},
         "paging: buffer_bytes should hold at least one page of 4096"),
        ("paging", {"page_bytes": 4096, "min_raw_percent": 10},
         "paging: min_metadata_percent and min_raw_percent need buffer_bytes"),
        ("paging", {**PAGING, "min_raw_percent": 60, "min_metadata_percent": 50},
         "paging: min_metadata_percent and min_raw_percent add up to more than 100"),
        ("garbage_collect_every", 0, "garbage_collect_every: should be greater than 0, not 0"),
    ],
)  # fmt: skip
def test_a_setting_out_of_bounds_is_one_line(tmp_path: Path, setting: str, value: Any, message: str) -> None:
    assert mistake(tmp_path, changed("settings", {setting: value})) == f"settings.{message}"


@pytest.mark.parametrize("name", ["alignment", "meta_block_bytes"])
def test_what_pages_take_the_place_of_is_not_asked_for_beside_them(tmp_path: Path, name: str) -> None:
    content = changed("settings", {name: CHOSEN[name][0]})
    content["layouts"] = {"paged": {"settings": {"paging": PAGING}}}
    message = f"layouts.paged.settings: {name} does nothing beside paging"
    assert mistake(tmp_path, content).startswith(message)


def test_settings_that_are_not_given_stay_out_of_specifications(tmp_path: Path) -> None:
    assert load(tmp_path, BASE).layouts["contiguous"]["settings"].keys() == SETTINGS.keys()
    study = load(tmp_path, changed("settings", {"driver": "core", "alignment": {"bytes": 512}}))
    found = study.layouts["contiguous"]["settings"]
    assert found.keys() == SETTINGS.keys() | {"driver", "alignment"}
    assert (found["driver"], found["alignment"]) == (
        {"name": "core"},
        {"threshold_bytes": 1, "bytes": 512},
    )


def test_cells_measured_before_these_settings_keep_their_hashes(tmp_path: Path) -> None:
    study = load(tmp_path, BASE)
    found = []
    for cell in (("4x4x64", "slices"), ("contiguous", "write")):
        spec: dict[str, Any] = {**specification.cell_specification(study, *cell, "r0"), "protocol": 2}
        # What selections have had since then; of writes nothing changed.
        assert spec.pop("study", None) == ("mine" if cell[1] == "slices" else None)
        found.append(specification.digest(spec))
    assert found == ["340715244af81fef", "6c391bf9f87f2e5d"]


# ---- any values within their bounds


@settings_of_hypothesis(max_examples=30)
@given(
    # Without bytes, the library's cache has no slots either.
    st.integers(1, 2**20),
    st.integers(1, 10**4),
    st.floats(0, 1),
    st.integers(1, 2**20),
    st.integers(0, 2**20),
    st.integers(64, 2**22),
    st.lists(st.integers(1024, 2**25), min_size=3, max_size=3).map(sorted),
    st.integers(0, 2**16),
    st.integers(1, 2**16),
)
def test_any_values_are_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    cache: int,
    slots: int,
    w0: float,
    sieve: int,
    block: int,
    buffer: int,
    metadata: list[int],
    threshold: int,
    multiple: int,
) -> None:
    chosen: dict[str, Any] = {
        "chunk_cache_bytes": cache,
        "chunk_cache_slots": slots,
        "chunk_cache_w0": w0,
        "sieve_bytes": sieve,
        "meta_block_bytes": block,
        "conversion_buffer_bytes": buffer,
        "metadata_cache": dict(zip(("min_bytes", "initial_bytes", "max_bytes"), metadata, strict=True)),
        "alignment": {"threshold_bytes": threshold, "bytes": multiple},
    }
    Settings.model_validate(chosen)
    path = tmp_path_factory.mktemp("any") / "a.h5"
    spec = file_specification((5, 7), (2, 3), **chosen)
    FORMAT.generate(str(path), spec, values_of(spec))
    found = FORMAT.report(str(path), spec)["settings"]
    assert {name: found[name] for name in chosen} == chosen


def test_requests_are_predicted_only_where_arithmetic_knows_them(tmp_path: Path) -> None:
    box = Box((0, 0), (5, 50))
    for name, (value, _) in CHOSEN.items():
        chosen = {name: value, **({"chunk_cache_bytes": 2**20} if name != "chunk_cache_bytes" else {})}
        spec = read_cell(file_specification((40, 50), (8, 10), dtype="int32", **chosen), (5, 50), {"cold": 1})
        known = not math.isnan(FORMAT.predict(box, spec, {})["requested"])
        plain = settings.BASIC | settings.HARMLESS
        assert known == (name in plain and name != "libver"), name


def test_hdf5_still_loses_a_dataset_of_one_chunk(tmp_path: Path) -> None:
    """Why the schema refuses it; where this no longer fails, neither need it (layouts/hdf5_schema.py)."""
    values = np.arange(64, dtype="u2").reshape(8, 8)
    with h5py.File(tmp_path / "a.h5", "w", libver=("v110", "latest"), rdcc_nbytes=0) as file:
        file.create_dataset("a", shape=(8, 8), dtype="u2", chunks=(8, 8), fill_time="never")[...] = values
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["a"].id.get_storage_size() == 0
        assert not (file["a"][...] == values).all()
