"""Sub-volumes that real ranks write: every byte in every way, counts, memory, and what is killed."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from idx_cells import cell
from process_tree import alive, below
from rank_cells import HDF5_WAYS, SHAPE, WAYS, by_ranks, outcome_of, outcomes_of, written_by
from samples import file_specification, prepared
from test_environments import ROOT
from test_mpi import ranks_of
from test_workers import wait_until

from hyperslab.cases.context import Outcome, VerificationError
from hyperslab.data import sub_volumes as division
from hyperslab.data.selections import disk_order
from hyperslab.formats import load
from hyperslab.formats.idx.parallel import by_openvisus
from hyperslab.formats.idx.parallel import division as idx
from hyperslab.formats.idx.places import files_of
from hyperslab.specifications import Specification

# By the number of ranks: the way, and what a study says of layout and case.
CELLS: dict[int, list[tuple[str, dict[str, Any], dict[str, Any]]]] = {
    1: [("aggregated", {}, {})],
    2: [
        *((way, {}, {}) for way in WAYS),
        ("aggregated", {"bits_per_block": 5, "blocks_per_file": 1000}, {}),
        ("token", {}, {"along": {"z": 2}}),
        *((way, {"within_block": "row-major"}, {}) for way in ("token", "plain", "aggregated")),
        # One of the two puts all blocks together.
        ("aggregated", {}, {"files_each": 1000}),
    ],
    3: [
        ("aggregated", {}, {"aggregators": 2}),
        ("per-level-fast", {"order": ["z", "x", "y"]}, {"along": {"y": 3}}),
    ],
    4: [("aggregated", {}, {"along": {"x": 2, "z": 2}, "aggregators": 1})],
}


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", CELLS)
def test_every_way_writes_every_byte(
    memory: Path, mpi: None, program: Callable[[str], None], ranks: int
) -> None:
    specs: list[Specification] = []
    for way, layout, asked in CELLS[ranks]:
        spec = written_by(way, ranks, asked=asked, **layout)
        # A second write has each way once. More ranks than processors wait busily for each other.
        if ranks > 2 or layout or asked:
            spec["repeats"] = {"write": 1}
        specs.append(spec)
    for spec, outcome in zip(specs, outcomes_of(specs, memory, program), strict=True):
        assert_every_byte_is_written(spec, outcome)
    assert not list(memory.glob("data*"))


def assert_every_byte_is_written(spec: Specification, outcome: Outcome) -> None:
    """Rows have the phases, and the counts that arithmetic says of files and ranks."""
    way, ranks = spec["case"]["subvolumes"]["way"], spec["case"]["workers"]
    total = int(np.prod(SHAPE)) * 2
    assert len(outcome.repeats) == spec["repeats"]["write"]
    for row in outcome.repeats:
        assert (row["state"], row["asked_bytes"], row["processes"]) == ("write", total, ranks)
        parts = ("create_s", "write_s", "close_s", "fsync_s")
        assert row["time_s"] == pytest.approx(sum(row[part] for part in parts)) and row["reference_s"] > 0
        assert row["written_bytes"] >= total
        assert ("time_by_level" in row) == way.startswith("per-level")
        # Aggregated, whole blocks are written, each file once; else nobody knows how runs lie.
        if way == "aggregated":
            assert_files_are_written_once(spec, row)
        counts = {
            "opens": "opens_by_rank",
            "requested_writes": "writes_by_rank",
            "written_bytes": "written_by_rank",
        }
        for name, told in counts.items():
            by_rank = [int(one) for one in row[told].split()]
            assert len(by_rank) == ranks and sum(by_rank) == row[name]
        assert (row["opens_by_rank"], row["most_opens"]) == opens_foreseen(spec)
    if not way.startswith("plain"):
        assert outcome.report["chunks"] == outcome.report["chunks_predicted"]


def assert_files_are_written_once(spec: Specification, row: dict[str, Any]) -> None:
    """Beside the blocks there are headers and the description."""
    files = files_of(spec)
    held = sum(len(files.in_file(int(first))) for first in files.files) * files.block_bytes
    headers = len(files.files) * files.header_bytes
    assert row["opens"] == 2 * len(files.files)
    assert held + headers < row["written_bytes"] < held + headers + 2000
    assert row["requested_writes"] == 2 * len(files.files) + 1


def opens_foreseen(spec: Specification) -> tuple[str, int]:
    """How often each rank makes and opens files, and the same one to write into it at most."""
    files, disk, case = files_of(spec), disk_order(spec), spec["case"]
    way, ranks = case["subvolumes"]["way"], case["workers"]
    if way.startswith("plain"):
        opens = 1 + (way == "plain-writeback")
        return " ".join([str(opens)] * ranks), opens
    boxes = [box.permuted(disk) for box in division.boxes_of(spec)]
    if way == "aggregated":
        asked = (case["subvolumes"][name] for name in ("aggregators", "files_each"))
        owners = [
            owner for _, owner in idx.writers_of_files(files, boxes, idx.aggregators_of(files, ranks, *asked))
        ]
        opened, most = [owners.count(rank) for rank in range(ranks)], 1
    else:
        kept = way not in ("per-level", "per-level-fast-reopened")
        opened = [idx.opens_of(files, box, kept) for box in boxes]
        each = [Counter(np.concatenate(idx.files_by_level(files, box)).tolist()) for box in boxes]
        most = 1 if kept else max(max(one.values()) for one in each)
    made = [len(idx.created_by(files, rank, ranks)) for rank in range(ranks)]
    return " ".join(str(one + other) for one, other in zip(made, opened, strict=True)), most


@pytest.mark.mpi
def test_fields_are_written_together(memory: Path, mpi: None, program: Callable[[str], None]) -> None:
    ways = ("aggregated", "per-level-fast-reopened", "token", "plain")
    specs = [written_by(way, 2, (3, *SHAPE), fields="w") for way in ways]
    for spec in specs:
        spec["repeats"] = {"write": 1}
    for outcome in outcomes_of(specs, memory, program):
        (row,) = outcome.repeats
        assert row["asked_bytes"] == 3 * int(np.prod(SHAPE)) * 2


@pytest.mark.mpi
def test_a_file_is_written_piece_by_piece(memory: Path, mpi: None, program: Callable[[str], None]) -> None:
    # Three blocks at once of files that hold up to sixteen, and of which others hold a part.
    program("from hyperslab.formats.idx.parallel import division\ndivision.PIECE_BYTES = 3 * 1024\n")
    spec = written_by("aggregated", 2, (2, *SHAPE), fields="w", asked={"along": {"y": 2}})
    (row, _) = outcome_of(spec, memory).repeats
    files = files_of(spec)
    pieces = sum(-(-len(files.in_file(first)) // 3) for first in files.files.tolist())
    # Headers, the description, and each piece of each field once.
    assert row["requested_writes"] == len(files.files) + 1 + 2 * pieces
    assert row["opens"] == 2 * len(files.files)


@pytest.mark.mpi
def test_parallel_hdf5_writes_every_byte(memory: Path, mpi: None, program: Callable[[str], None]) -> None:
    asked = [(way, chunks) for way in HDF5_WAYS for chunks in (None, (8, 16, 24))]
    specs = [by_ranks(file_specification(SHAPE, chunks, "zxy"), way, 2, {"z": 2}) for way, chunks in asked]
    total = int(np.prod(SHAPE)) * 2
    for (way, chunks), outcome in zip(asked, outcomes_of(specs, memory, program), strict=True):
        for row in outcome.repeats:
            assert row["asked_bytes"] == total and row["written_bytes"] >= total
            assert (row["opens"], row["opens_by_rank"], row["most_opens"]) == (2, "1 1", 1)
            assert "time_by_level" not in row
        assert outcome.report["data_bytes"] == total
        said = outcome.report["settings"]
        assert said["dataset_layout"] == ("chunked" if chunks else "contiguous")
        assert said["last_call"].endswith("collective") == (way == "collective")
    assert not list(memory.glob("data*"))


@pytest.mark.mpi
def test_openvisus_writes_in_turn_for_ranks(memory: Path, mpi: None, openvisus: str) -> None:
    # Blocks of which two ranks have a part each are read again by the second.
    spec = written_by("token", 2, settings={"library": "openvisus"}, within_block="row-major")
    (first, second) = outcome_of(spec, memory).repeats
    total = int(np.prod(SHAPE)) * 2
    for row in (first, second):
        assert row["written_bytes"] >= total and "opens" not in row and row["write_s"] > 0
    assert not started_by_openvisus()


# The process of a rank, in which OpenVisus has no room.
FULL = """
import sys, types
from hyperslab.formats.idx.parallel import openvisus_process
def full(**_):
    raise Exception("No space left\\non device")
