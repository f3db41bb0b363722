"""Sub-volumes that ranks write: who holds and writes what, and every way with real ranks."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from idx_cells import cell
from samples import file_specification, prepared
from studies import changed, mistake
from studies import load as load_study
from test_environments import ROOT
from test_mpi import descendants, ranks_of
from test_workers import alive, wait_until

from hyperslab.cases.context import Context, Outcome, VerificationError
from hyperslab.cases.subvolumes import case as subvolumes
from hyperslab.data import sub_volumes as division
from hyperslab.data.selections import Box
from hyperslab.data.values import open_values
from hyperslab.formats import load
from hyperslab.formats.idx.ordering import Ordering
from hyperslab.formats.idx.parallel import aggregated, by_openvisus, runs, ways
from hyperslab.formats.idx.parallel.division import writers_of_files
from hyperslab.formats.idx.places import files_of
from hyperslab.layouts.idx_order import hz_addresses
from hyperslab.specifications import CaseSpecification, Specification

WAYS = ("token", "per-level", "per-level-kept", "per-level-fast", "aggregated", "plain")
HDF5_WAYS = ("independent", "collective")
SHAPE = (40, 32, 48)
LAYOUT: dict[str, Any] = {"bits_per_block": 9, "blocks_per_file": 16}


# ---- arithmetic


def test_more_than_a_call_may_move_is_written_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ways, "MOST_BYTES", 10)
    content, found = np.arange(25, dtype=np.uint8), np.zeros(30, np.uint8)

    class File:
        def Write_at(self, offset: int, buffer: list[Any]) -> None:  # noqa: N802
            assert len(buffer[0]) <= ways.MOST_BYTES
            found[offset : offset + len(buffer[0])] = buffer[0]

    ways.write_at(File(), 5, content, "BYTE")
    assert np.array_equal(found[5:], content) and not found[:5].any()


@given(st.lists(st.integers(1, 30), min_size=2, max_size=4), st.data())
def test_sub_volumes_make_up_the_array(shape: list[int], data: st.DataObject) -> None:
    parts = [data.draw(st.integers(1, 3)) for _ in shape]
    boxes = division.sub_volumes(shape, parts)
    assert len(boxes) == np.prod(parts)
    if any(size < count for size, count in zip(shape, parts, strict=True)):
        assert "outside of the array" in str(division.mistake(boxes, shape))
        return
    assert division.mistake(boxes, shape) is None
    seen = np.zeros(shape, int)
    for box in boxes:
        seen[box.slices()] += 1
    assert (seen == 1).all()


@given(st.dictionaries(st.sampled_from("xyz"), st.integers(1, 2000), min_size=1), st.integers(1, 600))
def test_parts_are_one_for_each_rank_and_no_axis_is_cut_that_is_short(
    extents: dict[str, int], ranks: int
) -> None:
    parts = division.parts_along(extents, ranks)
    assert set(parts) == set(extents) and np.prod(list(parts.values())) == ranks
    longest = max(extents[axis] / parts[axis] for axis in parts)
    for axis, count in parts.items():
        # One cut less and the parts along this axis would be the longest, or as long.
        if count > 1:
            # Rounding of a quotient is no shorter part.
            assert extents[axis] / count * max(division.factors(count)) >= longest * (1 - 1e-9)


def test_equal_axes_are_cut_in_turn() -> None:
    cube = dict.fromkeys("xyz", 512)
    assert division.parts_along(cube, 2) == {"x": 2, "y": 1, "z": 1}
    assert division.parts_along(cube, 12) == {"x": 3, "y": 2, "z": 2}
    assert division.parts_along({"x": 64, "z": 512}, 8) == {"x": 1, "z": 8}


def test_overlaps_and_holes_are_named() -> None:
    whole, corner = Box((0, 0), (4, 4)), Box((3, 3), (1, 1))
    assert division.mistake([whole], (4, 4)) is None
    assert division.mistake([whole, corner], (4, 4)) == "ranks 0 and 1 both hold samples at (3, 3)"
    assert division.mistake([Box((0, 0), (4, 3))], (4, 4)) == (
        "the ranks hold 12 samples of 16: their sub-volumes leave holes"
    )
    assert "rank 0 holds (5, 4) at (0, 0), outside" in str(division.mistake([Box((0, 0), (5, 4))], (4, 4)))


@settings(max_examples=30)
@given(st.integers(1, 6), st.integers(0, 2), st.integers(1, 6))
def test_every_file_has_one_writer_who_mostly_holds_it(ranks: int, axis: int, aggregators: int) -> None:
    files = files_of(cell(SHAPE, **LAYOUT))
    boxes = division.sub_volumes(SHAPE, [ranks if one == axis else 1 for one in range(3)])
    chosen = list(range(min(aggregators, ranks)))
    found = writers_of_files(files, boxes, chosen)
    assert [first for first, _ in found] == files.files.tolist()
    assert {rank for _, rank in found} <= set(chosen)
    load = [sum(len(files.in_file(first)) for first, owner in found if owner == rank) for rank in chosen]
    if len(chosen) == ranks and ranks > 1:
        assert max(load) < 0.9 * len(files.present)


@settings(max_examples=30)
@given(st.tuples(*(st.integers(0, 20) for _ in range(3))), st.tuples(*(st.integers(1, 12) for _ in range(3))))
def test_both_orders_give_the_same_runs_of_every_level(
    origin: tuple[int, int, int], extent: tuple[int, int, int]
) -> None:
    files = files_of(cell(SHAPE, **LAYOUT))
    values = np.random.default_rng(1).integers(0, 2**16, extent).astype(np.uint16)
    order = Ordering(files.blocks, row_major=False)
    slow, fast = runs.by_formula(files, origin, values), runs.by_blocks(files, order, origin, values)
    grid = [np.arange(o, o + e, dtype=np.int64) for o, e in zip(origin, extent, strict=True)]
    truth = dict(
        zip(
            hz_addresses(files.bitmask, np.meshgrid(*grid, indexing="ij")).reshape(-1).tolist(),
            values.reshape(-1).tolist(), strict=True,
        )
    )  # fmt: skip
    for way in (slow, fast):
        assert len(way) == files.bitmask.bits + 1
        found: dict[int, int] = {}
        for level, held in enumerate(way):
            for address, samples in held:
                numbers = range(address, address + len(samples))
                assert {number.bit_length() for number in numbers} == {level}
                found |= dict(zip(numbers, samples.tolist(), strict=True))
        assert found == truth


# ---- real ranks


def by_ranks(
    spec: Specification, way: str, ranks: int, along: dict[str, int] | None = None, **asked: Any
) -> Specification:
    """What measure is told of ranks that write an array in one way."""
    described = {"along": along or {"x": ranks}, "aggregators": None, "files_each": None, **asked}
    case: CaseSpecification = {
        "name": "all", "kind": "subvolumes", "family": "all", "by": "ranks", "workers": ranks,
        "states": ["write"], "subvolumes": {"way": way, **described},
    }  # fmt: skip
    return {**spec, "case": case, "repeats": {"write": 2}, "seed": 1, "round": "r0", "protocol": 1}


def written_by(
    way: str,
    ranks: int,
    shape: Sequence[int] = SHAPE,
    asked: dict[str, Any] | None = None,
    **layout: Any,
) -> Specification:
    """The same for an IDX dataset; `asked` is what the case says of sub-volumes."""
    return by_ranks(cell(shape, **{**LAYOUT, **layout}), way, ranks, **(asked or {}))


def outcome_of(spec: Specification, directory: Path) -> Outcome:
    """The outcome of a cell of ranks."""
    ranks, format_ = spec["case"]["workers"], load(spec["layout"]["format"])
    path = str(directory / "data.idx")
    return subvolumes.run(
        Context(spec, format_, path, open_values(spec["dataset"]), True, f"mpirun -n {ranks}")
    )


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("way", "ranks", "layout", "asked"),
    [
        *((way, 2, {}, {}) for way in WAYS),
        ("aggregated", 1, {}, {}),
        ("aggregated", 3, {}, {"aggregators": 2}),
        ("aggregated", 3, {}, {"files_each": 5}),
        ("aggregated", 3, {"within_block": "row-major"}, {}),
        ("aggregated", 2, {"bits_per_block": 5, "blocks_per_file": 1000}, {}),
        ("aggregated", 4, {}, {"along": {"x": 2, "z": 2}, "aggregators": 1}),
        ("token", 2, {}, {"along": {"z": 2}}),
        ("per-level-fast", 3, {"order": ["z", "x", "y"]}, {"along": {"y": 3}}),
    ],
)
def test_every_way_writes_every_byte(
    memory: Path, mpi: None, way: str, ranks: int, layout: dict[str, Any], asked: dict[str, Any]
) -> None:
    spec = written_by(way, ranks, asked=asked, **layout)
    outcome = outcome_of(spec, memory)
    total = int(np.prod(SHAPE)) * 2
    assert len(outcome.repeats) == 2
    for row in outcome.repeats:
        assert (row["state"], row["asked_bytes"], row["processes"]) == ("write", total, ranks)
        parts = ("create_s", "write_s", "close_s", "fsync_s")
        assert row["time_s"] == pytest.approx(sum(row[part] for part in parts)) and row["reference_s"] > 0
        assert row["written_bytes"] >= total
        assert ("time_by_level" in row) == way.startswith("per-level")
    files, opens = files_of(spec), {row["opens"] for row in outcome.repeats}
    assert len(opens) == 1
    match way:
        case "aggregated":
            # Whole blocks, each file once, beside headers and the description.
            held = sum(len(files.in_file(int(first))) for first in files.files) * files.block_bytes
            headers = len(files.files) * files.header_bytes
            assert opens == {len(files.files)}
            for row in outcome.repeats:
                assert held + headers < row["written_bytes"] < held + headers + 2000
                assert row["requested_writes"] == 2 * len(files.files) + 1
        case "per-level" | "per-level-kept":
            once = sum(
                len(np.unique(files.blocks.touched(box.origin, box.extent) // files.blocks_per_file))
                for box in division.sub_volumes(SHAPE, (ranks, 1, 1))
            )
            assert opens == {once} if way == "per-level-kept" else min(opens) > once
    if way != "plain":
        assert outcome.report["chunks"] == outcome.report["chunks_predicted"]
    assert not list(memory.glob("data.idx*"))


@pytest.mark.mpi
def test_fields_are_written_together(memory: Path, mpi: None) -> None:
    spec = written_by("aggregated", 2, (3, *SHAPE), fields="w")
    (row, _) = outcome_of(spec, memory).repeats
    assert row["asked_bytes"] == 3 * int(np.prod(SHAPE)) * 2


@pytest.mark.mpi
def test_a_file_is_written_piece_by_piece(memory: Path, mpi: None, program: Callable[[str], None]) -> None:
    # Three blocks at once of files that hold up to sixteen, and of which others hold a part.
    program("from hyperslab.formats.idx.parallel import aggregated\naggregated.PIECE_BYTES = 3 * 1024\n")
    spec = written_by("aggregated", 2, (2, *SHAPE), fields="w", asked={"along": {"y": 2}})
    (row, _) = outcome_of(spec, memory).repeats
    files = files_of(spec)
    pieces = sum(-(-len(files.in_file(first)) // 3) for first in files.files.tolist())
    # Headers, the description, and each piece of each field once.
    assert row["requested_writes"] == len(files.files) + 1 + 2 * pieces
    assert row["opens"] == len(files.files)


def test_pieces_of_a_file_are_all_of_it_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    files = files_of(cell(SHAPE, **LAYOUT))
    monkeypatch.setattr(aggregated, "PIECE_BYTES", 3 * files.block_bytes)
    for first in files.files.tolist():
        found = [piece.blocks(files) for piece in aggregated.pieces_of(files, first)]
        assert np.concatenate(found).tolist() == files.in_file(first).tolist()
        assert max(map(len, found)) <= 3


@pytest.mark.mpi
@pytest.mark.parametrize("chunks", [None, (8, 16, 24)])
@pytest.mark.parametrize("way", HDF5_WAYS)
def test_parallel_hdf5_writes_every_byte(memory: Path, mpi: None, way: str, chunks: Any) -> None:
    spec = by_ranks(file_specification(SHAPE, chunks, "zxy"), way, 2, {"z": 2})
    outcome = outcome_of(spec, memory)
    total = int(np.prod(SHAPE)) * 2
    for row in outcome.repeats:
        assert row["asked_bytes"] == total and row["written_bytes"] >= total and row["opens"] == 2
        assert "time_by_level" not in row
    assert outcome.report["data_bytes"] == total
    said = outcome.report["settings"]
    assert said["dataset_layout"] == ("chunked" if chunks else "contiguous")
    assert said["last_call"].endswith("collective") == (way == "collective")
    assert not list(memory.glob("data.idx*"))


@pytest.mark.mpi
def test_openvisus_writes_in_turn_for_ranks(memory: Path, mpi: None, openvisus: str) -> None:
    # Blocks of which two ranks have a part each are read again by the second.
    spec = written_by("token", 2, settings={"library": "openvisus"}, within_block="row-major")
    (first, second) = outcome_of(spec, memory).repeats
    total = int(np.prod(SHAPE)) * 2
    for row in (first, second):
        assert row["written_bytes"] >= total and "opens" not in row and row["write_s"] > 0
    assert not started_by_openvisus()


def started_by_openvisus() -> list[str]:
    """The processes with OpenVisus that are still there."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            found += [entry.name] if by_openvisus.MODULE.encode() in words else []
    return found


