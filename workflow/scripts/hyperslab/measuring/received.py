"""Bytes of the answers that clients in this process have had over HTTP, as they came over the wire, and how
many of them said that the server is too busy.

Counted in the package `requests`, with which the clients of HSDS and OPeNDAP ask: an answer knows how many
bytes of its body were read from its socket, before anything was decoded.
"""

from __future__ import annotations

from typing import Any

# Answers that may still be read, with the bytes that had come of each when somebody last asked, and the bytes
# of all others.
_open: list[tuple[Any, int]] = []
_done = 0
_busy = 0
_counting = False
BUSY = 503


def begin() -> None:
    """Begin to count; more calls change nothing."""
    global _counting
    if _counting:
        return
    from requests.adapters import HTTPAdapter

    build = HTTPAdapter.build_response

    def kept(self: Any, request: Any, answer: Any) -> Any:
        global _busy
        found = build(self, request, answer)
        _open.append((answer, -1))
        if answer.status == BUSY:
            _busy += 1
            # Nobody else reads why, and what is not read to its end keeps its connection from others.
            _ = found.content
        return found

    # Every answer of every kind of session comes through here.
    setattr(HTTPAdapter, "build_response", kept)  # noqa: B010
    _counting = True


def so_far() -> int | None:
    """Return the bytes of all bodies so far; None where nothing counts them."""
    global _done
    if not _counting:
        return None
    left = []
    for answer, before in _open:
        now: int = answer.tell()
        # Who has read nothing of it since the last time reads no more: it would keep its socket.
        if answer.closed or now == before:
            _done += now
        else:
            left.append((answer, now))
    _open[:] = left
    return _done + sum(now for _, now in left)


def turned_away() -> int:
    """Return how many requests so far were answered with the server being too busy, and asked again."""
    return _busy
