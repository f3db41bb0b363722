"""Strategies of writing: the blocks by which a case covers an array, one write call each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def block_extent(
    case: Mapping[str, Any], axes: Sequence[str], shape: Sequence[int], chunks: Sequence[int] | None
) -> tuple[int, ...]:
    """Return the elements per axis that one write call covers.

    whole: everything; chunk: one chunk; spectrum: one line along the last axis; spectra-block: a chunk's
    extent along all axes but the last, which is whole. A contiguous array has no chunks: there, a chunk is
    one plane of the first axis.
    """
    chunk = list(chunks) if chunks else [1, *shape[1:]]
    named: dict[str, Sequence[int]] = {
        "whole": shape,
        "chunk": chunk,
        "spectrum": [1] * (len(shape) - 1) + [shape[-1]],
        "spectra-block": [*chunk[:-1], shape[-1]],
    }
    if case["strategy"] in named:
        return tuple(named[case["strategy"]])
    sizes = zip(axes, shape, chunk, strict=True)
    asked = ((case["block"].get(axis, "all"), whole, one) for axis, whole, one in sizes)
    return tuple(
        {"all": whole, "chunk": one}.get(extent) or min(extent, whole) for extent, whole, one in asked
    )
