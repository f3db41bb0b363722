"""Arithmetic of chunked storage: how many chunks, how much padding, which a library chooses."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

Shape = Sequence[int]


def chunks_per_axis(shape: Shape, chunk: Shape) -> tuple[int, ...]:
    """Return the number of chunks along each axis; `shape` and `chunk` in elements."""
    return tuple(-(-extent // size) for extent, size in zip(shape, chunk, strict=True))


def chunk_count(shape: Shape, chunk: Shape) -> int:
    """Return the number of chunks that an array of `shape` needs."""
    return math.prod(chunks_per_axis(shape, chunk))


def padding_bytes(shape: Shape, chunk: Shape, itemsize: int) -> int:
    """Return the bytes of unfiltered storage that hold no array element,
    because edge chunks are stored whole.
    """
    stored = math.prod(count * size for count, size in zip(chunks_per_axis(shape, chunk), chunk, strict=True))
    return (stored - math.prod(shape)) * itemsize


def touched_per_axis(origin: Shape, extent: Shape, chunk: Shape) -> tuple[range, ...]:
    """Return the range of chunk coordinates that the box at `origin` with `extent` (elements) touches,
    per axis.
    """
    return tuple(
        range(start // size, (start + width - 1) // size + 1)
        for start, width, size in zip(origin, extent, chunk, strict=True)
    )


def chunks_touched(origin: Shape, extent: Shape, chunk: Shape) -> int:
    """Return the number of chunks that a box touches."""
    return math.prod(len(axis) for axis in touched_per_axis(origin, extent, chunk))


def linear_chunk_indices(origin: Shape, extent: Shape, shape: Shape, chunk: Shape) -> Iterator[int]:
    """Yield the row-major positions of the chunks that a box touches, ascending."""
    counts = chunks_per_axis(shape, chunk)
    strides = [math.prod(counts[axis + 1 :]) for axis in range(len(counts))]
    for coordinates in itertools.product(*touched_per_axis(origin, extent, chunk)):
        yield sum(c * s for c, s in zip(coordinates, strides, strict=True))


def run_axis(extent: Shape, shape: Shape) -> int:
    """Return the axis along which a box lies in runs of row-major storage:
    it holds all of every later one.
    """
    axis = len(shape) - 1
    while axis > 0 and extent[axis] == shape[axis]:
        axis -= 1
    return axis


def contiguous_runs(origin: Shape, extent: Shape, shape: Shape) -> Iterator[tuple[int, int]]:
    """Yield (start, length) in elements of the runs that a box forms in row-major storage, ascending."""
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    inner = run_axis(extent, shape)
    length = extent[inner] * strides[inner]
    outer = [range(start, start + width) for start, width in zip(origin[:inner], extent[:inner], strict=True)]
    for coordinates in itertools.product(*outer):
        yield (
            sum(c * s for c, s in zip(coordinates, strides, strict=False)) + origin[inner] * strides[inner],
            length,
        )


def first_run(least: int, origin: Shape, extent: Shape, shape: Shape) -> int | None:
    """Return where the first run of a box begins that does not begin before `least`, in elements of row-major
    storage; None where there is none.
    """
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    inner = run_axis(extent, shape)
    last = [start + width - 1 for start, width in zip(origin, extent, strict=True)]
    begins = origin[inner] * strides[inner]
    rest, found = max(0, least - begins), []
    for axis in range(inner):
        found.append(max(rest // strides[axis], origin[axis]))
        rest = max(0, rest - found[-1] * strides[axis])
        if found[-1] > last[axis]:
            break
    # Behind the last along an axis, or within a run: the next one, as an odometer has it.
    if rest or (found and found[-1] > last[len(found) - 1]):
        while found and found[-1] >= last[len(found) - 1]:
            found.pop()
        if not found:
            return None
        found[-1] += 1
    found += origin[len(found) : inner]
    return begins + sum(at * stride for at, stride in zip(found, strides, strict=False))


def automatic_chunk(
    shape: Shape, itemsize: int, scale: int = 16 * 1024, least: int = 8 * 1024, most: int = 1024 * 1024
) -> tuple[int, ...]:
    """Return the chunk shape that h5py chooses for `chunks=True`; with other bounds (in bytes),
    that of zarr-python.

    Target `scale` x 2^log10(array MiB) within `least` and `most`; the axes are halved in turn (rounding up)
    until the chunk is below the target or within 50 % of it, and below `most`.
    """
    chunk = [float(extent if extent else 1024) for extent in shape]
    target = scale * 2 ** math.log10(math.prod(chunk) * itemsize / 2**20)
    target = min(max(target, least), most)
    for turn in itertools.count():
        size = math.prod(chunk) * itemsize
        if (size < target or abs(size - target) / target < 0.5) and size < most:
            break
        if math.prod(chunk) == 1:
            break
        axis = turn % len(chunk)
        chunk[axis] = math.ceil(chunk[axis] / 2)
    return tuple(int(extent) for extent in chunk)


def even_chunks(shape: Shape, itemsize: int, size: int) -> list[int]:
    """Return a chunk shape of at most `size` bytes and about half of it, with as many chunks along every axis
    as axes allow.

    Planes across any axis then touch about equally many chunks.
    """
    chunk = list(shape)
    while math.prod(chunk) * itemsize > size:
        counts = [-(-extent // part) for extent, part in zip(shape, chunk, strict=True)]
        splittable = [axis for axis, part in enumerate(chunk) if part > 1]
        axis = min(splittable, key=lambda at: (counts[at], -chunk[at]))
        chunk[axis] = -(-chunk[axis] // 2)
    return chunk


def balanced_chunk(shape: Shape, itemsize: int, most: int) -> tuple[int, ...]:
    """Return the chunk shape that Unidata proposes for an array (time, y, x), of at most `most` bytes.

    A series at one point touches about as many chunks as a map at one time does (Russ Rew, "Chunking Data:
    Choosing Shapes", Unidata developers' blog, 2013, and its chunk_shape_3D.py): with N chunks in all, each
    axis of a map has N^(1/4) of them, and time the square of that. Rounded down, then raised by one along
    those axes that bring a chunk nearest to `most`. Raises ValueError unless there are three axes.
    """
    if len(shape) != 3:
        raise ValueError("Unidata's formula is one of three axes: time and two of space")
    values = most / itemsize
    across = (math.prod(shape) / values) ** 0.25
    time = shape[0] / across**2
    if time < 1:
        across /= math.sqrt(time)
    # What an axis is too short for, the others get.
    longer = math.prod(across / extent for extent in shape[1:] if extent < across)
    floor = [max(1, int(time))]
    floor += [1 if extent < across else int(longer * extent // across) for extent in shape[1:]]
    raised = [tuple(map(sum, zip(floor, more, strict=True))) for more in itertools.product((0, 1), repeat=3)]
    fitting = [chunk for chunk in raised if math.prod(chunk) <= values]
    best = max(fitting, key=math.prod, default=tuple(floor))
    return tuple(min(size, extent) for size, extent in zip(best, shape, strict=True))
