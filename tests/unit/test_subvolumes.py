"""Sub-volumes that ranks write: who holds, writes, opens and sends what, and what a study says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from idx_cells import cell
from rank_cells import HDF5_WAYS, LAYOUT, SHAPE, WAYS
from studies import changed, mistake
from studies import load as load_study
from test_environments import ROOT

import check_idx_ranks
from hyperslab.data import sub_volumes as division
from hyperslab.data.selections import Box
from hyperslab.formats.idx.ordering import Ordering
from hyperslab.formats.idx.parallel import division as idx
from hyperslab.formats.idx.parallel import runs, sub_volumes, ways
from hyperslab.formats.idx.places import files_of
from hyperslab.layouts.idx_files import IdxFiles
from hyperslab.layouts.idx_order import hz_addresses
from hyperslab.studies.case_kinds.workers import WAY_NAMES

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
    found = idx.writers_of_files(files, boxes, chosen)
    assert [first for first, _ in found] == files.files.tolist()
    assert {rank for _, rank in found} <= set(chosen)
    load = [sum(len(files.in_file(first)) for first, owner in found if owner == rank) for rank in chosen]
    if len(chosen) == ranks and ranks > 1:
        assert max(load) < 0.9 * len(files.present)


@settings(max_examples=30)
@given(
    st.tuples(*(st.integers(0, 20) for _ in range(3))), st.tuples(*(st.integers(1, 12) for _ in range(3))),
    st.sampled_from([4, 11, 18]),
)  # fmt: skip
def test_both_orders_give_the_same_runs_of_every_level(
    origin: tuple[int, int, int], extent: tuple[int, int, int], part_bits: int
) -> None:
    files = files_of(cell(SHAPE, **LAYOUT))
    values = np.random.default_rng(1).integers(0, 2**16, extent).astype(np.uint16)
    order = Ordering(files.blocks, row_major=False)
    grid = [np.arange(o, o + e, dtype=np.int64) for o, e in zip(origin, extent, strict=True)]
    truth = dict(
        zip(
            hz_addresses(files.bitmask, np.meshgrid(*grid, indexing="ij")).reshape(-1).tolist(),
            values.reshape(-1).tolist(), strict=True,
        )
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        # Several parts of a level, and several lots of blocks.
        patch.setattr(runs, "PART_BITS", part_bits)
        patch.setattr(runs, "ORDERED_BYTES", 3 * files.block_bytes)
        for way in (runs.ByFormula, runs.ByBlocks):
            held = way(files, order, origin, values)
            found: dict[int, int] = {}
            for level in range(files.bitmask.bits + 1):
                seen: list[int] = []
                for address, samples in held.of_level(level):
                    numbers = range(address, address + len(samples))
                    assert {number.bit_length() for number in numbers} == {level}
                    found |= dict(zip(numbers, samples.tolist(), strict=True))
                    seen += numbers
                assert seen == sorted(seen)
            assert found == truth


@pytest.mark.parametrize("way", [runs.ByFormula, runs.ByBlocks])
def test_runs_that_follow_each_other_in_a_file_are_one_piece(
    monkeypatch: pytest.MonkeyPatch, way: Any
) -> None:
    files = files_of(cell((32, 32, 32), **LAYOUT))
    values = np.arange(2**15, dtype=np.uint16).reshape(files.shape)
    order, by_address = Ordering(files.blocks, row_major=False), np.empty(2**15, np.uint16)
    by_address[addresses(files)] = values
    for most, count in ((2**20, 2), (3 * files.block_bytes, 2 * 6)):
        monkeypatch.setattr(runs, "ORDERED_BYTES", most)
        held = way(files, order, (0, 0, 0), values).of_level(15)
        # Half of the 64 blocks are of the finest level, in two files of 16.
        found = list(runs.in_files(files, 0, held))
        assert len(found) == count
        for first, offset, samples in found:
            at = (offset - files.data_start) // 2 + first * files.blocks.samples
            assert samples.tolist() == by_address[at : at + len(samples)].tolist()


def addresses(files: IdxFiles) -> Any:
    """The HZ address of every sample."""
    grid = [np.arange(extent, dtype=np.int64) for extent in files.shape]
    return hz_addresses(files.bitmask, np.meshgrid(*grid, indexing="ij"))


def test_pieces_of_a_file_are_all_of_it_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    files = files_of(cell(SHAPE, **LAYOUT))
    monkeypatch.setattr(idx, "PIECE_BYTES", 3 * files.block_bytes)
    for first in files.files.tolist():
        found = [piece.blocks(files) for piece in idx.pieces_of(files, first)]
        assert np.concatenate(found).tolist() == files.in_file(first).tolist()
        assert max(map(len, found)) <= 3


@settings(max_examples=20)
@given(
    st.sampled_from([{"x": 2}, {"y": 3}, {"z": 4}, {"x": 2, "z": 2}]), st.integers(1, 4), st.integers(1, 5),
    st.integers(1, 2),
)  # fmt: skip
def test_messages_are_those_of_all_samples(
    along: dict[str, int], aggregators: int, blocks_a_piece: int, fields: int
) -> None:
    shape = (fields, *SHAPE) if fields > 1 else SHAPE
    files = files_of(cell(shape, **LAYOUT, **({"fields": "w"} if fields > 1 else {})))
    boxes = division.sub_volumes(SHAPE, [along.get(axis, 1) for axis in "xyz"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(idx, "PIECE_BYTES", blocks_a_piece * files.block_bytes)
        rounds = idx.rounds_of(files, boxes, idx.aggregators_of(files, len(boxes), aggregators, None))
    found = idx.sent_of(files, boxes, rounds)
    writes = {
        block: (rank, number)
        for number, pieces in enumerate(rounds)
        for rank, piece in pieces.items()
        for block in piece.blocks(files).tolist()
    }
    messages: dict[tuple[int, int, int], int] = {}
    for rank, box in enumerate(boxes):
        for block in (addresses(files)[box.slices()] >> files.blocks.bits).reshape(-1).tolist():
            to, number = writes[block]
            if to != rank:
                messages[rank, to, number] = messages.get((rank, to, number), 0) + 1
    exchanged = {number for _, _, number in messages}
    assert idx.exchanged_in(files, boxes, rounds) == [number in exchanged for number in range(len(rounds))]
    for rank in range(len(boxes)):
        sent = [many for (one, _, _), many in messages.items() if one == rank]
        got = [many for (_, to, _), many in messages.items() if to == rank]
        assert [counts[rank] for counts in found] == [
            fields * len(sent), fields * len(got), 2 * fields * sum(sent), 2 * fields * sum(got)
        ]  # fmt: skip


@pytest.mark.parametrize("along", [{"x": 3}, {"z": 5}, {"x": 2, "y": 2, "z": 2}])
def test_opens_are_those_of_all_samples(along: dict[str, int]) -> None:
    files = files_of(cell(SHAPE, **LAYOUT))
    for box in division.sub_volumes(SHAPE, [along.get(axis, 1) for axis in "xyz"]):
        held = addresses(files)[box.slices()].reshape(-1).tolist()
        opened = {(one.bit_length(), (one >> files.blocks.bits) // files.blocks_per_file) for one in held}
        assert idx.opens_of(files, box, kept=False) == len(opened)
        assert idx.opens_of(files, box, kept=True) == len({file for _, file in opened})


def test_every_file_is_made_by_one_rank() -> None:
    files = files_of(cell(SHAPE, **LAYOUT))
    made = [first for rank in range(3) for first in idx.created_by(files, rank, 3)]
    assert sorted(made) == files.files.tolist()


def test_what_more_ranks_would_do_is_in_the_documentation() -> None:
    text = (ROOT / "docs" / "idx.md").read_text(encoding="utf-8")
    for table in check_idx_ranks.tables(check_idx_ranks.files_of()).split("\n\n"):
        assert table in text


def test_what_other_parts_would_change_is_in_the_documentation() -> None:
    text = " ".join((ROOT / "docs" / "idx.md").read_text(encoding="utf-8").split())
    files = check_idx_ranks.files_of()
    boxes = division.sub_volumes(files.shape, [8, 8, 8])
    found = idx.sent_of(files, boxes, idx.rounds_of(files, boxes, range(512)))
    least, most = int(found.messages_sent.min()), int(found.messages_sent.max())
    size = found.bytes_sent.sum() / found.messages_sent.sum() / 1e6
    (opened,) = {idx.opens_of(files, box, kept=True) for box in boxes}
    says = f"a rank of 512 sends {least} to {most} messages of about {size:.1f} MB, and opens {opened} files"
    assert says in text


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
        (
            {"along": "x", "ways": ["plain"], "aggregators": 1}, None,
            "aggregators and files_each: only the way aggregated has them",
        ),
        ({"along": "x", "aggregators": 3}, None, "subvolumes.aggregators: 3 of 2 ranks; name"),
        ({"along": "x", "ways": ["collective"]}, None, "ranks write IDX in the ways token, per-level,"),
        ({"along": "x", "ways": ["plain"]}, VISUS, "OpenVisus one after the other (token), not plain"),
        *(
            (
                {"along": "x", "ways": [way]}, {"format": "idx", "within_block": "row-major"},
                f"level by level what lies in HZ order within a block (hz), not {way} into others",
            )
            for way in WAYS
            if way.startswith("per-level")
        ),
        ({"along": "x", "ways": ["token"]}, {"chunks": [2, 3, 4]}, "that are independent or collective"),
        (
            {"along": "x", "ways": ["independent"]}, {"chunks": "auto", "filters": ["shuffle"]},
            "chunks that go through filters by collective calls alone",
        ),
        (
            {"along": "x", "ways": ["collective"]}, {"settings": {"alloc_time": "incremental"}},
            "ranks make a dataset with all of its space: alloc_time is early",
        ),
        ({"along": "x", "ways": ["plain"]}, {"format": "zarr"}, "MPI ranks"),
    ],
)  # fmt: skip
def test_a_mistake_in_sub_volumes_is_one_line(
    tmp_path: Path, asked: dict[str, Any], layout: Any, says: str
) -> None:
    asked = {"ways": ["aggregated"], **asked}
    assert says in mistake(tmp_path, study_of({"subvolumes": asked, "ranks": [2]}, layout))


def test_an_extent_that_each_already_says_is_refused(tmp_path: Path) -> None:
    case = {"subvolumes": {"along": ["x", "z"], "each": {"x": 5, "z": 50}, "ways": ["token"]}, "ranks": [2]}
    says = "subvolumes.each: shape has an extent of z, too, which ranks and each already say"
    assert says in mistake(tmp_path, study_of({**case, "shape": {"z": 100}}))
    load_study(tmp_path, study_of({**case, "shape": {"y": 10}}))


def test_all_ways_are_tested_and_have_words_and_a_writer() -> None:
    from typing import get_args

    from hyperslab.studies.worker_schema import Way

    assert {*WAYS, *HDF5_WAYS} == set(get_args(Way)) == set(WAY_NAMES)
    assert set(WAYS) == set(sub_volumes.WAYS)
