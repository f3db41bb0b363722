"""What tests run in the environment of OpenVisus: openvisus_program.py write|read|read-whole DIRECTORY

DIRECTORY holds, for each cell, NAME.json (its specification), NAME.npy (its content) and NAME (the dataset,
where it is read). One line of JSON says what was found.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hyperslab.data.selections import Box, coarse, disk_order
from hyperslab.formats.idx.array import FORMAT
from hyperslab.formats.idx.places import files_of
from hyperslab.measuring.counters import Counters, between


def write(directory: Path, name: str, spec: Any, content: Any) -> None:
    """Write a cell's dataset in halves along its last axis."""
    opened = FORMAT.create(str(directory / name), spec)
    half = content.shape[-1] // 2
    for first, last in ((0, half), (half, content.shape[-1])):
        box = Box((0,) * (content.ndim - 1) + (first,), (*content.shape[:-1], last - first))
        opened.write(box, content[..., first:last])
    opened.flush()
    opened.close()


def boxes_of(shape: Sequence[int]) -> Iterator[Box]:
    """Yield the whole array, a part in the middle, one at the end, and a plane."""
    third = tuple(max(1, extent // 3) for extent in shape)
    yield Box((0,) * len(shape), tuple(shape))
    yield Box(tuple(extent // 3 for extent in shape), third)
    yield Box(tuple(extent - one for extent, one in zip(shape, third, strict=True)), third)
    yield Box((*(0 for _ in shape[1:]), shape[-1] // 2), (*shape[:-1], 1))


def steps_of_levels(spec: Any, axes: int) -> Iterator[tuple[str, list[int]]]:
    """Yield the distance between samples, in array terms, of each level of the bitmask; then of every second
    and fourth sample along each axis, which may be no level.
    """
    files, order = files_of(spec), disk_order(spec)
    for level in range(files.bitmask.bits + 1):
        steps = [*(1 for _ in range(files.leading)), *files.bitmask.steps(level)]
        yield str(level), [steps[order.index(axis)] for axis in range(axes)]
    yield from ((f"every {by}", [by] * axes) for by in (2, 4))


def read_whole(directory: Path, name: str, spec: Any, content: Any) -> list[dict[str, Any]]:
    """Read it whole at every level; returns what differs, and what was requested."""
    return read(directory, name, spec, content, boxes=1)


def read(directory: Path, name: str, spec: Any, content: Any, boxes: int = 2) -> list[dict[str, Any]]:
    """The same with another box at each level, the other three in turn."""
    path, counters, found = str(directory / name), Counters(), []
    stored = FORMAT.stored_sizes(path, spec)
    whole, *others = boxes_of(content.shape)
    # Names of another length begin with another one.
    for number, (level, steps) in enumerate(steps_of_levels(spec, content.ndim), len(name)):
        for box in (whole, others[number % len(others)])[:boxes]:
            asked = coarse(box, steps)
            opened = FORMAT.open(path, spec)
            reader = opened.reader(asked)
            before = counters.read()
            there = reader()
            counted = between(before, counters.read())
            predicted = FORMAT.predict(asked, spec, stored)
            inside = Box(asked.origin, asked.extent).slices()
            found.append(
                {
                    "level": level,
                    "equal": bool(np.array_equal(there, asked.of(content[inside]))),
                    "counted": [counted["requested_bytes"], counted["requested_reads"]],
                    "predicted": [predicted["requested"], predicted["requested_reads"]],
                }
            )
            opened.close()
    return found


DEEDS: dict[str, Any] = {"write": write, "read": read, "read-whole": read_whole}


def main() -> None:
    """Run the command."""
    do, directory = DEEDS[sys.argv[1]], Path(sys.argv[2])
    found: dict[str, Any] = {}
    for file in sorted(directory.glob("*.json")):
        spec = json.loads(file.read_text(encoding="utf-8"))
        spec["layout"]["settings"]["library"] = "openvisus"
        content = np.load(file.with_suffix(".npy"))
        found[file.stem] = do(directory, file.stem, spec, content)
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main()
