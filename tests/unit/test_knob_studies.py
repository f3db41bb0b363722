"""The studies of HDF5's knobs: every layout and case of each, small, and what the counts of them say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from knob_studies import SMALLER, STUDIES, shipped, small
from studies import load

from hyperslab import cases, formats
from hyperslab.cases.context import Context, Outcome
from hyperslab.data.values import open_values
from hyperslab.formats.hdf5.array import FORMAT
from hyperslab.measuring import other_file_systems
from hyperslab.planning.site_checks import largest_bytes
from hyperslab.studies import specification as specifications
from hyperslab.studies.study import LoadedStudy

HERE = [name for name in SMALLER if not name.startswith("knobs-release")]
Cells = dict[tuple[str, str], Outcome | str]
WITHOUT_DIRECT = "this HDF5 was built without the direct driver"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Cells]]:
    """Every cell of a small study by (layout, case), measured once in this process; the reason, if not."""
    directory = tmp_path_factory.mktemp("knobs")
    roots = {name: str(directory / name) for name in ("disk", "memory")}
    for root in roots.values():
        Path(root).mkdir()

    @cache
    def measure(name: str) -> Cells:
        study = load(directory, small(name))
        return {
            (layout, case): _cell(study, layout, case, Path(roots["disk"]) / "a.h5")
            for case, resolved in study.cases.items()
            for layout in resolved["layouts"]
        }

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(other_file_systems.VARIABLE, json.dumps(roots))
        yield measure
    assert [path for root in roots.values() for path in Path(root).iterdir()] == []


def _cell(study: LoadedStudy, layout: str, case: str, path: Path) -> Outcome | str:
    spec = specifications.cell_specification(study, layout, case, "r0")
    values = open_values(spec["dataset"])
    try:
        if study.cases[case]["kind"] == "read":
            FORMAT.generate(str(path), spec, values)
        return cases.load(spec["case"]["kind"])(Context(spec, FORMAT, str(path), values, True))
    except formats.Unavailable as reason:
        return str(reason)
    finally:
        path.unlink(missing_ok=True)
        other_file_systems.remove(path)


def counted(cells: Cells, layout: str, case: str, column: str, state: str = "write") -> Any:
    """A column of the last repeat of a cell in one state."""
    outcome = cells[layout, case]
    assert isinstance(outcome, Outcome)
    return [row for row in outcome.repeats if row["state"] == state][-1][column]


@pytest.mark.parametrize("name", SMALLER)
def test_a_small_study_has_the_layouts_and_cases_of_the_shipped_one(tmp_path: Path, name: str) -> None:
    whole, part = LoadedStudy(STUDIES / f"{name}.yaml"), load(tmp_path, small(name))
    assert set(part.layouts) == set(whole.layouts)
    assert set(part.cases) <= set(whole.cases)
    for layout, found in part.layouts.items():
        kept = ("storage", "release", "filters", "order")
        assert [found.get(key) for key in kept] == [whole.layouts[layout].get(key) for key in kept]
        assert found["settings"].keys() == whole.layouts[layout]["settings"].keys()


@pytest.mark.parametrize("name", HERE)
def test_every_cell_of_a_study_is_measured_and_read_back(measured: Callable[[str], Cells], name: str) -> None:
    cells = measured(name)
    asked = {layout: content["settings"] for layout, content in load_layouts(name).items()}
    absent = {key: reason for key, reason in cells.items() if isinstance(reason, str)}
    assert set(absent.values()) <= {WITHOUT_DIRECT}
    assert {layout.split("-")[-1] for layout, _ in absent} <= {"direct"}
    for (layout, _), outcome in cells.items():
        if isinstance(outcome, str):
            continue
        assert outcome.repeats and not outcome.skipped
        found = outcome.report["settings"]
        for setting, value in asked[layout].items():
            if setting in ("driver", "paging", "garbage_collect_every", "libver", "alloc_time"):
                continue
            assert found[setting] == value, (layout, setting)
        if "driver" in asked[layout]:
            assert found["driver"].startswith(asked[layout]["driver"]["name"])
        for part, value in asked[layout].get("paging", {}).items():
            assert found["paging"][part] == value
        if "alloc_time" in asked[layout]:
            assert found["alloc_time"] == asked[layout]["alloc_time"]


@cache
def load_layouts(name: str) -> dict[str, Any]:
    """The resolved layouts of a shipped study, with the bytes of the chunk cache of its small one."""
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        return load(Path(directory), small(name)).layouts


@pytest.mark.parametrize("name", HERE)
def test_no_file_is_larger_than_foreseen(measured: Callable[[str], Cells], tmp_path: Path, name: str) -> None:
    for (layout, _), outcome in measured(name).items():
        if isinstance(outcome, Outcome):
            content = small(name)
            content = {**content, "layouts": {layout: content["layouts"][layout]}, "published": {}}
            assert outcome.report["file_bytes"] <= largest_bytes(load(tmp_path, content))


# ---- what the counts say


def test_a_cache_of_one_chunk_writes_all_but_the_last_at_once(measured: Callable[[str], Cells]) -> None:
    cells = measured("knobs-cache-shuffle")
    for filters in ("none", "gzip", "shuffle-gzip"):
        outcome = cells[f"{filters}-16M", "write"]
        assert isinstance(outcome, Outcome)
        (row,) = outcome.repeats
        assert row["calls"] == len(row["each_call_s"]) == 16
        assert outcome.report["chunks"] == 16
    sizes = {layout: outcome.report["stored_bytes"] for (layout, _), outcome in cells.items()}  # type: ignore[union-attr]
    for cache_size in ("16M", "128M", "256M"):
        none, gzip, both = (sizes[f"{name}-{cache_size}"] for name in ("none", "gzip", "shuffle-gzip"))
        # One byte of four is random: no filter stores less, and shuffling lets gzip come close.
        assert none / 4 < both < 1.1 * none / 4 < gzip < none / 2


def test_full_chunks_first_saves_what_age_alone_loses(measured: Callable[[str], Cells]) -> None:
    cells = measured("knobs-preemption")
    assert counted(cells, "w0-0", "write", "requested_bytes") > 0
    assert counted(cells, "w0-1", "write", "requested_bytes") == 0
    written = [counted(cells, layout, "write", "requested_writes") for layout in ("w0-0", "w0-1")]
    assert written[0] > written[1]


def test_fill_values_double_what_is_written_unless_never(measured: Callable[[str], Cells]) -> None:
    cells = measured("knobs-allocation")
    raw = 32 * 32 * 256 * 4
    for storage in ("contiguous", "chunked"):
        filled = counted(cells, f"{storage}-early-filled", "write", "written_bytes")
        never = counted(cells, f"{storage}-early-never", "write", "written_bytes")
        assert 2 * raw <= filled < 2.1 * raw
        assert raw <= never < 1.1 * raw


def test_larger_sieve_and_conversion_buffers_take_fewer_reads(measured: Callable[[str], Cells]) -> None:
    cells = measured("knobs-scatter")
    for case in ("interleaved", "checkerboard"):
        reads = [
            counted(cells, layout, case, "requested_reads", "library-cold")
            for layout in ("sieve-4K", "contiguous", "sieve-1M")
        ]
        assert reads[0] > reads[1] > reads[2]
    reads = [
        counted(cells, layout, "narrow", "requested_reads", "library-cold")
        for layout in ("buffer-16K", "contiguous", "buffer-16M")
    ]
    assert reads[0] > reads[1] >= reads[2]


def test_larger_metadata_blocks_take_fewer_writes_of_many_objects(measured: Callable[[str], Cells]) -> None:
    cells = measured("knobs-objects")
    writes = [
        counted(cells, layout, "objects", "requested_writes") for layout in ("default", "meta-block-64K")
    ]
    assert writes[0] > writes[1]
    assert counted(cells, "garbage-collected", "objects", "garbage_collections") == 1


def test_compact_datasets_take_fewer_writes_than_there_are(measured: Callable[[str], Cells]) -> None:
    cells = measured("knobs-compact")
    for case, count in (("n8192", 64), ("n34000", 96)):
        assert counted(cells, "compact", case, "requested_writes") < count
        for storage in ("contiguous", "chunked"):
            assert counted(cells, storage, case, "requested_writes") > count


def test_the_published_table_is_that_of_the_document() -> None:
    published = shipped("knobs-cache-shuffle")["published"]["write"]
    assert published["shuffle-gzip-16M"] == {"total_s": 83.353, "write_s": 78.268, "file_bytes": 67340000}
    assert published["gzip-256M"] == {"total_s": 674.66, "write_s": 3.48, "file_bytes": 102900000}
    assert set(published) == set(shipped("knobs-cache-shuffle")["layouts"]) - {"none-128M", "gzip-128M"}