# A rank's arrays, counted where numpy allocates them; its values among them.
COUNTED = """
import tracemalloc
tracemalloc.start()
from hyperslab.cases.subvolumes import ranks
written = ranks.Cell.written
def counted(self):
    tracemalloc.reset_peak()
    row = written(self)
    peak, allowed = tracemalloc.get_traced_memory()[1], 2 * self._values.nbytes + 2**26
    if not self._values.nbytes < peak <= allowed:
        raise MemoryError(f"{peak:,} bytes, and {allowed:,} are allowed")
    return row
ranks.Cell.written = counted
"""


@pytest.mark.mpi
@pytest.mark.parametrize("way", ["per-level-fast", "aggregated"])
def test_a_rank_holds_its_sub_volume_twice_at_most_and_little_more(
    disk: Path, mpi: None, program: Callable[[str], None], way: str
) -> None:
    program(COUNTED)
    # 80 MiB a rank: holding them three times would be too much.
    spec = written_by(way, 2, (640, 256, 512), bits_per_block=15, blocks_per_file=256)
    assert len(outcome_of({**spec, "repeats": {"write": 1}}, disk).repeats) == 1


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("boxes", "says"),
    [
        (
            "[Box((0, 0, 0), shape), Box((1, 0, 0), (1, 1, 1))]",
            "ranks 0 and 1 both hold samples at (1, 0, 0)",
        ),
        ("[Box((0, 0, 0), (1, 1, 1)), Box((1, 0, 0), (1, 1, 1))]", "their sub-volumes leave holes"),
    ],
)
def test_sub_volumes_that_do_not_make_up_the_array_are_named_before_anything_is_written(
    memory: Path, mpi: None, program: Callable[[str], None], boxes: str, says: str
) -> None:
    program(
        "from hyperslab.data import sub_volumes\n"
        "from hyperslab.data.selections import Box\n"
        f"sub_volumes.sub_volumes = lambda shape, parts: {boxes.replace('shape', 'tuple(shape)')}\n"
    )
    with pytest.raises(ChildProcessError, match=rf"rank . of 2: ValueError: .*{re.escape(says)}"):
        outcome_of(written_by("aggregated", 2), memory)
    assert not list(memory.glob("data.idx*"))


