"""How an array is read, as one line says it: "image: [all, all, 1]; 3 x spectrum: {x: 1, y: 1}"."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from hyperslab.validation.errors import name_mistake
from hyperslab.validation.nearest import choices
from hyperslab.validation.yaml_files import misread

ONE = re.compile(r"(?:(?P<weight>\d+(?:\.\d*)?|\.\d+)\s*x\s+)?(?P<name>[^:\s]+)\s*:(?P<box>.*)", re.DOTALL)
EXAMPLE = '"image: [all, all, 1]; 3 x spectrum: [1, 1, all]"'
# A small box has about so many elements along each axis.
SMALL = 16
# Of an array of more axes so many, the longest, have their planes among the usual reads.
PLANES_OF = 3


class ReadMistake(Exception):
    """Reads that cannot be meant; the text is one line that names the read and the fix."""


@dataclass(frozen=True)
class Read:
    """One way to read: a box of `extent` elements along each axis, anywhere; `weight` says how often."""

    name: str
    extent: tuple[int, ...]
    weight: float | None = None


def parse(text: str, axes: Sequence[str], shape: Sequence[int]) -> list[Read]:
    """Return the reads that a line names; raises ReadMistake.

    A read is a list with an extent or `all` for each axis in the file's order, or a mapping of axes to these,
    which reads all of those that it leaves out. `axes` and `shape` are those of the array, in elements.
    """
    found: list[Read] = []
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        match = ONE.fullmatch(part)
        if not match:
            raise ReadMistake(f"{part!r} should be a name and a box, such as {EXAMPLE}")
        name = match["name"]
        if wrong := name_mistake(name):
            raise ReadMistake(f"the name of read {name!r} {wrong}")
        if name in (other.name for other in found):
            raise ReadMistake(f"{name!r} is read twice; say `2 x {name}: …` for what is read more often")
        try:
            wrong, box = misread(match["box"]), yaml.safe_load(match["box"])
        # PyYAML lets what int(), datetime() and its own tables raise for a bad scalar through.
        except (yaml.YAMLError, ValueError, KeyError, AttributeError):
            raise ReadMistake(f"{name}: {match['box'].strip()!r} is no list, such as {EXAMPLE}") from None
        if wrong:
            raise ReadMistake(f"{name}: {wrong}")
        weight = float(match["weight"]) if match["weight"] else None
        found.append(Read(name, _extents(name, box, axes, shape), weight))
    if not found:
        raise ReadMistake(f"no read is named; say for example {EXAMPLE}")
    if all(read.weight == 0 for read in found):
        raise ReadMistake("every read happens 0 times; give one of them a weight above 0")
    return found


def of_mapping(
    boxes: Mapping[str, Any], mix: Mapping[str, float], axes: Sequence[str], shape: Sequence[int]
) -> list[Read]:
    """Return the reads that a study gives as a mapping of names to boxes; raises ReadMistake."""
    if unknown := [name for name in mix if name not in boxes]:
        raise ReadMistake(f"mix: no read {unknown[0]!r}; there are {choices(unknown[0], boxes)}")
    if not boxes:
        raise ReadMistake(f"no read is named; say for example {EXAMPLE}")
    if missing := [name for name in boxes if mix and name not in mix]:
        raise ReadMistake(f"mix: says nothing of read {missing[0]!r}; say how often it happens, 0 for never")
    if mix and not any(mix.values()):
        raise ReadMistake("every read happens 0 times; give one of them a weight above 0")
    return [
        Read(name, _extents(name, box, axes, shape), mix[name] if mix else None)
        for name, box in boxes.items()
    ]


def _extents(name: str, box: Any, axes: Sequence[str], shape: Sequence[int]) -> tuple[int, ...]:
    """Return the elements that a box has along each axis; raises ReadMistake."""
    if isinstance(box, dict):
        for axis in box:
            if axis not in axes:
                raise ReadMistake(f"{name}: no axis {axis!r}; the array has {choices(str(axis), axes)}")
        box = [box.get(axis, "all") for axis in axes]
    if not isinstance(box, list) or len(box) != len(axes):
        words = ", ".join(f"{axis} {size}" for axis, size in zip(axes, shape, strict=True))
        raise ReadMistake(f"{name}: give an extent or `all` for each axis of the array: {words}")
    extents = [size if one == "all" else one for one, size in zip(box, shape, strict=True)]
    for axis, one, size in zip(axes, extents, shape, strict=True):
        if type(one) is not int or one < 1:
            raise ReadMistake(f"{name}: {one!r} along {axis} should be a whole number from 1 on, or `all`")
        if one > size:
            raise ReadMistake(f"{name}: {one} elements along {axis} are more than the axis has, {size}")
    return tuple(extents)


def usual(axes: Sequence[str], shape: Sequence[int]) -> list[Read]:
    """Return reads that are usual for a shape: a line along each axis, a plane of each two axes, and a small
    box. Of more than three axes planes are those of the longest three, of the first two, along which a scan
    goes, and of the last two, an image at one place.
    """
    long = [at for at, size in enumerate(shape) if size > 1]
    if len(long) < 2:
        return [Read("part", tuple(-(-size // 100) for size in shape))]
    wanted = [Read(_called("along", axes, [at]), _whole(shape, [at])) for at in long]
    if len(long) > 2:
        longest = sorted(sorted(long, key=lambda at: -shape[at])[:PLANES_OF])
        pairs = dict.fromkeys([*itertools.combinations(longest, 2), (long[0], long[1]), (long[-2], long[-1])])
        wanted += [Read(_called("plane", axes, pair), _whole(shape, pair)) for pair in pairs]
    wanted.append(Read("small-box", tuple(min(size, SMALL) for size in shape)))
    boxes: dict[tuple[int, ...], Read] = {}
    for read in wanted:
        boxes.setdefault(read.extent, read)
    return list(boxes.values())


def _called(kind: str, axes: Sequence[str], along: Sequence[int]) -> str:
    """Return the name of a usual read: with those of its axes, or their numbers where that is too long."""
    name = "-".join([kind, *(axes[at] for at in along)])
    return "-".join([kind, *map(str, along)]) if name_mistake(name) else name


def line(reads: Sequence[Read], shape: Sequence[int]) -> str:
    """Return reads as a line says them."""
    boxes = [
        ", ".join("all" if one == size else str(one) for one, size in zip(read.extent, shape, strict=True))
        for read in reads
    ]
    return "; ".join(f"{read.name}: [{box}]" for read, box in zip(reads, boxes, strict=True))


def _whole(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """Return all of some axes, and one element along the others."""
    return tuple(size if at in axes else 1 for at, size in enumerate(shape))


def cropped(reads: Sequence[Read], shape: Sequence[int]) -> list[Read]:
    """Return the reads of an array that is cut to `shape`: no longer than it along any axis."""
    return [
        Read(
            read.name,
            tuple(min(one, size) for one, size in zip(read.extent, shape, strict=True)),
            read.weight,
        )
        for read in reads
    ]


def shares(reads: Sequence[Read]) -> dict[str, float]:
    """Return how often each read happens; one without a weight happens once."""
    return {read.name: 1.0 if read.weight is None else read.weight for read in reads}