fields = types.SimpleNamespace(fromString=str)
sys.modules["OpenVisus"] = types.SimpleNamespace(CreateIdx=full, Field=fields)
openvisus_process.main()
"""


def test_why_openvisus_could_not_write_is_said(tmp_path: Path) -> None:
    spec = cell((4, 4, 4), settings={"library": "openvisus"})
    answers, its_end = os.pipe()
    box = {"origin": [0, 0, 0], "extent": [4, 4, 4]}
    told = {"path": str(tmp_path / "a"), "spec": spec, **box, "answers": its_end}
    way = by_openvisus.TokenByOpenVisus.__new__(by_openvisus.TokenByOpenVisus)
    way._answers = answers
    way._process = subprocess.Popen(
        [sys.executable, "-c", FULL, json.dumps(told)],
        stdin=subprocess.PIPE,
        pass_fds=(its_end,),
        env={**os.environ, "PYTHONPATH": str(ROOT / "workflow" / "scripts")},
    )
    os.close(its_end)
    way._send(bytes(2 * 4**3))
    says = f"the process with OpenVisus: {tmp_path / 'a'}: OpenVisus: No space left on device"
    with pytest.raises(ChildProcessError, match=f"^{re.escape(says)}$"):
        way._send(b"create\n")


def started_by_openvisus() -> list[str]:
    """The processes with OpenVisus that are still there."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            found += [entry.name] if by_openvisus.MODULE.encode() in words else []
    return found


