"""Selections through the REST interface of HSDS as JSON, on the connection that h5pyd has opened.

h5pyd has values sent as they lie in memory; a client of another language, or a browser, asks for JSON. What
the server does is the same but for that. A request is cut along the first axes, for the text of a value is
several times as long as the value, and the server takes requests of 100 MB at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.data.selections import Box
from hyperslab.data.tiles import tiles
from hyperslab.measuring.servers import ServerError

# As text a value takes up to 27 bytes. An answer may have 100 MB, and what is sent as JSON 1 MiB: HSDS leaves
# that limit as aiohttp has it.
READ_VALUES, WRITE_VALUES = 2**20, 2**15


def pieces(box: Box, values: int) -> Iterator[Box]:
    """Yield the boxes, one a request, that make up `box`."""
    for part in tiles(box.extent, [1] * len(box.extent), 1, values):
        yield Box(tuple(a + b for a, b in zip(box.origin, part.origin, strict=True)), part.extent)


def select(box: Box) -> str:
    """Return a box as the interface has it: "[0:10,5:6]"."""
    ends = (f"{start}:{start + width}" for start, width in zip(box.origin, box.extent, strict=True))
    return f"[{','.join(ends)}]"


def read(http: Any, dataset: str, box: Box, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the elements of a box; raises OSError with the status of an answer that is none."""
    found = np.empty(box.extent, dtype)
    for piece in pieces(box, READ_VALUES):
        answer = http.GET(f"/datasets/{dataset}/value", params={"select": select(piece)})
        if answer.status_code != 200:
            raise OSError(answer.status_code, "no values")
        values = np.array(answer.json()["value"], dtype)
        if values.size != np.prod(piece.extent):
            raise ServerError(f"HSDS gives {values.size} values for {select(piece)}")
        inside = [a - b for a, b in zip(piece.origin, box.origin, strict=True)]
        found[Box(tuple(inside), piece.extent).slices()] = values.reshape(piece.extent)
    return found


def write(http: Any, dataset: str, box: Box, block: npt.NDArray[Any]) -> None:
    """Store a block at a box; raises OSError with the status where the server does not take it."""
    for piece in pieces(box, WRITE_VALUES):
        inside = tuple(a - b for a, b in zip(piece.origin, box.origin, strict=True))
        body = {
            "start": list(piece.origin),
            "stop": [a + b for a, b in zip(piece.origin, piece.extent, strict=True)],
            "value": block[Box(inside, piece.extent).slices()].tolist(),
        }
        answer = http.PUT(f"/datasets/{dataset}/value", body=body)
        if answer.status_code not in (200, 201):
            raise OSError(answer.status_code, "not taken")
