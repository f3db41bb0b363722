"""Sub-volumes that ranks write: who holds and writes what, and every way with real ranks."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from idx_cells import cell
from samples import prepared
from test_environments import ROOT
from test_mpi import descendants, ranks_of
from test_workers import alive, wait_until

import hyperslab
from hyperslab.cases.context import Context, Outcome, VerificationError
from hyperslab.cases.mpi import environment, launch
from hyperslab.cases.subvolumes import case as subvolumes
from hyperslab.data.selections import Box
from hyperslab.data.values import open_values
from hyperslab.formats.idx.array import FORMAT
from hyperslab.formats.idx.ordering import Ordering
from hyperslab.formats.idx.parallel import division, runs
from hyperslab.formats.idx.places import files_of
from hyperslab.layouts.idx_order import hz_addresses
from hyperslab.specifications import CaseSpecification, Specification

WAYS = ("token", "per-level", "per-level-kept", "per-level-fast", "aggregated", "plain")
SHAPE = (40, 32, 48)
LAYOUT: dict[str, Any] = {"bits_per_block": 9, "blocks_per_file": 16}


# ---- arithmetic


@given(st.lists(st.integers(1, 30), min_size=2, max_size=4), st.integers(1, 8), st.data())
def test_sub_volumes_make_up_the_array(shape: list[int], ranks: int, data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    boxes = division.sub_volumes(shape, axis, ranks)
    if shape[axis] < ranks:
        assert "outside of the array" in str(division.mistake(boxes, shape))
        return
    assert division.mistake(boxes, shape) is None
    seen = np.zeros(shape, int)
    for box in boxes:
        seen[box.slices()] += 1
    assert (seen == 1).all()


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
    boxes = division.sub_volumes(SHAPE, axis, ranks)
    chosen = list(range(min(aggregators, ranks)))
    found = division.writers_of_files(files, boxes, chosen)
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


@pytest.fixture
def mpi(
    require: Callable[[str | None], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, any_launcher: None
) -> None:
    """The environment of ranks in the project's directory; tests of it need the machine's MPI."""
    monkeypatch.chdir(ROOT)
    said = environment.missing() if environment.MADE.exists() else "it was not made (envs/create-mpi)"
    require(f"no environment of MPI ranks: {said}" if said else None)
    monkeypatch.setenv("PYTHONPATH", str(Path(hyperslab.__file__).parents[1]))
    monkeypatch.setenv("MPI4PY_RC_INITIALIZE", "0")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))


def written_by(way: str, ranks: int, shape: Sequence[int] = SHAPE, **layout: Any) -> Specification:
    """What measure is told of ranks that write an array in one way."""
    case: CaseSpecification = {
        "name": "all", "kind": "subvolumes", "family": "all", "by": "ranks", "workers": ranks,
        "states": ["write"],
        "subvolumes": {"way": way, "along": "x", "aggregators": layout.pop("aggregators", None)},
    }  # fmt: skip
    spec = cell(shape, **{**LAYOUT, **layout})
    return {**spec, "case": case, "repeats": {"write": 2}, "seed": 1, "round": "r0", "protocol": 1}


def outcome_of(spec: Specification, directory: Path, keep: bool = False) -> Outcome:
    """The outcome of a cell of ranks."""
    ranks = spec["case"]["workers"]
    path = str(directory / "data.idx")
    return subvolumes.run(
        Context(spec, FORMAT, path, open_values(spec["dataset"]), True, f"mpirun -n {ranks}")
    )


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("way", "ranks", "layout"),
    [
        *((way, 2, {}) for way in WAYS),
        *(("aggregated", ranks, {"aggregators": some}) for ranks, some in ((1, None), (3, 2), (4, 1))),
        ("per-level-fast", 3, {"within_block": "hz"}),
        ("aggregated", 3, {"within_block": "row-major"}),
        ("aggregated", 2, {"bits_per_block": 5, "blocks_per_file": 1000}),
    ],
)
def test_every_way_writes_every_byte(
    memory: Path, mpi: None, way: str, ranks: int, layout: dict[str, Any]
) -> None:
    spec = written_by(way, ranks, **layout)
    outcome = outcome_of(spec, memory)
    total = int(np.prod(SHAPE)) * 2
    assert len(outcome.repeats) == 2
    for row in outcome.repeats:
        assert (row["state"], row["asked_bytes"], row["processes"]) == ("write", total, ranks)
        parts = ("create_s", "write_s", "close_s", "fsync_s")
        assert row["time_s"] == pytest.approx(sum(row[part] for part in parts)) and row["reference_s"] > 0
        assert row["written_bytes"] >= total
        assert ("each_level_s" in row) == way.startswith("per-level")
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
                for box in division.sub_volumes(SHAPE, 0, ranks)
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
@pytest.mark.parametrize("way", WAYS)
def test_a_byte_that_differs_fails_the_cell(
    memory: Path, mpi: None, way: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = (
        "from hyperslab.cases.mpi import program\n"
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
        "program.main()\n"
    )
    (tmp_path / "ranks.py").write_text(lines)
    monkeypatch.setattr(launch, "PROGRAM", tmp_path / "ranks.py")
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
            time.sleep(1)
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


def test_all_ways_are_tested() -> None:
    from typing import get_args

    from hyperslab.studies.worker_schema import Way

    assert set(WAYS) == set(get_args(Way))
    assert len(list(itertools.chain(WAYS))) == len(WAYS)
