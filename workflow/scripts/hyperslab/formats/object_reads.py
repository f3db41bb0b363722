"""Reads of arrays in an object store: what goes wrong is one line, whoever the client is."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from hyperslab.data.selections import Box
from hyperslab.formats import OpenArray, plain_errors
from hyperslab.measuring.object_store.address import told


class ObjectReads(OpenArray):
    """An open array whose reads raise OSError, with one line, for whatever a client or a library raises."""

    def __init__(self, opened: OpenArray) -> None:
        self._opened = opened

    def reader(self, box: Box) -> Callable[[], npt.NDArray[Any]]:
        """Return `read` of `box` with everything done but the read."""
        return said_plainly(self._opened.reader(box))

    def write(self, box: Box, block: npt.NDArray[Any]) -> None:
        """Raise OSError: objects are put whole."""
        raise OSError("what lies in an object store is not changed in place")

    def flush(self) -> None:
        """Do nothing: nothing was written."""

    def close(self) -> None:
        """Close array and client."""
        self._opened.close()


def chunks_alone(found: dict[str, float]) -> dict[str, float]:
    """Return of a prediction for files the chunks touched and their stored bytes: a client asks otherwise."""
    return {
        "chunks_touched": found["chunks_touched"],
        "chunk_bytes": found["chunk_bytes"],
        "requested": math.nan,
    }


def said_plainly(call: Callable[[], Any]) -> Callable[[], Any]:
    """Return a call that raises OSError, with one line, for whatever it raises."""
    return plain_errors.said_plainly(call, (Exception,), told)