# What a rank has of memory at most while it writes and reads back, beside what it had before its values; what
# takes time and no memory is left out.
COUNTED = """
from pathlib import Path
from hyperslab.cases.subvolumes import ranks
def told(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
made, written = ranks.Cell.__init__, ranks.Cell.written
def counted_from(self, *given):
    self.before = told("VmRSS:")
    made(self, *given)
def counted(self):
    Path("/proc/self/clear_refs").write_text("5")
    row = written(self)
    peak, allowed = told("VmHWM:") - self.before, 5 * self._values.nbytes // 2
    if not self._values.nbytes < peak <= allowed:
        raise MemoryError(f"{peak:,} bytes, and {allowed:,} are allowed")
    return row
ranks.Cell.__init__, ranks.Cell.written = counted_from, counted
ranks.Cell._fsync, ranks.plain_write = (lambda self: None), (lambda *_: 0.0)
"""
# Of each of two ranks, to which half a copy is allowed beside two; few samples, as the formula takes time.
MIB = 64
LARGE = (MIB, 512, 512)
# Values that are turned are written twice, and some of what the first write took stays with the allocator.
TURNED_MIB = 128
# Of ways that differ in what stays open, or in how a piece is written, that which may hold more.
HOLDING_MOST = ("token", "per-level-kept", "per-level-fast", "aggregated", "plain-writeback")
HDF5_HOLDING_MOST = "collective"


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("way", "layout"),
    # What one way holds beside values that are turned it may hold beside such as are not.
    [*((way, {}) for way in HOLDING_MOST if way != "per-level-fast"),
     ("per-level-fast", {"order": ["z", "y", "x"]}),
     ("aggregated", {"order": ["z", "y", "x"], "within_block": "row-major"})],
)  # fmt: skip
def test_a_rank_holds_its_sub_volume_twice_at_most_and_little_more(
    disk: Path, mpi: None, program: Callable[[str], None], way: str, layout: dict[str, Any]
) -> None:
    program(COUNTED)
    turned = "order" in layout
    spec = by_ranks(cell((TURNED_MIB, *LARGE[1:]) if turned else LARGE, "uint64", **layout), way, 2)
    # Of a second write nothing of the first is held, whose values were turned.
    writes = 2 if turned else 1
    assert len(outcome_of({**spec, "repeats": {"write": writes}}, disk).repeats) == writes