@pytest.mark.mpi
@pytest.mark.parametrize("way", WAYS)
def test_a_byte_that_differs_fails_the_cell(
    memory: Path, mpi: None, way: str, program: Callable[[str], None]
) -> None:
    program(
        "from hyperslab.cases.subvolumes import ranks\n"
        "from hyperslab.measuring.artifact import Artifact\n"
        "def damage(self):\n"
        "    if self._ranks.rank == 0:\n"
        "        file = max(self._artifact.files(), key=lambda one: one.stat().st_size)\n"
        "        with open(file, 'r+b') as opened:\n"
        "            opened.seek(-1, 2)\n"
        "            byte = opened.read(1)\n"
        "            opened.seek(-1, 2)\n"
        "            opened.write(bytes([byte[0] ^ 1]))\n"
        "ranks.Cell._fsync = damage\n"
    )
    with pytest.raises(VerificationError, match="the sub-volume at .* differs from what was written"):
        outcome_of(written_by(way, 2, (32, 32, 32)), memory)
    subprocess.run(["rm", "-rf", *map(str, memory.glob("data.idx*"))], check=True)


@pytest.mark.mpi
@pytest.mark.faults
@pytest.mark.parametrize("way", ["aggregated", "token"])
def test_a_killed_rank_leaves_one_line_and_nothing_that_looks_finished(
    memory: Path, mpi: None, tmp_path: Path, way: str
) -> None:
    from hyperslab.studies.specification import text

    spec = written_by(way, 2)
    spec["repeats"] = {"write": 10**5}
    with prepared(memory) as root:
        artifact, record = root / "study" / "layout" / "all.r0", tmp_path / "record.json"
        words = [
            sys.executable, "-m", "hyperslab.measure",
            "--specification", text(spec), "--artifact", str(artifact), "--site", "here",
            "--record", str(record), "--launcher", "mpirun -n 2",
        ]  # fmt: skip
        run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert wait_until(lambda: len(ranks_of(run.pid)) == 2)
            # They are at work.
            assert wait_until(lambda: any(artifact.glob("data.idx/**/*.bin")))
            started = descendants(run.pid)
            os.kill(ranks_of(run.pid)[0], signal.SIGKILL)
            _, said = run.communicate(timeout=60)
        finally:
            run.kill()
        assert run.returncode == 1
        (line,) = said.splitlines()
        assert "ChildProcessError: MPI ranks ended with status" in line
        assert not artifact.exists() and not record.exists()
        assert wait_until(lambda: not any(map(alive, started)))


