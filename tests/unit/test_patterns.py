"""Patterns: strides and checkerboards select what they say, in any layout; their requests are predicted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import file_specification, read_cell, values_of
from studies import changed, load, mistake

from hyperslab import cases
from hyperslab.cases.context import Context, VerificationError
from hyperslab.data.selections import Pattern
from hyperslab.data.values import open_values
from hyperslab.formats.hdf5.array import FORMAT
from hyperslab.specifications import Specification


@st.composite
def patterns(draw: st.DrawFn, dimensions: int, board: bool = False) -> Pattern:
    """Any pattern of so many axes; a checkerboard has strides along two axes at least."""
    axes = []
    for axis in range(dimensions):
        block = draw(st.integers(1, 3))
        of_a_board = 2 * block if axis < 2 else 1
        step = of_a_board if board else draw(st.sampled_from([1, block + 1, block + 2]))
        count = draw(st.integers(1, 4))
        axes.append((draw(st.integers(0, 5)), step * count, step, block if step > 1 else 1))
    origin, extent, steps, blocks = zip(*axes, strict=True)
    return Pattern(origin, extent, steps, blocks, board)


def slow_mask(pattern: Pattern) -> np.ndarray[Any, Any]:
    """Which elements of the box are selected, one by one."""
    mask = np.zeros(pattern.extent, bool)
    axes = list(zip(pattern.step, pattern.block, strict=True))
    for index in np.ndindex(*pattern.extent):
        inside = [i % step < block for i, (step, block) in zip(index, axes, strict=True)]
        if pattern.checkerboard:
            # Of a stepped axis, one half of every step or the other, of all such axes the same.
            stepped = [one for one, (step, _) in zip(inside, axes, strict=True) if step > 1]
            mask[index] = all(stepped) or not any(stepped)
        else:
            mask[index] = all(inside)
    return mask


@given(st.one_of(*(patterns(d) for d in (1, 2, 3)), *(patterns(d, True) for d in (2, 3))))
def test_a_pattern_selects_what_its_definition_says(pattern: Pattern) -> None:
    mask = slow_mask(pattern)
    assert np.array_equal(pattern.mask(), mask)
    block = np.arange(mask.size).reshape(mask.shape)
    selected = pattern.of(block)
    assert selected.shape == pattern.shape
    assert selected.reshape(-1).tolist() == block[mask].tolist()


@settings(max_examples=60)
@given(st.data())
def test_any_pattern_is_read_from_any_layout(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    board = data.draw(st.booleans())
    pattern = data.draw(patterns(3, board))
    room = data.draw(st.lists(st.integers(0, 3), min_size=3, max_size=3))
    shape = [sum(parts) for parts in zip(pattern.origin, pattern.extent, room, strict=True)]
    chunks = data.draw(st.one_of(st.none(), st.tuples(*(st.integers(1, extent) for extent in shape))))
    order = "xyz" if board else "".join(data.draw(st.permutations("xyz")))
    spec = file_specification(shape, chunks, order)
    path = str(tmp_path_factory.mktemp("any") / "a.h5")
    FORMAT.generate(path, spec, values_of(spec))
    opened = FORMAT.open(path, spec)
    found = opened.read(pattern)
    opened.close()
    truth = pattern.of(values_of(spec).block(pattern.origin, pattern.extent))
    assert (found.shape, found.dtype) == (truth.shape, truth.dtype)
    assert np.array_equal(found, truth)


PATTERNS = {
    "interleaved": {"step": [1, 4, 1], "block": [1, 2, 1], "checkerboard": False},
    "scattered": {"step": [1, 1, 8], "block": [1, 1, 3], "checkerboard": False},
    "checkerboard": {"step": [1, 8, 16], "block": [1, 4, 8], "checkerboard": True},
}


@pytest.mark.parametrize("sieve", [64, 4096, 65536])
@pytest.mark.parametrize("chunks", [None, (2, 8, 16)])
@pytest.mark.parametrize("name", PATTERNS)
def test_requests_of_a_pattern_are_those_predicted(
    disk: Path, name: str, chunks: tuple[int, ...] | None, sieve: int
) -> None:
    spec = read_cell(file_specification((6, 40, 160), chunks, sieve_bytes=sieve), (3, 32, 128), {"cold": 4})
    spec["case"]["pattern"] = PATTERNS[name]
    path = disk / f"{name}.{sieve}.h5"
    FORMAT.generate(str(path), spec, values_of(spec))
    rows = cases.load("read")(Context(spec, FORMAT, str(path), values_of(spec), False)).repeats
    path.unlink()
    selected = PATTERNS[name]
    share = np.prod([b / s for s, b in zip(selected["step"], selected["block"], strict=True)])  # type: ignore[call-overload]
    asked = 3 * 32 * 128 * 2 * share * (2 if selected["checkerboard"] else 1)
    assert {row["asked_bytes"] for row in rows} == {asked}
    assert [row["requested_bytes"] for row in rows] == [row["requested_predicted_bytes"] for row in rows]
    assert all(row["chunk_bytes"] >= asked for row in rows)


def test_a_wrong_element_of_a_pattern_is_found(tmp_path: Path) -> None:
    spec = read_cell(file_specification((6, 40, 160)), (3, 32, 128), {"cold": 2})
    spec["case"]["pattern"] = PATTERNS["checkerboard"]
    other: Specification = {**spec, "dataset": {**spec["dataset"], "fill": "random-below-256"}}
    FORMAT.generate(str(tmp_path / "a.h5"), spec, open_values(other["dataset"]))
    with pytest.raises(VerificationError):
        cases.load("read")(Context(spec, FORMAT, str(tmp_path / "a.h5"), values_of(spec), True))


# ---- in a study


def test_a_stride_becomes_step_and_block_of_its_axis(tmp_path: Path) -> None:
    read = {"y": {"extent": 20, "step": 4, "block": 2}, "z": {"step": 2}}
    case = load(tmp_path, changed("cases.slices.read", read)).cases["slices"]
    assert case["extent"] == [20, 20, 400]
    assert case["pattern"] == {"step": [1, 4, 2], "block": [1, 2, 1], "checkerboard": False}


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ({"read": {"y": {"extent": 21, "step": 4}}}, "read.y: extent 21 is not a multiple of the step, 4"),
        ({"read": {"y": {"extent": 31, "step": 31}}}, "read.y: extent 31 does not fit: axis y has 30"),
        ({"read": {"y": {"step": 2, "block": 2}}},
         "read.y: block should be below step (2), or nothing would be left out"),
        ({"read": {"y": {"step": 2}}, "pattern": "checkerboard"},
         "pattern: a checkerboard needs a step and a block along at least two axes"),
        ({"read": {"y": {"step": 3}, "z": {"step": 2}}, "pattern": "checkerboard"},
         "read.y: a checkerboard needs a step of two blocks"),
        ({"write": "chunk", "memory_dtype": "float64"},
         ": memory_dtype: only a `read` case has it"),
        ({"read": {"z": 25}, "memory_dtype": "int16"},
         "memory_dtype: int16 does not hold every uint16; take a wider type (layout 4x4x64)"),
    ],
)  # fmt: skip
def test_what_cannot_be_selected_is_one_line(tmp_path: Path, case: dict[str, Any], message: str) -> None:
    said = mistake(tmp_path, changed("cases.slices", {"states": ["cold", "warm", "session"], **case}))
    assert said == f"cases.slices.{message}".replace(".:", ":")


def test_a_checkerboard_needs_the_order_of_the_axes(tmp_path: Path) -> None:
    content = changed("layouts.auto", {"chunks": "auto", "order": ["z", "x", "y"]})
    content["cases"]["slices"] |= {"read": {"y": {"step": 2}, "z": {"step": 2}}, "pattern": "checkerboard"}
    said = mistake(tmp_path, content)
    assert said.startswith("cases.slices.pattern: a checkerboard needs layouts whose order is that of the ")
    assert said.endswith("(layout auto)")