@pytest.mark.mpi
@pytest.mark.parametrize("chunks", [None, (32, 32, 32)])
def test_a_rank_of_parallel_hdf5_holds_as_much(
    disk: Path, mpi: None, program: Callable[[str], None], chunks: Any
) -> None:
    program(COUNTED)
    layout = file_specification(LARGE, chunks, dtype="uint64")
    spec = by_ranks(layout, HDF5_HOLDING_MOST, 2)
    assert len(outcome_of({**spec, "repeats": {"write": 1}}, disk).repeats) == 1


def test_the_documentation_says_of_which_ways_memory_is_tested() -> None:
    text = " ".join((ROOT / "docs" / "idx.md").read_text(encoding="utf-8").split())
    (sentence,) = (one for one in re.split(r"(?<=[.:]) ", text) if "VmHWM" in one)
    assert f"{MIB} MiB a rank, {TURNED_MIB} where values are turned," in sentence
    assert set(re.findall(r"`([a-z0-9-]+)`", sentence)) == {*HOLDING_MOST, HDF5_HOLDING_MOST}
    assert np.prod(LARGE) * 8 == 2 * MIB * 2**20


# A rank that is killed when it has written all, before any closes.
KILLED = """
import os, signal
from hyperslab.formats.idx.parallel.ways import Way
closed = Way.close
def killed(self):
    self.comm.Barrier()
    if self.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    closed(self)
Way.close = killed
"""


@pytest.mark.mpi
# All ways of this project describe what they wrote in one place, OpenVisus does in another.
@pytest.mark.parametrize("way", ["aggregated", "token by OpenVisus"])
def test_what_a_killed_rank_leaves_does_not_look_finished(
    memory: Path,
    mpi: None,
    program: Callable[[str], None],
    request: pytest.FixtureRequest,
    way: str,
) -> None:
    if by_library := way.endswith("OpenVisus"):
        request.getfixturevalue("openvisus")
    program(KILLED)
    layout: dict[str, Any] = {"settings": {"library": "openvisus"}} if by_library else {}
    spec, path = written_by(way.split()[0], 2, **layout), memory / "data.idx"
    try:
        with pytest.raises(ChildProcessError, match="MPI ranks ended with status"):
            outcome_of(spec, memory)
        # All samples are there, and still nobody takes it for a dataset.
        assert sum(file.stat().st_size for file in path.rglob("*.bin")) >= int(np.prod(SHAPE)) * 2
        spec["layout"]["settings"] = {"library": "hyperslab"}
        with pytest.raises(FileNotFoundError, match="array.idx"):
            load("idx").open(str(path), spec)
    finally:
        subprocess.run(["rm", "-rf", str(path)], check=True)


@pytest.mark.mpi
def test_sub_volumes_that_do_not_make_up_the_array_are_named_before_anything_is_written(
    memory: Path, mpi: None, program: Callable[[str], None]
) -> None:
    program(
        "from hyperslab.data import sub_volumes\n"
        "from hyperslab.data.selections import Box\n"
        "corner = Box((1, 0, 0), (1, 1, 1))\n"
        "sub_volumes.sub_volumes = lambda shape, parts: [Box((0, 0, 0), tuple(shape)), corner]\n"
    )
    says = re.escape("ranks 0 and 1 both hold samples at (1, 0, 0)")
    with pytest.raises(ChildProcessError, match=rf"rank . of 2: ValueError: .*{says}"):
        outcome_of(written_by("aggregated", 2), memory)
    assert not list(memory.glob("data.idx*"))


# All ways but the plain ones make a dataset, which is read back in one way.
@pytest.mark.mpi
@pytest.mark.parametrize("way", ["aggregated", "plain"])
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
def test_a_killed_rank_leaves_one_line_and_nothing_that_looks_finished(
    memory: Path, mpi: None, tmp_path: Path
) -> None:
    from hyperslab.studies.specification import text

    spec = written_by("aggregated", 2)
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
            # They are at work. Unlike a Path's, this glob minds no directory that goes before the next write.
            assert wait_until(lambda: any(glob.iglob("data.idx/**/*.bin", root_dir=artifact, recursive=True)))
            started = below(run.pid)
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