@pytest.mark.mpi
def test_openvisus_reads_what_four_ranks_aggregated_at_every_level(
    mpi: None, openvisus: str, tmp_path: Path
) -> None:
    words = ["ranks", "--extent", "64", "--bits-per-block", "9", "--along", "xyz", "--directory"]
    done = subprocess.run(
        [sys.executable, str(ROOT / "workflow/scripts/check_idx_openvisus.py"), *words, str(tmp_path / "d")],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "4 ranks (2 along x x 2 along y x 1 along z), aggregated" in done.stdout
    assert done.stdout.count("samples equal") == 19
    assert "OpenVisus reads all 19 levels as they were written" in done.stdout
    assert not list((tmp_path / "d").iterdir())


# ---- what a study says of them


CASE: dict[str, Any] = {"subvolumes": {"along": "x", "ways": ["aggregated"]}, "ranks": [2, 4]}


def study_of(case: Any, layout: Any = None) -> dict[str, Any]:
    """A study with one case of sub-volumes, of an IDX layout."""
    content = changed("cases", {"mine": {**case, "layouts": ["mine"]}})
    content["layouts"]["mine"] = layout or {"format": "idx"}
    return {**content, "recommendation": {}, "score": None}


def test_axes_that_are_cut_are_resolved(tmp_path: Path) -> None:
    cases = load_study(
        tmp_path, study_of({**CASE, "subvolumes": {"along": ["x", "z"], "ways": ["plain"]}})
    ).cases
    assert cases["mine-plain-4r"]["subvolumes"]["along"] == {"x": 1, "z": 4}
    each = {"along": ["x", "z"], "each": {"x": 5, "z": 50}, "ways": ["token"]}
    cases = load_study(tmp_path, study_of({**CASE, "subvolumes": each})).cases
    assert cases["mine-token-4r"]["shape"] == [5, 30, 200]
    given_parts = {"along": {"x": 2, "y": 2}, "ways": ["aggregated"], "files_each": 3}
    cases = load_study(tmp_path, study_of({"subvolumes": given_parts, "ranks": [4]})).cases
    assert cases["mine-aggregated-4r"]["subvolumes"] == {
        "way": "aggregated", "along": {"x": 2, "y": 2}, "aggregators": None, "files_each": 3,
    }  # fmt: skip


VISUS = {"format": "idx", "settings": {"library": "openvisus"}}


@pytest.mark.parametrize(
    ("asked", "layout", "says"),
    [
        ({"along": "t"}, None, "subvolumes.along: no axis t; the dataset has x, y, z"),
        ({"along": {"x": 3}}, None, "subvolumes.along: 3 parts are not one for each of 2 ranks"),
        ({"along": ["x", "x"]}, None, "along: each axis at most once"),
        ({"along": 5}, None, "expected an axis, such as x, a list of them, or a mapping"),
        ({"along": ["x", "y"], "each": {"x": 2}}, None, "each: an extent for each of x, y"),
        ({"along": "x", "each": 11}, None, "2 ranks cannot hold 22 along x in 2 parts; it has 20"),
        ({"along": "x", "aggregators": 1, "files_each": 1}, None, "aggregators and files_each say the same"),
        ({"along": "x", "ways": ["collective"]}, None, "ranks write IDX in the ways token, per-level,"),
        ({"along": "x", "ways": ["plain"]}, VISUS, "OpenVisus one after the other (token), not plain"),
        ({"along": "x", "ways": ["token"]}, {"chunks": [2, 3, 4]}, "that are independent or collective"),
        (
            {"along": "x", "ways": ["independent"]}, {"chunks": "auto", "filters": ["shuffle"]},
            "chunks that go through filters by collective calls alone",
        ),
        ({"along": "x", "ways": ["plain"]}, {"format": "zarr"}, "MPI ranks"),
    ],
)  # fmt: skip
def test_a_mistake_in_sub_volumes_is_one_line(
    tmp_path: Path, asked: dict[str, Any], layout: Any, says: str
) -> None:
    asked = {"ways": ["aggregated"], **asked}
    assert says in mistake(tmp_path, study_of({"subvolumes": asked, "ranks": [2]}, layout))


def test_all_ways_are_tested() -> None:
    from typing import get_args

    from hyperslab.studies.worker_schema import Way

    assert {*WAYS, *HDF5_WAYS} == set(get_args(Way))
